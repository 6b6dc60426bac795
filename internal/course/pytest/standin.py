"""The tests' side of the border: modules that stand in for the student's.

An import of one of the student's modules gives a RemoteModule. What the student
has said is hostile: it never decides a comparison with a value of the test
unless the assignment lets it, and it can do no more with an object of the test
than call it and use its public names.
"""

import ast
import builtins
import importlib
import importlib.abc
import importlib.machinery
import math
import os
import random
import sys
import time
import types
import unittest.mock
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Set, Tuple

from _assay import border, shared
from _assay.remote import COMPARISONS, IMMUTABLE, OPERATORS, SPECIALS, Remote, RemoteClass, RemoteMethod, RemoteModule

#: Modules whose patched members are patched in the student's process as well.
WATCHED: Tuple[types.ModuleType, ...] = (builtins, random, time, math, os)
_PUBLIC = frozenset("__name__ __qualname__ __doc__ __module__".split())
_FRAMES = ("gi_", "cr_", "ag_", "f_", "tb_", "co_", "func_")
_CLOSED = (
    types.FunctionType, types.MethodType, types.ModuleType, types.FrameType, types.CodeType, types.TracebackType,
    types.BuiltinFunctionType,
)  # fmt: skip
_ORDER = frozenset(["__lt__", "__le__", "__gt__", "__ge__"])
_INPUT = builtins.input


class AskAgain(border.BorderError):
    """The student's process ended before this test; there will be a new one."""


class StudentEnded(border.BorderError):
    """The student's process ended in the middle of a test."""


