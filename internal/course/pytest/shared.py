"""Files that tests and student's code hand to one another by name.

A test writes tmp_path / "in.txt" and passes the name on, or reads what the
student's code wrote into the working directory. Each process notes which files
it touches below its working directory and the folder for temporary files; what
changed goes along with the next frame. Names below the working directory are
relative, since the two differ.

The tests' process hands out only what the student's code was told the name of,
and takes nothing that could be imported or that the teacher put there.
"""

import base64
import importlib.machinery
import os
import sys
import tempfile
from typing import Any, Dict, List, Optional, Set, Tuple

_open = open  # a test may replace the built-in one
#: The largest file that is handed over, in bytes.
MAX_FILE = 4 << 20
_PATH_EVENTS = frozenset(["os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.truncate"])
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_IMPORTABLE = tuple(importlib.machinery.all_suffixes()) + (".pth", ".ini", ".cfg", ".toml")


class Shared:
    """What one process has touched, and what the other knows of it."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self.temporary = os.path.realpath(tempfile.gettempdir())
        self.known: Dict[str, Any] = {}
        self.busy = False
        sys.addaudithook(self.heard)

    def heard(self, event: str, args: Tuple[Any, ...]) -> None:
        """Notes files that are about to be written, made or removed."""
        if event == "open":
            if type(args[0]) is int or not args[2] & _WRITING:
                return
            paths = args[:1]
        elif event in _PATH_EVENTS:
            paths = args[:2] if event == "os.rename" else args[:1]
        else:
            return
        if self.busy:
            return
        for path in paths:
            try:
                full = os.path.abspath(os.fsdecode(path))
            except (TypeError, ValueError, OSError):
                continue
            if self.name_of(full) is not None:
                self.known.setdefault(full, ())

    def name_of(self, path: str) -> Optional[str]:
        """The name of a path for the other process, or None if it is not shared."""
        if path.startswith(self.root + os.sep):
            return path[len(self.root) + 1 :]
        if path.startswith(self.temporary + os.sep):
            return path
        return None

    def allowed(self, path: str) -> bool:
        """Whether a file may be handed over."""
        return True

    def acceptable(self, path: str) -> bool:
        """Whether a file of the other process may be written here."""
        return True

    def changes(self) -> List[List[Any]]:
        """Name and contents of what changed: base64, True for a folder, None for nothing there."""
        changed: List[List[Any]] = []
        if not self.known:
            return changed
        self.busy = True
        try:
            for path in sorted(self.known):
                state = _state(path)
                if state != self.known[path] and self.allowed(path):
                    self.known[path] = state
                    changed.append([self.name_of(path), _contents(path)])
        finally:
            self.busy = False
        return changed

    def apply(self, changed: List[List[Any]]) -> None:
        """Makes the other process's files ours."""
        self.busy = True
        try:
            for name, contents in changed:
                path = os.path.normpath(os.path.join(self.root, str(name)))
                if self.name_of(path) is None or not self.acceptable(path):
                    continue
                try:
                    _write(path, contents)
                except (OSError, ValueError):
                    continue
                self.known[path] = _state(path)
        finally:
            self.busy = False


class OfTests(Shared):
    """The tests' side."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.teachers: Set[str] = set()
        for where, folders, names in os.walk(self.root):
            self.teachers.update(os.path.join(where, n) for n in folders + names)
        self.mentioned: Set[str] = set()

    def mention(self, value: Any) -> None:
        """Notes a name that the student's code is told."""
        try:
            path = os.path.abspath(os.fspath(value))
        except (TypeError, ValueError, OSError):
            return
        if path.startswith(self.temporary + os.sep):
            self.mentioned.add(path)
            # A folder above it was made before anybody knew the name.
            self.known.setdefault(os.path.dirname(path), ())

    def allowed(self, path: str) -> bool:
        if path.startswith(self.root + os.sep):
            return path not in self.teachers
        for told in self.mentioned:
            if path == told or path.startswith(told + os.sep) or told.startswith(path + os.sep) and os.path.isdir(path):
                return True
        return False

    def acceptable(self, path: str) -> bool:
        if path.endswith(_IMPORTABLE) or path in self.teachers:
            return False
        return self.allowed(path)


def _state(path: str) -> Any:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if os.path.isdir(path):
        return True
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _contents(path: str) -> Any:
    if os.path.isdir(path):
        return True
    try:
        if os.path.getsize(path) > MAX_FILE or not os.path.isfile(path):
            return None
        with _open(path, "rb") as f:
            return base64.b64encode(f.read(MAX_FILE)).decode("ascii")
    except OSError:
        return None


def _write(path: str, contents: Any) -> None:
    if contents is None:
        if os.path.isdir(path):
            os.rmdir(path)
        elif os.path.lexists(path):
            os.remove(path)
        return
    os.makedirs(path if contents is True else os.path.dirname(path), exist_ok=True)
    if contents is not True:
        data = base64.b64decode(contents.encode("ascii"), validate=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "wb") as f:
            f.write(data)


def guard_pickle(tests: str) -> None:
    """Lets pickle find plain classes and the tests' own only.

    A file that the student's code wrote must not run code in the tests' process.
    """
    from _assay.border import SAFE

    def heard(event: str, args: Tuple[Any, ...]) -> None:
        if event == "pickle.find_class":
            module, name = args
            where = getattr(sys.modules.get(module), "__file__", None) or ""
            if "%s:%s" % (module, name) not in SAFE and not where.startswith(tests) and module != "copyreg":
                raise ValueError("%s.%s is not read from a pickle here" % (module, name))

    sys.addaudithook(heard)
