"""Tells the host what code of a submission does to the harness around it.

It is the sitecustomize of every Python in a harness's run and writes one line
an event to descriptor 9, which leads out of the machine: what was told cannot
be taken back. It changes nothing of what it sees.
"""


def _watch():
    import os
    import stat
    import sys

    if not hasattr(sys, "addaudithook"):
        return
    try:
        import fcntl
        import json
        if not stat.S_ISFIFO(os.fstat(9).st_mode):
            return
        fd = fcntl.fcntl(9, fcntl.F_DUPFD_CLOEXEC, 64)
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "watch.json")) as f:
            config = json.load(f)
    except (OSError, ValueError):
        return

    import _thread
    import threading
    import time

    pid, home = os.getpid(), os.getcwd()
    harness, results = frozenset(config["harness"]), config["results"]
    system = tuple({os.path.dirname(os.__file__), sys.prefix + "/lib", sys.base_prefix + "/lib",
                    "/usr/lib/python3", "/usr/local/lib/python3", os.path.dirname(os.path.abspath(__file__))})
    write, join, normal, ident, getframe = os.write, os.path.join, os.path.normpath, _thread.get_ident, sys._getframe
    told, busy = set(), set()

    def tell(word, text=""):
        line = (word + " " + text).replace("\n", " ").encode("utf-8", "backslashreplace")[:500]
        if line not in told and len(told) < 100:
            told.add(line)
            try:
                write(fd, line + b"\n")
            except OSError:
                pass

    def full(path):
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):
            return ""
        return normal(path if path.startswith("/") else join(os.getcwd(), path))

    def protected(path):
        path = full(path)
        if path in harness or results and (path == results or path.startswith(results + "/")):
            return path
        return ""

    def owner(frame):
        """The file whose code brought an event about, or an empty text."""
        while frame is not None:
            name = frame.f_code.co_filename
            if not name.startswith("<frozen"):
                path = normal(name if name.startswith("/") else join(home, name))
                if path in harness:
                    return ""
                if not path.startswith(system):
                    return name
            frame = frame.f_back
        return ""

    def frames(event, args, frame):
        """Looking at who called: directly or by way of module inspect only."""
        if event == "object.__getattr__" and args[1] not in ("f_code", "tb_frame"):
            return
        name = frame.f_code.co_filename
        if name.endswith("/inspect.py") and frame.f_back is not None:
            frame = frame.f_back
            name = frame.f_code.co_filename
        if not name.startswith("<frozen") and not normal(join(home, name)).startswith(system) and owner(frame):
            tell("frame")

    def files(event, args, frame):
        paths = args[:2] if event in ("os.rename", "os.link", "os.symlink") else args[:1]
        for path in filter(None, map(protected, paths)):
            if owner(frame):
                mode, flags = (args[1] or "", args[2] or 0) if event == "open" else ("w", 0)
                changes = any(c in mode for c in "wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC)
                tell("write" if changes else "read", path)

    handlers = {
        "open": files, "os.remove": files, "os.rename": files, "os.link": files, "os.symlink": files,
        "os.truncate": files, "os.chmod": files, "os.rmdir": files,
        "sys._getframe": frames, "object.__getattr__": frames, "sys._current_frames": frames,
        "gc.get_objects": frames, "gc.get_referrers": frames, "sys.settrace": frames, "sys.setprofile": frames,
    }

    def hook(event, args):
        handler = handlers.get(event)
        if handler is None:
            return
        me = ident()
        if me in busy:
            return
        busy.add(me)
        try:
            handler(event, args, getframe(1))
        except Exception:
            pass
        finally:
            busy.discard(me)

    def finishing():
        # The main thread is done. Threads that never end get two seconds.
        if os.getpid() == pid:
            tell("end", str(pid))
            threading.Thread(target=grace, daemon=True).start()

    def grace():
        time.sleep(2)
        tell("hung", str(pid))
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        os._exit(0)

    if hasattr(threading, "_register_atexit"):
        threading._register_atexit(finishing)
        tell("start", str(pid))
    sys.addaudithook(hook)


_watch()