class Standin(border.Border):
    """The tests' end of the border."""

    def __init__(
        self, incoming: Any, outgoing: Any, root: str, student_root: str, values: Sequence[str], answers: Dict[str, Set[str]]
    ) -> None:
        self.epoch = 0
        self.died = ""
        self.seconds = self.new = 0.0
        self.values = frozenset(values)
        self.answers = answers
        #: What "import *" gives of a module, where the solution tells: a student's
        #: module must not replace names of the test.
        self.names: Dict[str, Set[str]] = {}
        #: Classes that are protocols checked at run time in the solution. Another
        #: class of the student's does not say what is an instance of it.
        self.protocols: Set[str] = set()
        self.modules: Dict[str, RemoteModule] = {}
        self.named: Dict[Tuple[str, str], Any] = {}
        self.student: Set[str] = set()
        self.seed: Any = None
        self.collected = False
        self.quiet = False
        super().__init__(incoming, outgoing)
        self.original = {m: dict(vars(m)) for m in WATCHED}
        self.argv = list(sys.argv)
        self.environment = self.first_environment = dict(os.environ)
        self.files, self.student_root = shared.OfTests(root), student_root
        self.folder = self.files.root

    def begin_test(self, seconds: float) -> None:
        """Called before each test, with the processor time that it may use.

        A student's process that ended is started anew.
        """
        self.seconds = self.new = seconds
        if self.died:
            self.expect_new()

    def expect_new(self) -> None:
        """Forgets what was in the student's process that ended."""
        self.died, self.new = "", self.seconds
        self.epoch += 1
        self.folder, self.environment = self.files.root, self.first_environment
        self.reset()

    # Frames.

    def ask(self, op: str, target: Any = None, name: str = "", args: Any = (), kwargs: Any = None) -> Any:
        if self.quiet:
            # pytest shows objects in its messages; it only expects plain errors there.
            try:
                return super().ask(op, target, name, args, kwargs)
            except border.BorderError as e:
                raise RuntimeError(str(e)) from None
        for value in args if not kwargs else [*args, *kwargs.values()]:
            if isinstance(value, (str, os.PathLike)):
                self.files.mention(value)
        try:
            return self.ask_once(op, target, name, args, kwargs)
        except AskAgain:
            self.expect_new()
            return self.ask_once(op, target, name, args, kwargs)

    def ask_once(self, op: str, target: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Asks, after the seed that the test has set."""
        if self.seed is not None:
            super().ask("use", name="random:seed", args=self.seed)
            self.seed = None
        return super().ask(op, target, name, args, kwargs)

    def finished(self, frame: Dict[str, Any]) -> Dict[str, Any]:
        if frame["k"] == "ask":
            frame["epoch"] = self.epoch
            if self.new:
                frame["new"], self.new = self.new, 0.0
            self.add_surroundings(frame)
        files = self.files.changes()
        if files:
            frame["files"] = files
        patches = {r: self.encode(v) for r, v in self.patches().items()}
        if patches or self.told_patches:
            frame["patch"] = patches
        self.told_patches = bool(patches)
        return frame

    told_patches = False

    def add_surroundings(self, frame: Dict[str, Any]) -> None:
        """Adds environment and working directory where a test has changed them."""
        now = dict(os.environ)
        now.pop("PYTEST_CURRENT_TEST", None)
        if now != self.environment:
            frame["env"] = self.environment = now
        folder = os.getcwd()
        if folder != self.folder:
            self.folder = folder
            self.files.mention(os.path.join(folder, "."))
            frame["cwd"] = self.student_root if folder == self.files.root else folder

    def patches(self) -> Dict[str, Any]:
        """Members of watched modules that the test has replaced, by reference."""
        found = {}
        for module, original in self.original.items():
            now = vars(module)
            if now != original:
                for name, value in now.items():
                    was = original.get(name, value)
                    if value is not was and not name.startswith("_") and name != "input":
                        found["%s:%s" % (module.__name__, name)] = value
        if sys.argv != self.argv:
            found["sys:argv"] = list(sys.argv)
        return found

    def arrived(self, frame: Dict[str, Any]) -> None:
        if "files" in frame:
            self.files.apply(frame["files"])
        for stream, text in frame.get("out", ()):
            target = sys.stderr if stream == "e" else sys.stdout
            try:
                target.write(text)
            except UnicodeEncodeError:
                target.write(text.encode("utf-8", "replace").decode("utf-8"))

    def send(self, frame: Dict[str, Any]) -> None:
        if self.died and frame["k"] != "report":
            raise StudentEnded(self.died)
        super().send(frame)

    def unusual(self, frame: Dict[str, Any]) -> None:
        if frame.get("k") == "dead":
            if frame["anew"]:
                raise AskAgain
            self.died = str(frame["text"])
            raise StudentEnded(self.died)
        super().unusual(frame)

    # What the student may do with objects of the test.

    def allow(self, owner: Any, name: str) -> None:
        if name in _PUBLIC or name in SPECIALS:
            return
        if name.startswith("_") or name.startswith(_FRAMES) or isinstance(owner, _CLOSED):
            raise AttributeError("%s of an object of the test is out of reach" % name)

    def perform(self, op: Any, number: Any, name: str, args: List[Any], kwargs: Dict[str, Any]) -> Any:
        if op in ("set", "del") and number is not None:
            owner = self.objects[number]
            kind = type(owner)
            if isinstance(owner, (type, unittest.mock.NonCallableMock)) or kind.__module__ in sys.stdlib_module_names:
                raise AttributeError("%s of an object of the test cannot be changed" % name)
        if op == "dir":
            return [n for n in super().perform(op, number, name, args, kwargs) if not n.startswith("_")]
        return super().perform(op, number, name, args, kwargs)

    def perform_other(self, op: Any, name: str, args: List[Any], kwargs: Dict[str, Any]) -> Any:
        if op == "stdin" and name in ("readline", "read"):
            return getattr(sys.stdin, name)(*args)
        if op == "builtin" and name == "input":
            if builtins.input is not _INPUT:
                return builtins.input(*[a for a in args if a != ""])
            sys.stdout.write(str(args[0]) if args else "")
            line = sys.stdin.readline()
            if not line:
                raise EOFError("EOF when reading a line")
            return line.rstrip("\n")
        return super().perform_other(op, name, args, kwargs)

    def encode_module(self, module: types.ModuleType) -> Dict[str, Any]:
        if module.__name__.partition(".")[0] in sys.stdlib_module_names:
            return {"r": module.__name__ + ":"}
        raise border.tagged.TaggedError("a module of the test cannot be handed to the student's code")

    def encode_handle(self, value: Any) -> Dict[str, Any]:
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if type(module) is str and type(name) is str and module.partition(".")[0] in sys.stdlib_module_names:
            try:
                if border.import_reference("%s:%s" % (module, name)) is value:
                    return {"r": "%s:%s" % (module, name)}
            except (ImportError, AttributeError):
                pass
        return super().encode_handle(value)

    def plain_error(self, cls: type, args: Tuple[Any, ...]) -> BaseException:
        if issubclass(cls, (KeyboardInterrupt, GeneratorExit)):
            # Theirs must not end the run of the tests.
            return RuntimeError("the student's code raised %s" % cls.__name__)
        return super().plain_error(cls, args)

    # Comparing and computing.

    def special(self, remote: Any, name: str, args: Any, kwargs: Any) -> Any:
        if name not in COMPARISONS and name not in OPERATORS or self.theirs(args[0]):
            return super().special(remote, name, args, kwargs)
        classes = {c.__qualname__ for c in type(remote).__mro__ if isinstance(c, RemoteClass)}
        if not self.values.isdisjoint(classes):
            return super().special(remote, name, args, kwargs)
        for base in IMMUTABLE:
            if isinstance(remote, base):
                return getattr(base, name)(remote, *args) if hasattr(base, name) else NotImplemented
        if getattr(type(remote), "_assay_looks", None) in border.MUTABLE:
            return self.compute_here(remote, name, args)
        if name in ("__eq__", "__ne__"):
            return NotImplemented
        if any(name in self.answers.get(c, ()) for c in classes):
            return super().special(remote, name, args, kwargs)
        if name == "__contains__" and hasattr(type(remote), "__iter__"):
            return any(v is args[0] or v == args[0] for v in remote)
        raise TypeError(
            "%s of the student's class %s was not asked about a value of the test; "
            "if the class is meant to answer, name it in value_classes" % (name, type(remote).__qualname__)
        )

    def theirs(self, value: Any) -> bool:
        return type(value) is RemoteMethod or self.is_remote(value)

    def compute_here(self, remote: Any, name: str, args: Any) -> Any:
        """Computes with what an instance of a list, dict or set class holds."""
        data = self.ask("data", remote)
        plain = name.replace("__i", "__", 1) if name in OPERATORS else name
        return getattr(data, plain)(*args) if hasattr(data, plain) else NotImplemented

    # Identity over the student's process's end.

    def number_of(self, value: Any) -> int:
        kind = type(value)
        module = issubclass(kind, RemoteModule)
        if (value.__dict__["_assay_epoch"] if module else value._assay_epoch) != self.epoch:
            if module:
                self.import_module(value.__name__)
            else:
                self.find_again(value)
        return super().number_of(value)

    def find_again(self, value: Any) -> None:
        module, name = str(value.__module__), str(value.__qualname__)
        if module not in self.student or "<" in name:
            raise StudentEnded("an object of the student's process, which ended in an earlier test")
        found: Any = self.modules.get(module) or self.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        if found is not value and isinstance(found, Remote):
            number = self.number_of(found)
            object.__setattr__(value, "_assay_id", number)
            object.__setattr__(value, "_assay_epoch", self.epoch)
            self.remotes[number] = value

    def adopt(self, remote: Any, number: int) -> None:
        super().adopt(remote, number)
        object.__setattr__(remote, "_assay_epoch", self.epoch)

    def mirror(self, body: Dict[str, Any]) -> type:
        key = (str(body["m"]), str(body["q"]))
        known = self.named.get(key)
        if known is not None and known._assay_epoch != self.epoch:
            type.__setattr__(known, "_assay_id", body["cls"])
            type.__setattr__(known, "_assay_epoch", self.epoch)
            return known
        if str(body["q"]) not in self.protocols:
            body = {**body, "p": None}
        made = super().mirror(body)
        type.__setattr__(made, "_assay_epoch", self.epoch)
        self.named[key] = made
        return made

    # Importing.

    def decode_module(self, body: Dict[str, Any]) -> Any:
        name = str(body["mod"])
        if name not in self.student:
            module = super().decode_module(body)
            module.__dict__["_assay_epoch"] = self.epoch
            return module
        module = self.module(name)
        module.__dict__["_assay_id"] = body["id"]
        module.__dict__["_assay_epoch"] = self.epoch
        return module

    def module(self, name: str) -> RemoteModule:
        """The stand-in of a student's module, imported or not."""
        if name not in self.modules:
            self.modules[name] = RemoteModule(name, self)
        return self.modules[name]

    def import_module(self, name: str) -> RemoteModule:
        """Has the student's process import a module, anew when it already did."""
        answer = self.ask("import", name=name)
        if type(answer) is not list or len(answer) != 3 or answer[0] is not self.modules.get(name):
            raise border.BorderError("the import of %s gave something else" % name)
        module, public, doc = answer
        known = self.names.get(name)
        module.__dict__["__all__"] = [str(n) for n in public if known is None or n in known]
        module.__dict__["__doc__"] = doc
        return module


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for the student's modules."""

    def __init__(self, standin: Standin, names: Sequence[str], tests: str) -> None:
        self.standin, self.tests = standin, tests
        self.names: FrozenSet[str] = frozenset(names)
        parts = [n.split(".") for n in names]
        self.packages = {".".join(p[:i]) for p in parts for i in range(1, len(p))}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self.names and name not in self.packages:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=name in self.packages)
        if name in self.packages:
            # Tests may lie in a folder of the same name.
            spec.submodule_search_locations = [os.path.join(self.tests, *name.split("."))]
        return spec

    def create_module(self, spec: Any) -> types.ModuleType:
        return self.standin.module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        try:
            self.standin.import_module(module.__name__)
        except SystemExit as e:
            if not self.standin.collected:
                # Theirs must not end the run of the tests.
                raise ImportError("%s ended the program while it was imported" % module.__name__) from e
            raise


