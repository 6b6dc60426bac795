"""The student's process: holds the submission's modules and does what it is asked.

The host starts it before there are any files, and sends a line when they and the
JSON file of settings are there. Everything here shares a process
with code that may do anything to it; nothing that it says is believed for more
than "this is what the student's code did".
"""

import builtins
import importlib
import io
import os
import signal
import sys
import threading
import traceback
import types
from typing import Any, Dict, List

from _assay import border, clock, shared

#: How much printed text is held back before it is sent on.
FLUSH_AT = 32 << 10


class Printed(io.TextIOBase):
    """sys.stdout or sys.stderr: text goes to the tests' process, in order."""

    encoding = "utf-8"
    errors = "strict"

    def __init__(self, agent: "Agent", stream: str, descriptor: int) -> None:
        self.agent, self.stream, self.descriptor = agent, stream, descriptor
        self.buffer = PrintedBytes(self)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.descriptor

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not %s" % type(text).__name__)
        text.encode("utf-8")
        self.agent.printed(self.stream, str(text))
        return len(text)


class PrintedBytes(io.RawIOBase):
    """The buffer attribute of Printed."""

    def __init__(self, text: Printed) -> None:
        self.text = text

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.text.write(bytes(data).decode("utf-8", "replace"))
        return len(data)


class Typed(io.TextIOBase):
    """sys.stdin: lines are asked for when they are wanted."""

    encoding = "utf-8"

    def __init__(self, agent: "Agent") -> None:
        self.agent = agent

    def readable(self) -> bool:
        return True

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        return self.agent.ask("stdin", name="readline")

    def read(self, size: int = -1) -> str:  # type: ignore[override]
        return self.agent.ask("stdin", name="read", args=(size,))

    def __next__(self) -> str:
        line = self.readline()
        if not line:
            raise StopIteration
        return line


class Agent(border.Border):
    """The student's end of the border."""

    def __init__(self, settings: Dict[str, Any], incoming: Any, outgoing: Any) -> None:
        super().__init__(incoming, outgoing)
        self.root = settings["root"]
        self.out: List[List[str]] = []
        self.out_size = 0
        self.out_lock = threading.RLock()
        self.given: set = set()
        self.patched: Dict[str, Any] = {}
        self.files = shared.Shared(self.root)

    # Output.

    def printed(self, stream: str, text: str) -> None:
        with self.out_lock:
            if self.out and self.out[-1][0] == stream and len(self.out) > 64:
                self.out[-1][1] += text
            else:
                self.out.append([stream, text])
            self.out_size += len(text)
            full = self.out_size >= FLUSH_AT
        if full:
            with self.lock:
                if self.turn:
                    self.send(self.finished({"k": "out"}))

    def finished(self, frame: Dict[str, Any]) -> Dict[str, Any]:
        with self.out_lock:
            if self.out:
                frame["out"], self.out, self.out_size = self.out, [], 0
        if frame["k"] != "out":
            files = self.files.changes()
            if files:
                frame["files"] = files
        return frame

    # Questions.

    def arrived(self, frame: Dict[str, Any]) -> None:
        if "files" in frame:
            self.files.apply(frame["files"])
        if "env" in frame:
            os.environ.clear()
            os.environ.update(frame["env"])
        if "cwd" in frame:
            os.makedirs(frame["cwd"], exist_ok=True)
            os.chdir(frame["cwd"])
        if "patch" in frame:
            self.patch(frame["patch"])

    def serve(self, frame: Dict[str, Any]) -> None:
        if frame.get("new"):
            # A limit of the test, kept by the kernel; the host has a clock of its own.
            signal.setitimer(signal.ITIMER_PROF, frame["new"])
        super().serve(frame)

    def perform_other(self, op: Any, name: str, args: List[Any], kwargs: Dict[str, Any]) -> Any:
        if op == "import":
            return self.bring(name)
        if op == "use":  # a function of the standard library, with the state of this process
            return border.import_reference(name)(*args, **kwargs)
        if op == "derive":
            return self.derive(name, *args)
        return super().perform_other(op, name, args, kwargs)

    def bring(self, name: str) -> Any:
        """Imports a module of the student's, anew when it was asked for before."""
        module = sys.modules.get(name)
        if module is not None and (name in self.given or not self.owns(module)):
            del sys.modules[name]
        importlib.invalidate_caches()
        module = importlib.import_module(name)
        self.given.add(name)
        public = getattr(module, "__all__", None)
        if public is None:
            public = [n for n in vars(module) if not n.startswith("_")]
        return [module, [str(n) for n in public], module.__doc__]

    def owns(self, module: Any) -> bool:
        path = getattr(module, "__file__", None)
        return type(path) is str and path.startswith(self.root) or hasattr(module, "__path__") and path is None

    def derive(self, name: str, bases: Any, space: Dict[str, Any]) -> type:
        """Makes a class of ours for a class that a test derived from one of ours."""

        def method(function: Any) -> Any:
            return lambda *args, **kwargs: function(*args, **kwargs)

        body = {k: method(v) if callable(v) and not isinstance(v, type) else v for k, v in space.items()}
        return types.new_class(name, tuple(bases), {}, lambda ns: ns.update(body))

    def patch(self, wanted: Dict[str, Any]) -> None:
        """Makes the patches of the test's process ours: those named and no others."""
        for reference in list(self.patched):
            if reference not in wanted:
                module, _, name = reference.partition(":")
                setattr(importlib.import_module(module), name, self.patched.pop(reference))
        for reference, data in wanted.items():
            module, _, name = reference.partition(":")
            owner = importlib.import_module(module)
            self.patched.setdefault(reference, getattr(owner, name))
            setattr(owner, name, self.decode(data))

    def resolve(self, reference: str) -> Any:
        return border.import_reference(reference)

    def describe(self, error: BaseException) -> str:
        """The traceback through the student's own files."""
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(self.root)]
        for frame in frames:
            frame.filename = frame.filename[len(self.root) :].lstrip("/")
        lines = ["Traceback (most recent call last):\n"] + traceback.format_list(frames[-20:]) if frames else []
        try:
            lines += traceback.format_exception_only(type(error), error)
        except Exception:
            lines.append("%s\n" % type(error).__name__)
        text = "".join(lines).replace(self.root + "/", "")[-8000:]
        return text.encode("utf-8", "replace").decode("utf-8")


def take_streams() -> Any:
    """Takes the link to the host off the descriptors that student's code knows."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return incoming, outgoing


def main() -> None:
    settings = border.awake(sys.argv[1])
    incoming, outgoing = take_streams()
    agent = Agent(settings, incoming, outgoing)
    sys.stdout, sys.stderr = Printed(agent, "o", 1), Printed(agent, "e", 2)
    sys.stdin = Typed(agent)

    def ask_input(prompt: Any = "", /) -> str:
        return agent.ask("builtin", name="input", args=(prompt,))

    ask_input.__name__ = ask_input.__qualname__ = "input"
    ask_input.__module__ = "builtins"
    builtins.input = ask_input
    python = [p for p in sys.path if p != settings["library"]]
    sys.path[:] = [settings["root"], *python, *settings["path"]]
    sys.argv = [settings["root"] + "/" + settings["entry"]]
    if settings["clock_moved"]:
        clock.move(settings["clock_moved"])
    agent.send({"k": "ready"})
    while True:
        frame = agent.receive()
        agent.arrived(frame)
        agent.serve(frame)


if __name__ == "__main__":
    main()
