"""Objects across the border between a student's process and the tests' process.

Both sides hold a Border. What is plain crosses as a tagged value; all else stays
where it is and crosses as a handle, and the other side gets a Remote for it: an
object whose class mirrors the special methods and bases of the real one and
whose every use is a question (ask) that the other side answers (serve). While a
side serves it may ask back, to any depth; who holds the turn is always clear.

Frames are lines of JSON:

  {"k": "ask", "op": ..., "o": object, "n": name, "a": args, "kw": kwargs, "drop": ids}
  {"k": "answer", "v": value} or {"k": "answer", "err": error}, with "chg": changes
  {"k": "out", "out": [["o" or "e", text], ...]}    (also a part of other frames)

Lists, dicts and sets in the arguments of an ask are numbered in the order in
which they are written. An answer says what became of those that changed, so
that a change in place is seen by the caller.
"""

import collections
import importlib
import json
import operator
import os
import pathlib
import sys
import threading
import types
import weakref
from typing import Any, BinaryIO, Dict, List, Optional, Tuple

from _assay import tagged
from _assay.remote import (
    IMMUTABLE, SPECIALS, Remote, RemoteClass, RemoteMethod, RemoteModule, forward, list_signature, methods_of, protocol_of, remote_dict,
    signature, specials_of,
)  # fmt: skip

_DATA_TYPES: Tuple[type, ...] = (
    object, type, int, float, bool, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range,
    type(None), collections.OrderedDict, collections.defaultdict, collections.Counter, collections.deque,
)  # fmt: skip


def awake(settings: str) -> Dict[str, Any]:
    """Says that this process has started up, and waits until its files are there.

    Nothing but the settings' file is read before: a process that waits here is
    frozen and used for many submissions.
    """
    os.write(1, b'{"k":"awake"}\n')
    while os.read(0, 1) not in (b"\n", b""):
        pass
    with open(settings, encoding="utf-8") as f:
        return json.load(f)


def _safe_references() -> Dict[str, type]:
    """Classes that either side may name: plain data and built-in exceptions."""
    import builtins
    import datetime
    import decimal
    import fractions

    found = list(_DATA_TYPES) + [datetime.date, datetime.datetime, datetime.time, datetime.timedelta]
    found += [decimal.Decimal, fractions.Fraction]
    found += [v for v in vars(builtins).values() if isinstance(v, type) and issubclass(v, BaseException)]
    return {"%s:%s" % (c.__module__, c.__qualname__): c for c in found}


SAFE = _safe_references()
_SAFE_NAMES = {c: name for name, c in SAFE.items()}
MUTABLE = (list, dict, set, bytearray, collections.deque)
_LOOKS_LIKE = {
    "function": types.FunctionType,
    "builtin_function_or_method": types.BuiltinFunctionType,
    "generator": types.GeneratorType,
    "method": types.MethodType,
    "coroutine": types.CoroutineType,
}


_write_json = json.JSONEncoder(separators=(",", ":")).encode
_read_json = json.JSONDecoder().decode


class BorderError(BaseException):
    """The other side broke the rules, or is gone.

    Not an Exception: code between must not take it for the student's error.
    """


class Exchange:
    """The lists, dicts and sets of one ask, by number."""

    def __init__(self) -> None:
        self.containers: List[Any] = []
        self.index: Dict[int, int] = {}
        self.recording = True
        self.before: List[Any] = []

    def add(self, container: Any) -> None:
        self.index[id(container)] = len(self.containers)
        self.containers.append(container)

    def settle(self) -> None:
        """Remembers what is in the containers now."""
        self.recording = False
        self.before = [_contents(c) for c in self.containers]

    def changed(self) -> List[int]:
        """Numbers of the containers with other contents than when settled."""
        return [i for i, c in enumerate(self.containers) if not _same(self.before[i], _contents(c))]


def _contents(container: Any) -> List[Any]:
    if type(container) is dict:
        return list(container) + list(container.values())
    return list(container)


def _same(a: List[Any], b: List[Any]) -> bool:
    return len(a) == len(b) and all(map(operator.is_, a, b))


