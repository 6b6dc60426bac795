"""Calls functions of a student's module, one test at a time.

The host writes requests to standard input and reads answers from standard
output: four bytes of length, then JSON. The first request says what to load. The
module is loaded once, here; each test runs in a fork of this process, so that
none sees what another did. Nothing here knows what a test expects, and nothing
here needs to be safe from the student's code: an answer is only a claim about a
value.

Everything that is used later is imported before the module is loaded: a module
of the student's with the name of one of the standard library must not take its
place.
"""

import base64
import gc
import importlib
import json
import os
import resource
import signal
import sys
from typing import Any, BinaryIO, Dict, List, Optional, Tuple

import assay_tagged as tagged

#: Exit codes of the process that runs a test: what it wrote is whole; the value
#: of its last step cannot be carried because it is too large.
DONE, TOO_LARGE = 0, 97

#: How often a running test is looked at, in seconds.
SLICE = 0.5

Names = Dict[str, Any]


def read_frame(stream: BinaryIO) -> Any:
    """The next request, or None at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    return json.loads(stream.read(int.from_bytes(head, "big")))


def write_frame(fd: int, frame: Any) -> None:
    data = json.dumps(frame).encode("ascii")
    data = len(data).to_bytes(4, "big") + data
    while data:
        data = data[os.write(fd, data) :]


def describe(error: BaseException) -> Names:
    """An exception as its class, the nearest class that Python itself has, and its text."""
    above = "BaseException"
    for c in type(error).__mro__:
        if c.__module__ == "builtins":
            above = c.__name__
            break
    try:
        text = str(error)
    except BaseException:
        text = ""
    return {"class": type(error).__name__, "above": above, "text": plain(text, 4000), "trace": trace(error)}


def plain(text: str, most: int) -> str:
    return text[:most].encode("utf-8", "replace").decode("utf-8")


def trace(error: BaseException) -> str:
    """The lines of the student's own files that an exception came through, innermost last."""
    lines: List[str] = []
    step = error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if name.startswith(SOURCES):
            lines.append("%s, line %d, in %s" % (name[len(SOURCES) :], step.tb_lineno, step.tb_frame.f_code.co_name))
        step = step.tb_next
    return plain("\n".join(lines[-12:]), 2000)


SOURCES = ""


class Test:
    """One test: an object, or none, and the steps that are done one after another."""

    def __init__(self, module: Any):
        self.module = module
        self.codec = tagged.Codec()
        self.made: Optional[Tuple[Any]] = None

    def run(self, steps: List[Names]) -> List[Names]:
        results = []
        for step in steps:
            results.append(self.step(step))
            if "new" in step and self.made is None:
                break
        return results

    def find(self, name: str) -> Any:
        found = self.made[0] if self.made else self.module
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def step(self, step: Names) -> Names:
        args = [self.codec.decode(a) for a in step.get("args", [])]
        kwargs = {k: self.codec.decode(v) for k, v in step.get("kwargs", [])}
        name = step.get("new") or step.get("call") or step["get"]
        if "new" in step:
            self.made = None
        try:
            target = self.find(name)
        except AttributeError:
            return {"missing": name}
        except BaseException as e:
            return {"raised": describe(e)}
        result: Names
        try:
            value = target if "get" in step else target(*args, **kwargs)
            if "new" in step:
                self.made, value = (value,), None
            result = {"value": self.encode(value)}
        except Unplain as e:
            result = {"unplain": e.args[0]}
        except BaseException as e:
            result = {"raised": describe(e)}
        if step.get("after"):
            try:
                result["after"] = [self.encode(a) for a in args]
            except Unplain as e:
                result = {"unplain": e.args[0]}
        return result

    def encode(self, value: Any) -> Any:
        try:
            return self.codec.encode(value)
        except tagged.TaggedError as e:
            raise Unplain(plain(str(e), 200)) from None


class Unplain(Exception):
    """A value that cannot be carried, with the reason."""


