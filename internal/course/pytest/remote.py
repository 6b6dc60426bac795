"""What one side sees of the other's objects.

A Remote stands for an object of the other side; each use of it is a question to
the Border that it came over. A class of Remotes is made for each class of the
other side and each set of special methods, since Python looks those up on the
type.
"""

import inspect
import types
import typing
from typing import Any, Callable, Dict, List, Optional, TYPE_CHECKING

if TYPE_CHECKING:
    from _assay.border import Border

_BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or"
#: Special methods that compare or compute with another operand.
COMPARISONS = frozenset("__%s__" % n for n in "eq ne lt le gt ge contains".split())
OPERATORS = frozenset("__%s%s__" % (p, n) for p in ("", "r", "i") for n in _BINARY.split())
#: All special methods that a class of Remotes may have.
SPECIALS = COMPARISONS | OPERATORS | frozenset(
    "__%s__" % n
    for n in (
        "len length_hint iter next reversed getitem setitem delitem missing call enter exit hash bool int float "
        "index complex round trunc floor ceil abs neg pos invert str repr format bytes await aiter anext aenter "
        "aexit fspath copy deepcopy"
    ).split()
)  # fmt: skip
#: Names that pytest and unittest look up on whatever they see; and numpy, which
#: would let an object compute and compare for itself.
_NOISE = (
    "_assay", "_pytest", "pytestmark", "pytest_plugins", "__wrapped__", "__test__", "__abstractmethods__", "__tracebackhide__", "__array",
)  # fmt: skip
#: Names that the import system and inspect look up on modules.
_OF_MODULES = _NOISE + ("__path__", "__file__", "__spec__", "__loader__", "__package__", "__cached__")

#: Built-in types whose instances cannot be changed.
IMMUTABLE = (int, float, complex, str, bytes, tuple, frozenset)


def forward(name: str) -> Callable:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return type(self)._assay_border.special(self, name, args, kwargs)

    method.__name__ = name
    return method