class Border(tagged.Codec):
    """One side's end. Both sides derive from it and say what they allow."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self.incoming, self.outgoing = incoming, outgoing
        self.lock = threading.RLock()
        self.exchange = Exchange()
        self.exchange.settle()
        #: Whether this side may send now.
        self.turn = False
        self.reset()

    def reset(self) -> None:
        """Forgets all handles: the other side is a new process."""
        self.objects: Dict[int, Any] = {}
        self.numbers: Dict[Any, int] = {}
        self.last = 0
        self.told: set = set()
        self.remotes: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()
        self.kept: Dict[int, Any] = {}
        self.classes: Dict[int, type] = {}
        self.dropped: set = set()

    # Frames.

    def send(self, frame: Dict[str, Any]) -> None:
        """Writes a frame."""
        self.outgoing.write(_write_json(frame).encode("ascii") + b"\n")
        self.outgoing.flush()

    def receive(self) -> Dict[str, Any]:
        """Reads a frame; at the end of the stream the process is over."""
        line = self.incoming.readline()
        if not line:
            os._exit(0)
        frame = _read_json(line.decode("utf-8"))
        if type(frame) is not dict:
            raise BorderError("a frame is not an object")
        return frame

    def ask(self, op: str, target: Any = None, name: str = "", args: Any = (), kwargs: Any = None) -> Any:
        """Has the other side do something and gives its result, or raises its error."""
        with self.lock:
            # The codec must not fail half-way where the caller's stack is nearly full.
            limit = sys.getrecursionlimit()
            sys.setrecursionlimit(limit + 400)
            outer, self.exchange = self.exchange, Exchange()
            try:
                frame: Dict[str, Any] = {"k": "ask", "op": op}
                if target is not None:
                    frame["o"] = self.number_of(target)
                if name:
                    frame["n"] = name
                if args:
                    frame["a"] = [self.encode(v) for v in args]
                if kwargs:
                    frame["kw"] = {k: self.encode(v) for k, v in kwargs.items()}
                if self.dropped:
                    dropped, self.dropped = self.dropped, set()
                    frame["drop"] = sorted(dropped)
                self.exchange.settle()
                self.send(self.finished(frame))
                self.turn = False
                return self.await_answer()
            finally:
                self.exchange = outer
                sys.setrecursionlimit(limit)

    def await_answer(self) -> Any:
        """Serves what the other side asks until it answers."""
        mine = self.exchange
        while True:
            frame = self.receive()
            kind = frame.get("k")
            self.arrived(frame)
            if kind == "ask":
                self.serve(frame)
                self.exchange = mine
            elif kind == "answer":
                self.turn = True
                break
            elif kind != "out":
                self.unusual(frame)
        try:
            self.apply_changes(frame.get("chg") or [])
            if "err" in frame:
                error = self.decode_error(frame["err"])
            else:
                return self.decode(frame.get("v"))
        except (ValueError, TypeError, LookupError, AttributeError) as e:
            raise BorderError("the answer makes no sense: %s" % e) from e
        raise error

    def serve(self, frame: Dict[str, Any]) -> None:
        """Does what the other side asks and answers."""
        mine = self.exchange = Exchange()
        self.turn = True
        answer: Dict[str, Any] = {"k": "answer"}
        with self.lock:
            for number in frame.get("drop", ()):
                self.forget(number)
            try:
                args = [self.decode(v) for v in frame.get("a", ())]
                kwargs = {k: self.decode(v) for k, v in frame.get("kw", {}).items()}
                mine.settle()
            except (ValueError, TypeError, LookupError, AttributeError) as e:
                raise BorderError("the question makes no sense: %s" % e) from e
        try:
            result = self.perform(frame.get("op"), frame.get("o"), frame.get("n", ""), args, kwargs)
            with self.lock:
                self.exchange = mine
                answer["v"] = self.encode(result)
        except BorderError:
            raise
        except BaseException as e:
            self.exchange = mine
            answer.pop("v", None)
            answer["err"] = self.encode_error(e)
            e.__traceback__ = None
        with self.lock:
            self.exchange = mine
            changes = mine.changed()
            if changes:
                answer["chg"] = [[i, self.encode_body(mine.containers[i])] for i in changes]
            self.send(self.finished(answer))
            self.turn = False

    def forget(self, number: int) -> None:
        value = self.objects.pop(number, None)
        for key in [_key_of(value)]:
            if self.numbers.get(key) == number:
                del self.numbers[key]

    # What the two sides do differently.

    def finished(self, frame: Dict[str, Any]) -> Dict[str, Any]:
        """Adds what goes with every frame."""
        return frame

    def arrived(self, frame: Dict[str, Any]) -> None:
        """Sees every frame first."""

    def unusual(self, frame: Dict[str, Any]) -> None:
        """Takes a frame of another kind."""
        raise BorderError("a frame of an unknown kind")

    def special(self, remote: Any, name: str, args: Any, kwargs: Any) -> Any:
        """A special method of a Remote."""
        return self.ask("op", remote, name, args, kwargs)

    def allow(self, owner: Any, name: str) -> None:
        """Raises AttributeError for a name that the other side may not use."""

    def perform_other(self, op: Any, name: str, args: List[Any], kwargs: Dict[str, Any]) -> Any:
        """An operation that only this side has."""
        raise BorderError("an unknown operation")

    def resolve(self, reference: str) -> Any:
        """What a reference of the other side means."""
        return SAFE[reference]

    # Operations.

    def perform(self, op: Any, number: Any, name: str, args: List[Any], kwargs: Dict[str, Any]) -> Any:
        if number is None:
            return self.perform_other(op, name, args, kwargs)
        owner = self.objects[number]
        if name:
            self.allow(owner, name)
        if op == "get":
            return getattr(owner, name)
        if op == "callm":
            return getattr(owner, name)(*args, **kwargs)
        if op == "call":
            return owner(*args, **kwargs)
        if op == "op":
            return getattr(type(owner), name)(owner, *args, **kwargs)
        if op == "set":
            return setattr(owner, name, args[0])
        if op == "del":
            return delattr(owner, name)
        if op == "item":
            return owner[args[0]]
        if op == "dir":
            return [str(n) for n in dir(owner)]
        if op == "data":
            return _base_data(owner)
        if op in ("copy", "deepcopy"):
            import copy

            return getattr(copy, op)(owner)
        if op == "signature":
            return list_signature(getattr(owner, name) if name else owner)
        raise BorderError("an unknown operation")

    # Handles.

    def number_of(self, value: Any) -> int:
        """The other side's number of a Remote."""
        if isinstance(value, RemoteModule):
            return value.__dict__["_assay_id"]
        return value._assay_id

    def is_remote(self, value: Any) -> bool:
        kind = type(value)
        return issubclass(kind, Remote) or isinstance(kind, type) and issubclass(kind, (RemoteClass, RemoteModule))

    def entering(self, container: Any) -> Optional[Any]:
        known = self.exchange.index.get(id(container))
        if known is not None:
            return {"h": {"a": known}}
        if self.exchange.recording:
            self.exchange.add(container)
        return None

    def made(self, container: Any) -> None:
        if self.exchange.recording:
            self.exchange.add(container)

    def encode_body(self, container: Any) -> Any:
        """The contents of a container that is itself known by its number."""
        kind = type(container)
        if kind is dict:
            return {"d": [[self.encode(k), self.encode(v)] for k, v in container.items()]}
        return {"l" if kind is list else "s": [self.encode(v) for v in container]}

    def apply_changes(self, changes: List[Any]) -> None:
        for number, data in changes:
            mine, theirs = self.exchange.containers[number], self.decode(data)
            if type(mine) is not type(theirs):
                raise BorderError("a changed argument has another type")
            if type(mine) is list:
                mine[:] = theirs
            else:
                mine.clear()
                mine.update(theirs)

    def encode_other(self, value: Any) -> Any:
        if type(value) is RemoteMethod:
            return {"h": {"o": self.number_of(value.__self__), "n": value.__name__}}
        if self.is_remote(value):
            return {"h": {"o": self.number_of(value)}}
        return {"h": self.encode_handle(value)}

    def encode_handle(self, value: Any) -> Dict[str, Any]:
        kind = type(value)
        if value is NotImplemented or value is Ellipsis:
            return {"r": repr(value)}
        if isinstance(value, type):
            return self.encode_class(value)
        if isinstance(value, pathlib.PurePath) and kind in (pathlib.PosixPath, pathlib.PurePosixPath):
            return {"path": str(value)}
        if kind is types.MappingProxyType:
            return {"std": "dict", "v": [[self.encode(k), self.encode(v)] for k, v in value.items()]}
        if kind in (collections.Counter, collections.OrderedDict, collections.defaultdict):
            pairs = [[self.encode(k), self.encode(v)] for k, v in value.items()]
            body = {"std": kind.__name__, "v": pairs}
            if kind is collections.defaultdict:
                body["x"] = self.encode(value.default_factory)
            return body
        if kind is collections.deque:
            return {"std": "deque", "v": [self.encode(v) for v in value], "x": value.maxlen}
        if isinstance(value, types.ModuleType):
            return self.encode_module(value)
        if isinstance(value, BaseException):
            return {"err": self.encode_error(value)}
        body = {"id": self.export(value), "c": self.encode_class(kind)}
        for base in IMMUTABLE:
            if isinstance(value, base):
                body["x"] = self.encode(_base_data(value))
        if callable(value):
            body["f"] = [str(getattr(value, n, "")) for n in ("__name__", "__qualname__", "__module__", "__doc__")]
        return body

    def encode_module(self, module: types.ModuleType) -> Dict[str, Any]:
        return {"id": self.export(module), "mod": module.__name__}

    def encode_class(self, cls: type) -> Dict[str, Any]:
        if cls in _SAFE_NAMES:
            return {"r": _SAFE_NAMES[cls]}
        if isinstance(cls, RemoteClass):
            return {"o": self.number_of(cls)}
        number = self.export(cls)
        if number in self.told:
            return {"cls": number}
        self.told.add(number)
        body: Dict[str, Any] = {"cls": number, "n": cls.__name__, "q": cls.__qualname__, "m": str(cls.__module__)}
        body["b"] = [self.encode_class(b) for b in cls.__bases__]
        body["s"], body["f"], body["p"] = specials_of(cls), methods_of(cls), protocol_of(cls)
        if cls.__doc__ and type(cls.__doc__) is str:
            body["d"] = cls.__doc__
        return body

    def export(self, value: Any) -> int:
        """The number under which the other side knows an object of ours."""
        key = _key_of(value)
        number = self.numbers.get(key)
        if number is None:
            self.last += 1
            number = self.numbers[key] = self.last
            self.objects[number] = value
        return number

    def decode_other(self, body: Any) -> Any:
        if "o" in body:
            mine = self.objects[body["o"]]
            if "n" in body:
                self.allow(mine, body["n"])
                return getattr(mine, body["n"])
            return mine
        if "a" in body:
            return self.exchange.containers[body["a"]]
        if "r" in body:
            return self.decode_reference(body["r"])
        if "path" in body:
            return pathlib.Path(str(body["path"]))
        if "std" in body:
            return self.decode_standard(body)
        if "mod" in body:
            return self.decode_module(body)
        if "err" in body:
            return self.decode_error(body["err"])
        if "id" in body:
            return self.decode_instance(body)
        return self.decode_class(body)

    def decode_reference(self, reference: str) -> Any:
        if reference == "NotImplemented":
            return NotImplemented
        if reference == "Ellipsis":
            return Ellipsis
        return self.resolve(reference)

    def decode_standard(self, body: Dict[str, Any]) -> Any:
        name, values = body["std"], body["v"]
        if name == "deque":
            return collections.deque((self.decode(v) for v in values), body["x"])
        pairs = [(self.decode(k), self.decode(v)) for k, v in values]
        if name == "defaultdict":
            made: Any = collections.defaultdict(self.decode(body["x"]))
        else:
            made = {"dict": dict, "Counter": collections.Counter, "OrderedDict": collections.OrderedDict}[name]()
        for key, value in pairs:
            made[key] = value
        return made

    def decode_module(self, body: Dict[str, Any]) -> Any:
        module = self.remotes.get(body["id"])
        if module is None:
            module = RemoteModule(str(body["mod"]), self)
            module.__dict__["_assay_id"] = body["id"]
            self.remotes[body["id"]] = module
        return module

    def decode_instance(self, body: Dict[str, Any]) -> Any:
        number = body["id"]
        if type(number) is not int:
            raise tagged.TaggedError("a handle without a number")
        remote = self.remotes.get(number)
        if remote is None:
            remote = self.kept.get(number)
        if remote is not None:
            return remote
        cls = self.decode_class(body["c"])
        if not isinstance(cls, RemoteClass):
            raise tagged.TaggedError("a handle of a plain type")
        snapshot = self.decode(body["x"]) if "x" in body else None
        remote = None
        for base in IMMUTABLE:
            if issubclass(cls, base):
                remote = base.__new__(cls, base(snapshot))
        if remote is None and issubclass(cls, BaseException):
            remote = cls.__new__(cls)
        if remote is None:
            remote = object.__new__(cls)
        self.adopt(remote, number)
        if "f" in body:
            name, qualname, module, doc = (str(v) for v in body["f"])
            for attribute, value in (("__name__", name), ("__qualname__", qualname), ("__doc__", doc)):
                object.__setattr__(remote, attribute, value)
            object.__setattr__(remote, "__module__", module)
        return remote

    def adopt(self, remote: Any, number: int) -> None:
        """Makes an object the Remote of a number, until nobody here has it."""
        self.dropped.discard(number)
        object.__setattr__(remote, "_assay_id", number)
        object.__setattr__(remote, "_assay_set", frozenset())
        try:
            self.remotes[number] = remote
        except TypeError:  # no weak references to tuples and integers
            self.kept[number] = remote
            return
        weakref.finalize(remote, self.release, number, self.remotes).atexit = False

    def release(self, number: int, table: Any) -> None:
        if table is self.remotes and number not in table:
            self.dropped.add(number)

    def decode_class(self, body: Dict[str, Any]) -> type:
        if "r" in body:
            found = self.resolve(body["r"])
            if not isinstance(found, type):
                raise tagged.TaggedError("not a class")
            return found
        if "o" in body:
            return self.objects[body["o"]]
        number = body["cls"]
        known = self.classes.get(number)
        if known is not None:
            return known
        made = self.classes[number] = self.mirror(body)
        return made

    def mirror(self, body: Dict[str, Any]) -> type:
        """Makes the class of Remotes that stands for a class of the other side."""
        name, qualname, module = (_identifier(body[k]) for k in "nqm")
        bases = [self.base_for(self.decode_class(b)) for b in body["b"]]
        lie = _LOOKS_LIKE.get(name) if module == "builtins" else None
        real: List[type] = []
        for base in bases:
            if base in MUTABLE:
                lie = base
            elif base is not object and base not in real:
                real.append(base)
        if not any(issubclass(b, Remote) for b in real):
            real.insert(0, Remote)
        space: Dict[str, Any] = {
            "__module__": module,
            "__qualname__": qualname,
            "__doc__": str(body["d"]) if "d" in body else None,
            "_assay_border": self,
            "_assay_id": body["cls"],
            "_assay_methods": frozenset(str(n) for n in body["f"] if not str(n).startswith("__")),
            "_assay_protocol": None if body["p"] is None else tuple(str(n) for n in body["p"]),
        }
        for special in body["s"]:
            if special in SPECIALS:
                space[special] = forward(special)
            elif special == "-__hash__":
                space["__hash__"] = None
        if "__eq__" in space and "__hash__" not in space:
            space["__hash__"] = object.__hash__
        if lie is not None:
            space["_assay_looks"] = lie
            space["__class__"] = property(lambda self: lie)
        if not any(issubclass(b, IMMUTABLE) for b in real):
            space["__dict__"] = property(remote_dict)
        for method in space["_assay_methods"]:
            if any(hasattr(b, method) for b in real if not isinstance(b, RemoteClass)):
                space[method] = property(lambda self, n=method: RemoteMethod(self, n))
        if lie is types.FunctionType:
            space["__signature__"] = property(lambda self: signature(self._assay_border, self))
        try:
            return type.__new__(RemoteClass, name, tuple(real), space)
        except TypeError:  # bases that do not go together here
            return type.__new__(RemoteClass, name, (Remote,), space)

    def base_for(self, base: type) -> type:
        """A base of a mirrored class: one that is safe to derive from here."""
        if base in (type, bool, range, type(None), bytearray, KeyboardInterrupt, GeneratorExit):
            return Exception if issubclass(base, BaseException) else object
        return base

    # Errors.

    def encode_error(self, error: BaseException, depth: int = 0) -> Dict[str, Any]:
        if self.is_remote(error):
            return {"o": self.number_of(error)}
        body: Dict[str, Any] = {"c": self.encode_class(type(error)), "args": self.encode_parts(error.args)}
        body["id"] = self.export(error)
        attributes = dict(vars(error))
        if isinstance(error, OSError):
            attributes["filename"] = error.filename
        if attributes:
            body["at"] = [[k, v] for k, v in zip(attributes, self.encode_parts(attributes.values()))]
        if error.__cause__ is not None and depth < 3:
            body["cause"] = self.encode_error(error.__cause__, depth + 1)
        text = self.describe(error)
        if text:
            body["text"] = text
        return body

    def encode_parts(self, values: Any) -> List[Any]:
        parts = []
        for value in values:
            try:
                parts.append(self.encode(value))
            except tagged.TaggedError as e:
                parts.append(str(e))
        return parts

    def describe(self, error: BaseException) -> str:
        """A text about an error for people, or nothing."""
        return ""

    def decode_error(self, body: Dict[str, Any]) -> BaseException:
        if "o" in body:
            mine = self.objects[body["o"]]
            if not isinstance(mine, BaseException):
                raise tagged.TaggedError("not an error")
            return mine
        known = self.remotes.get(body["id"])
        if isinstance(known, BaseException):
            return known
        cls, args = self.decode_class(body["c"]), tuple(self.decode(v) for v in body["args"])
        if isinstance(cls, RemoteClass) and issubclass(cls, BaseException):
            error = cls.__new__(cls, *args)
            self.adopt(error, body["id"])
            BaseException.__setattr__(error, "args", args)
        else:
            error = self.plain_error(cls, args)
            for name, value in body.get("at", ()):
                if type(name) is str and not name.startswith("__"):
                    setattr(error, name, self.decode(value))
        if "cause" in body:
            error.__cause__ = self.decode_error(body["cause"])
        return error

    def plain_error(self, cls: type, args: Tuple[Any, ...]) -> BaseException:
        """A built-in exception."""
        if not issubclass(cls, BaseException):
            raise tagged.TaggedError("not an error")
        try:
            error = cls(*args)
        except Exception:
            error = cls.__new__(cls)
        if type(error) is not cls:
            error = cls.__new__(cls)
        error.args = args
        return error


def _key_of(value: Any) -> Any:
    # Every look at obj.method makes a new object; they are one to the other side.
    if type(value) is types.MethodType:
        return (id(value.__self__), id(value.__func__))
    return id(value)


def _identifier(text: Any) -> str:
    text = str(text)[:200]
    return text if text.replace(".", "_").replace("<", "_").replace(">", "_").isidentifier() else "Unnamed"


def _base_data(value: Any) -> Any:
    """What an instance of a subclass of a plain type holds, as the plain type."""
    scalars = ((int, int.__int__), (float, float.__float__), (complex, complex.__pos__), (bytes, memoryview))
    for base, read in scalars:
        if isinstance(value, base):
            return base(read(value))
    if isinstance(value, str):
        return "".join(str.__iter__(value))
    for base in (tuple, list, frozenset, set):
        if isinstance(value, base):
            return base(base.__iter__(value))
    if isinstance(value, dict):
        return dict(dict.items(value))
    return NotImplemented


def import_reference(reference: str) -> Any:
    """Whatever "module:qualified.name" means; only for what is trusted."""
    module, _, name = reference.partition(":")
    found = importlib.import_module(module)
    for part in filter(None, name.split(".")):
        found = getattr(found, part)
    return found