class Server:
    """Loads the module and answers requests."""

    def __init__(self, requests: BinaryIO, answers: int, setup: Names):
        self.requests, self.answers = requests, answers
        self.time, self.wall = setup["cpu_seconds"], setup["wall_seconds"]
        self.output, self.largest = setup["output"], setup["result"]
        self.folders = setup["folders"]
        self.seed = setup["seed"]
        self.module: Any = None
        self.kept: List[set] = []

    def load(self, name: str) -> None:
        """Imports the module; what it prints goes to standard error."""
        try:
            self.module = importlib.import_module(name)
            flush()
        except BaseException as e:
            flush()
            write_frame(self.answers, {"failed": describe(e), "syntax": syntax(e)})
            os._exit(0)
        # Whatever the module did with the signal of a child's end.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        self.kept = [set(os.listdir(f)) for f in self.folders]
        # A collection in a fork would write to, and so copy, all that is here.
        gc.freeze()
        write_frame(self.answers, {"ready": True})

    def serve(self) -> None:
        while True:
            request = read_frame(self.requests)
            if request is None:
                os._exit(0)
            write_frame(self.answers, self.answer(request))
            self.clean()

    def answer(self, request: Names) -> Names:
        """Runs one test in a process of its own and says how it ended."""
        stdin, stdout, stderr, result = (os.memfd_create(n) for n in ("stdin", "stdout", "stderr", "result"))
        os.write(stdin, request["stdin"].encode("utf-8", "surrogatepass"))
        os.lseek(stdin, 0, os.SEEK_SET)
        child = os.fork()
        if child == 0:
            self.become(request["steps"], stdin, stdout, stderr, result)
        status, usage, over = self.wait(child)
        answer: Names = {
            "id": request["id"],
            "stdout": captured(stdout, self.output),
            "stderr": captured(stderr, self.output),
            "cpu_us": int((usage.ru_utime + usage.ru_stime) * 1e6),
            "memory": usage.ru_maxrss * 1024,
        }
        if over:
            answer["ended"] = over
        elif os.WIFSIGNALED(status):
            answer["signal"] = os.WTERMSIG(status)
        elif os.WEXITSTATUS(status) == TOO_LARGE:
            answer["ended"] = "too_large"
        else:
            answer["code"] = os.WEXITSTATUS(status)
            answer["results"] = self.results(result)
        for fd in (stdin, stdout, stderr, result):
            os.close(fd)
        return answer

    def wait(self, child: int) -> Tuple[int, Any, str]:
        """Waits for a test's process and ends everything that it left behind. The
        last of the three says what it had too much of, if not "".
        """
        over, left = "", self.wall
        while True:
            if signal.sigtimedwait([signal.SIGCHLD], min(left, SLICE)) is None:
                left -= SLICE
                if left <= 0:
                    over = "wall"
                elif cpu_seconds(child) > self.time + SLICE:
                    # It ignores the signal that tells it so.
                    over = "cpu"
            done, status, usage = os.wait4(child, os.WNOHANG)
            if done or over:
                break
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if not done:
            _, status, usage = os.wait4(child, 0)
        try:
            while True:
                os.wait4(-1, 0)
        except ChildProcessError:
            pass
        while signal.sigtimedwait([signal.SIGCHLD], 0) is not None:
            pass
        return status, usage, over

    def results(self, fd: int) -> str:
        """What the process wrote as its result, as text: the host reads it."""
        size = os.fstat(fd).st_size
        if size > self.largest:
            return ""
        return os.pread(fd, size, 0).decode("utf-8", "replace")

    def become(self, steps: List[Names], stdin: int, stdout: int, stderr: int, result: int) -> None:
        """Is the process of one test. It never returns."""
        code = 98
        try:
            for fd, to in ((stdin, 0), (stdout, 1), (stderr, 2)):
                os.dup2(fd, to)
            os.close(self.answers)
            self.requests.close()
            # A module's handlers of signals, and what Python ignores, are not a
            # test's: each ends it, so that the host can see which it was.
            for s in (signal.SIGXCPU, signal.SIGXFSZ, signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
                signal.signal(s, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            resource.setrlimit(resource.RLIMIT_CPU, (self.time, self.time + 1))
            random = sys.modules.get("random")
            if random is not None:
                random.seed(self.seed)
            data = json.dumps(Test(self.module).run(steps)).encode("ascii")
            flush()
            code = DONE
            if len(data) > self.largest:
                code = TOO_LARGE
            elif os.write(result, data) != len(data):
                code = 98
        finally:
            os._exit(code)

    def clean(self) -> None:
        """Removes what the last test left in the folders that it could write to."""
        for folder, kept in zip(self.folders, self.kept):
            try:
                left = [n for n in os.listdir(folder) if n not in kept]
            except OSError:
                continue
            for name in left:
                remove(os.path.join(folder, name))


def remove(path: str) -> None:
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
            for name in os.listdir(path):
                remove(os.path.join(path, name))
            os.rmdir(path)
        else:
            os.unlink(path)
    except OSError:
        pass


def cpu_seconds(process: int) -> float:
    """The processor time of a running process, without its children's."""
    try:
        with open("/proc/%d/stat" % process, "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def captured(fd: int, most: int) -> Names:
    """The beginning of what was written, and how much it was."""
    size = os.fstat(fd).st_size
    return {"data": base64.b64encode(os.pread(fd, min(size, most), 0)).decode("ascii"), "size": size}


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass


def syntax(error: BaseException) -> str:
    """File and line of a syntax error in the student's sources."""
    if isinstance(error, SyntaxError) and error.filename:
        return "%s, line %s" % (error.filename.replace(SOURCES, "", 1), error.lineno)
    return ""


def main() -> None:
    """Takes standard input and output for the host, and gives the module others."""
    global SOURCES
    if os.getuid() == 0:
        sys.exit("the caller ends all processes that it can reach: never run it as root")
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.dup(1)
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    write_frame(answers, {"awake": True})
    setup = read_frame(requests)
    SOURCES = setup["sources"] + "/"
    if setup["clock_moved"]:
        import assay_clock

        assay_clock.move(setup["clock_moved"])
    sys.path[0] = setup["sources"]
    sys.argv = [setup["module"]]
    server = Server(requests, answers, setup)
    server.load(setup["module"])
    server.serve()


if __name__ == "__main__":
    main()
