"""A clock that is moved by a given time.

The machine's own clock cannot be set, so this changes what Python shows:
time.time and those that read it, datetime.now and date.today. A program that
asks the system in another way, a subprocess for instance, sees the real time.
"""

import datetime
import time
from typing import Any

_DATE, _DATETIME = datetime.date, datetime.datetime
_MAKERS = "fromtimestamp utcfromtimestamp fromordinal fromisoformat fromisocalendar strptime combine".split()


class _Lookalike(type):
    """The class of classes that only make instances of the real one."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls._real) if "_real" in vars(cls) else type.__instancecheck__(cls, value)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls._real) if "_real" in vars(cls) else type.__subclasscheck__(cls, other)


def _lookalike(real: type, **methods: Any) -> type:
    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        return real.__new__(real if "_real" in vars(cls) else cls, *args, **kwargs)

    space = {"__new__": new, "_real": real, "__module__": real.__module__, "__doc__": real.__doc__}
    space.update({n: staticmethod(getattr(real, n)) for n in _MAKERS if hasattr(real, n)})
    space.update({n: staticmethod(m) for n, m in methods.items()})
    return _Lookalike(real.__name__, (real,), space)


def move(seconds: float) -> None:
    """Makes the clock show so much more than the real time."""
    real_ns, shift = time.time_ns, int(seconds * 1e9)

    def now() -> float:
        return (real_ns() + shift) / 1e9

    def with_default(function: Any) -> Any:
        return lambda seconds=None: function(now() if seconds is None else seconds)

    asctime, strftime = time.asctime, time.strftime
    time.time, time.time_ns = now, lambda: real_ns() + shift
    localtime = time.localtime = with_default(time.localtime)
    time.gmtime, time.ctime = with_default(time.gmtime), with_default(time.ctime)
    time.asctime = lambda t=None: asctime(localtime() if t is None else t)
    time.strftime = lambda form, t=None: strftime(form, localtime() if t is None else t)
    datetime.date = _lookalike(_DATE, today=lambda: _DATE.fromtimestamp(now()))  # type: ignore[misc]
    datetime.datetime = _lookalike(  # type: ignore[misc]
        _DATETIME,
        now=lambda tz=None: _DATETIME.fromtimestamp(now(), tz),
        today=lambda: _DATETIME.fromtimestamp(now()),
        utcnow=lambda: _DATETIME.utcfromtimestamp(now()),
    )