class RemoteClass(type):
    """The class of mirrored classes."""

    def __new__(meta, name: str, bases: Any, space: Dict[str, Any], **kwargs: Any) -> Any:
        # A class statement here that derives from a class of the other side.
        borders = [b._assay_border for b in bases if "_assay_border" in vars(b)]
        if not borders:
            return super().__new__(meta, name, bases, space)
        cell = space.pop("__classcell__", None)
        made = borders[0].ask("derive", name=name, args=(bases, {k: v for k, v in space.items() if k != "__module__"}))
        if cell is not None:
            cell.cell_contents = made
        return made

    def __init__(cls, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: the class is made."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls._assay_border.ask("call", cls, args=args, kwargs=kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith(_NOISE):
            raise AttributeError(name)
        return cls._assay_border.ask("get", cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        cls._assay_border.ask("set", cls, name, (value,))

    def __delattr__(cls, name: str) -> None:
        cls._assay_border.ask("del", cls, name)

    def __bool__(cls) -> bool:
        return True

    def __instancecheck__(cls, value: Any) -> bool:
        return super().__instancecheck__(value) or _follows(cls, value)

    def __subclasscheck__(cls, other: type) -> bool:
        return super().__subclasscheck__(other) or _follows(cls, other)

    def __dir__(cls) -> List[str]:
        return cls._assay_border.ask("dir", cls)

    # Classes with a metaclass: enumerations.
    def __iter__(cls) -> Any:
        return cls._assay_border.ask("op", cls, "__iter__")

    def __len__(cls) -> int:
        return cls._assay_border.ask("op", cls, "__len__")

    def __getitem__(cls, key: Any) -> Any:
        return cls._assay_border.ask("item", cls, args=(key,))

    def __contains__(cls, value: Any) -> bool:
        return cls._assay_border.ask("op", cls, "__contains__", (value,))


def _follows(cls: RemoteClass, value: Any) -> bool:
    """Whether a value has what a protocol checked at run time names.

    The names are what the other side says of its own class; whether the value has
    them is found here.
    """
    names = vars(cls).get("_assay_protocol")
    return names is not None and all(getattr(value, n, None) is not None for n in names)


class Remote(metaclass=RemoteClass):
    """An object of the other side."""

    def __getattr__(self, name: str) -> Any:
        cls = type(self)
        if name.startswith(_NOISE):
            raise AttributeError(name)
        if name in cls._assay_methods and name not in self._assay_set:
            return RemoteMethod(self, name)
        return cls._assay_border.ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, "_assay_set", self._assay_set | {name})
        type(self)._assay_border.ask("set", self, name, (value,))

    def __delattr__(self, name: str) -> None:
        type(self)._assay_border.ask("del", self, name)

    def __dir__(self) -> List[str]:
        return type(self)._assay_border.ask("dir", self)

    def __repr__(self) -> str:
        for base in (BaseException,) + IMMUTABLE:
            if isinstance(self, base):
                return base.__repr__(self)
        return "<%s.%s object>" % (type(self).__module__, type(self).__qualname__)

    def __copy__(self) -> Any:
        return type(self)._assay_border.ask("copy", self)

    def __deepcopy__(self, memo: Any) -> Any:
        return type(self)._assay_border.ask("deepcopy", self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("an object of another process cannot be pickled")


def remote_dict(self: Any) -> Any:
    return type(self)._assay_border.ask("get", self, "__dict__")


class RemoteMethod:
    """A method of a Remote, asked for only when it is called."""

    def __init__(self, owner: Remote, name: str) -> None:
        self.__self__ = owner
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        owner = self.__self__
        return type(owner)._assay_border.ask("callm", owner, self.__name__, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(_NOISE):
            raise AttributeError(name)
        if name == "__signature__":
            return signature(type(self.__self__)._assay_border, self.__self__, self.__name__)
        return getattr(type(self.__self__)._assay_border.ask("get", self.__self__, self.__name__), name)

    def __eq__(self, other: Any) -> Any:
        return type(other) is RemoteMethod and (other.__self__, other.__name__) == (self.__self__, self.__name__)

    def __hash__(self) -> int:
        return hash((id(self.__self__), self.__name__))

    @property
    def __class__(self) -> Any:
        return types.MethodType


class RemoteModule(types.ModuleType):
    """A module of the other side."""

    def __init__(self, name: str, border: "Border") -> None:
        super().__init__(name)
        self.__dict__["_assay_border"] = border

    def __getattr__(self, name: str) -> Any:
        if name.startswith(_OF_MODULES):
            raise AttributeError(name)
        return self.__dict__["_assay_border"].ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)  # the import system's own
            return
        self.__dict__["_assay_border"].ask("set", self, name, (value,))

    def __delattr__(self, name: str) -> None:
        self.__dict__["_assay_border"].ask("del", self, name)

    def __dir__(self) -> List[str]:
        return self.__dict__["_assay_border"].ask("dir", self)


def signature(border: "Border", owner: Any, name: str = "") -> inspect.Signature:
    """The signature of a function of the other side."""
    empty = inspect.Parameter.empty
    listed = border.ask("signature", owner, name)
    return inspect.Signature(
        [
            inspect.Parameter(n, getattr(inspect.Parameter, kind), default=default[0] if default else empty)
            for n, kind, default in listed
        ]
    )


def list_signature(function: Any) -> List[Any]:
    return [
        [p.name, p.kind.name, [] if p.default is p.empty else [p.default]]
        for p in inspect.signature(function).parameters.values()
    ]


def specials_of(cls: type) -> List[str]:
    """The special methods that a class has beyond those of every object."""
    found = []
    for name in SPECIALS:
        for base in cls.__mro__[:-1]:
            if name in vars(base):
                value = vars(base)[name]
                if value is not None:
                    found.append(name)
                elif name == "__hash__":
                    found.append("-__hash__")
                break
    return sorted(found)


def protocol_of(cls: type) -> Optional[List[str]]:
    """The names that a protocol checked at run time asks for; None for other classes."""
    if not vars(cls).get("_is_protocol") or not getattr(cls, "_is_runtime_protocol", False):
        return None
    return sorted(typing._get_protocol_attrs(cls))  # type: ignore[attr-defined]


_FUNCTIONS = (types.FunctionType, types.MethodDescriptorType)


def methods_of(cls: type) -> List[str]:
    found = set()
    for base in reversed(cls.__mro__[:-1]):
        for name, value in list(vars(base).items()):
            if type(name) is not str or name.startswith("__"):
                continue
            if isinstance(value, _FUNCTIONS):
                found.add(name)
            else:
                found.discard(name)
    return sorted(found)