def follow_seed(standin: Standin) -> None:
    """Makes random.seed of a test seed the student's process as well."""
    seed = random.seed

    def seed_both(*args: Any, **kwargs: Any) -> None:
        seed(*args, **kwargs)
        standin.seed = args

    random.seed = seed_both
    standin.original[random]["seed"] = seed_both


def names_of(source: str) -> Optional[Set[str]]:
    """The names that a module binds at its top, or None if that cannot be told."""
    found: Set[str] = set()
    try:
        nodes = list(ast.parse(source).body)
    except (SyntaxError, ValueError):
        return None
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update((a.asname or a.name).partition(".")[0] for a in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        nodes.extend(ast.iter_child_nodes(node))
    return None if "*" in found else found


def protocols_of(sources: Sequence[str]) -> Set[str]:
    """The classes of the teacher's solution that are protocols checked at run time."""
    found: Set[str] = set()
    for source in sources:
        try:
            nodes = ast.walk(ast.parse(source))
        except (SyntaxError, ValueError):
            continue
        for node in nodes:
            if isinstance(node, ast.ClassDef) and any("runtime_checkable" in ast.unparse(d) for d in node.decorator_list):
                found.add(node.name)
    return found


def operators_of(sources: Sequence[str]) -> Dict[str, Set[str]]:
    """Special methods that classes of the teacher's solution define, by class.

    A student's class of that name may answer them about values of the test.
    """
    found: Dict[str, Set[str]] = {}
    bases: Dict[str, List[str]] = {}

    def walk(body: Sequence[ast.AST], prefix: str) -> None:
        for node in body:
            if not isinstance(node, ast.ClassDef):
                continue
            name = prefix + node.name
            mine = found.setdefault(name, set())
            bases[name] = [ast.unparse(b) for b in node.bases]
            for part in node.body:
                if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    mine.add(part.name)
                elif isinstance(part, ast.Assign):
                    mine.update(t.id for t in part.targets if isinstance(t, ast.Name))
            if any("total_ordering" in ast.unparse(d) or "order=True" in ast.unparse(d) for d in node.decorator_list):
                mine.update(_ORDER)
            walk(node.body, name + ".")

    for source in sources:
        try:
            walk(ast.parse(source).body, "")
        except (SyntaxError, ValueError):
            continue
    for _ in range(len(bases)):
        for name, above in bases.items():
            for base in above:
                found[name] |= found.get(base, set())
    return found
