"""Values as JSON, with a tag on whatever JSON itself does not have.

None, bool, str and int within 2**53 are as they are; all else is an object with
one key, the tag (see the Go package tagged). Only values whose type is exactly
a plain one are carried: a subclass could answer for itself. Nothing is ever
unpickled or evaluated, and what comes in is held for hostile.

Start with Codec; pytest mode derives from it to carry handles.
"""

import base64
import datetime
import decimal
import fractions
import re
import sys
from typing import Any, Callable, Dict, Optional

#: The largest integer that every JSON reader takes exactly.
SAFE_INTEGER = 2**53
#: How deep values may be nested, and how many digits an integer may have:
#: reading a longer one takes time that nobody's limit counts.
MAX_DEPTH = 150
MAX_DIGITS = 100_000

_DATETIME, _TIME = datetime.datetime, datetime.time  # both may be replaced by a clock of ours
_DIGITS = 4000  # below what str() and int() refuse
_INTEGER = re.compile(r"-?[0-9]+\Z")
_FLOAT = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?\Z")


class TaggedError(ValueError):
    """A value that cannot be carried, or JSON that is not a tagged value."""


def _to_digits(n: int) -> str:
    """Decimal digits of n >= 0 of any length, in halves."""
    size = n.bit_length() * 30103 // 100000 + 1
    if size < _DIGITS:
        return str(n)
    half = size // 2
    high, low = divmod(n, 10**half)
    return _to_digits(high) + _to_digits(low).rjust(half, "0")


def _from_digits(text: str) -> int:
    if len(text) < _DIGITS:
        return int(text)
    half = len(text) // 2
    return _from_digits(text[:-half]) * 10**half + _from_digits(text[-half:])


def _encode_integer(n: int) -> Any:
    if -SAFE_INTEGER <= n <= SAFE_INTEGER:
        return n
    if n.bit_length() > MAX_DIGITS * 3.3:
        raise TaggedError("an integer of more than %d digits cannot be carried" % MAX_DIGITS)
    return {"i": ("-" if n < 0 else "") + _to_digits(abs(n))}


def _decode_integer(text: Any) -> int:
    if type(text) is not str or not _INTEGER.match(text) or len(text) > MAX_DIGITS + 1:
        raise TaggedError("a bad integer")
    return -_from_digits(text[1:]) if text[0] == "-" else _from_digits(text)


def _decode_float(text: Any) -> float:
    if type(text) is not str or not (text in ("nan", "inf", "-inf") or _FLOAT.match(text)):
        raise TaggedError("a bad float")
    return float(text)


def _encode_bytes(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode_bytes(text: Any) -> bytes:
    if type(text) is not str:
        raise TaggedError("bad base64")
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError as e:
        raise TaggedError("bad base64") from e


def _same_text(text: str) -> str:
    """The one object for a short text: "is" holds for one that was here before."""
    return sys.intern(text) if len(text) < 200 else text


def _encode_text(text: str) -> Any:
    _same_text(text)
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return {"u": _encode_bytes(text.encode("utf-8", "surrogatepass"))}
    return text


def _sequence(body: Any) -> list:
    if type(body) is not list:
        raise TaggedError("not a list")
    return body


# Rarely used plain types: how each is written.
_SCALARS: Dict[type, Callable[[Any], Any]] = {
    float: lambda v: {"f": repr(v)},
    complex: lambda v: {"c": [repr(v.real), repr(v.imag)]},
    bytes: lambda v: {"b": _encode_bytes(v)},
    range: lambda v: {"range": [_encode_integer(n) for n in (v.start, v.stop, v.step)]},
    decimal.Decimal: lambda v: {"dec": str(v)},
    fractions.Fraction: lambda v: {"frac": [_to_text(v.numerator), _to_text(v.denominator)]},
    datetime.date: lambda v: {"date": v.isoformat()},
    datetime.timedelta: lambda v: {"td": [v.days, v.seconds, v.microseconds]},
}


def _to_text(n: int) -> str:
    tagged = _encode_integer(n)
    return tagged["i"] if type(tagged) is dict else str(tagged)


def _plain_zone(v: Any) -> bool:
    return v.tzinfo is None or type(v.tzinfo) is datetime.timezone


class Codec:
    """Writes and reads tagged values.

    A derived class gives the unplain ones a form ({"h": ...}) with
    encode_other and decode_other, and follows lists, dicts and sets with
    entering and made, which both hear of them in the same order.
    """

    def encode_other(self, value: Any) -> Any:
        """The JSON form of a value that is not plain."""
        raise TaggedError("a value of type %s cannot be carried" % type(value).__name__)

    def decode_other(self, body: Any) -> Any:
        """The value of the body of a handle."""
        raise TaggedError("no handles here")

    def entering(self, container: Any) -> Optional[Any]:
        """Called before a list, dict or set is written; not None replaces it."""
        return None

    def made(self, container: Any) -> None:
        """Called when a list, dict or set was made and before it is filled."""

    def encode(self, value: Any, depth: int = 0) -> Any:
        """The JSON form of a value."""
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return _encode_integer(value)
        if kind is str:
            return _encode_text(value)
        if kind is list or kind is dict or kind is set:
            return self._encode_container(value, kind, depth)
        if kind is tuple:
            return {"t": self._encode_all(value, depth)}
        if kind is frozenset:
            return {"z": self._encode_all(value, depth)}
        scalar = _SCALARS.get(kind)
        if scalar is not None:
            return scalar(value)
        if kind is _DATETIME and _plain_zone(value):
            return {"dt": value.isoformat()}
        if kind is _TIME and _plain_zone(value):
            return {"tm": value.isoformat()}
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            tagged = _encode_numpy(numpy, value)
            if tagged is not None:
                return tagged
        return self.encode_other(value)

    def _encode_container(self, value: Any, kind: type, depth: int) -> Any:
        known = self.entering(value)
        if known is not None:
            return known
        if kind is list:
            return {"l": self._encode_all(value, depth)}
        if kind is set:
            return {"s": self._encode_all(value, depth)}
        if depth >= MAX_DEPTH:
            raise TaggedError("a value is nested too deeply to be carried")
        encode, below = self.encode, depth + 1
        return {"d": [[encode(k, below), encode(v, below)] for k, v in list(value.items())]}

    def _encode_all(self, values: Any, depth: int) -> list:
        if depth >= MAX_DEPTH:
            raise TaggedError("a value is nested too deeply to be carried")
        encode, below = self.encode, depth + 1
        return [encode(v, below) for v in list(values)]

    def decode(self, data: Any, depth: int = 0) -> Any:
        """The value of a JSON form; ValueError or TypeError when it is none."""
        kind = type(data)
        if data is None or kind is bool:
            return data
        if kind is str:
            return _same_text(data)
        if kind is int:
            if not -SAFE_INTEGER <= data <= SAFE_INTEGER:
                raise TaggedError("a bare integer above 2**53")
            return data
        if kind is not dict or len(data) != 1 or depth > MAX_DEPTH + 1:
            raise TaggedError("not a tagged value")
        ((tag, body),) = data.items()
        if tag == "h":
            return self.decode_other(body)
        return self._decode_tag(tag, body, depth + 1)

    def _decode_tag(self, tag: str, body: Any, below: int) -> Any:
        decode = self.decode
        if tag == "l":
            items: list = []
            self.made(items)
            items.extend(decode(v, below) for v in _sequence(body))
            return items
        if tag == "t":
            return tuple(decode(v, below) for v in _sequence(body))
        if tag == "d":
            table: dict = {}
            self.made(table)
            for pair in _sequence(body):
                key, value = _sequence(pair)
                table[decode(key, below)] = decode(value, below)
            return table
        if tag == "s":
            members: set = set()
            self.made(members)
            members.update(decode(v, below) for v in _sequence(body))
            return members
        if tag == "z":
            return frozenset(decode(v, below) for v in _sequence(body))
        read = _READERS.get(tag)
        if read is None:
            raise TaggedError("an unknown tag")
        try:
            return read(body)
        except TaggedError:
            raise
        except (ValueError, TypeError, ArithmeticError, LookupError) as e:
            raise TaggedError("a bad value of tag %s" % tag) from e


def _decode_string(body: Any) -> str:
    if type(body) is not str:
        raise TaggedError("not a string")
    return body


def _read_text(body: Any) -> str:
    return _decode_bytes(body).decode("utf-8", "surrogatepass")


def _read_range(body: Any) -> range:
    start, stop, step = (_decode_integer(n["i"]) if type(n) is dict else _decode_integer(str(n)) for n in _sequence(body))
    return range(start, stop, step)


def _read_fraction(body: Any) -> fractions.Fraction:
    numerator, denominator = _sequence(body)
    return fractions.Fraction(_decode_integer(numerator), _decode_integer(denominator))


def _read_complex(body: Any) -> complex:
    real, imag = _sequence(body)
    return complex(_decode_float(real), _decode_float(imag))


def _read_timedelta(body: Any) -> datetime.timedelta:
    days, seconds, micros = (n if type(n) is int else int("") for n in _sequence(body))
    return datetime.timedelta(days, seconds, micros)


# How each scalar tag is read.
_READERS: Dict[str, Callable[[Any], Any]] = {
    "i": _decode_integer,
    "f": _decode_float,
    "c": _read_complex,
    "b": _decode_bytes,
    "u": _read_text,
    "range": _read_range,
    "dec": lambda body: decimal.Decimal(_decode_string(body)),
    "frac": _read_fraction,
    "date": datetime.date.fromisoformat,
    "dt": datetime.datetime.fromisoformat,
    "tm": datetime.time.fromisoformat,
    "td": _read_timedelta,
    "np": lambda body: _decode_numpy(body, True),
    "nps": lambda body: _decode_numpy(body, False),
}

# Kinds of numpy types that are bytes and nothing else: bool, integers, floats,
# complex, text, times. Never objects.
_NUMPY_KINDS = "biufcSUmM"


def _encode_numpy(numpy: Any, value: Any) -> Optional[Any]:
    if type(value) is numpy.ndarray and value.dtype.kind in _NUMPY_KINDS:
        data = numpy.ascontiguousarray(value)
        return {"np": {"dtype": value.dtype.str, "shape": list(value.shape), "data": _encode_bytes(data.tobytes())}}
    if isinstance(value, numpy.generic) and type(value).__module__ == "numpy" and value.dtype.kind in _NUMPY_KINDS:
        return {"nps": {"dtype": value.dtype.str, "data": _encode_bytes(value.tobytes())}}
    return None


def _decode_numpy(body: Any, array: bool) -> Any:
    # Imported by whoever wanted such a value: not at the start of every run.
    import numpy

    dtype = numpy.dtype(body["dtype"])
    if type(body["dtype"]) is not str or dtype.kind not in _NUMPY_KINDS:
        raise TaggedError("a bad numpy type")
    flat = numpy.frombuffer(_decode_bytes(body["data"]), dtype=dtype)
    if array:
        return flat.reshape([int(n) for n in _sequence(body["shape"])]).copy()
    return flat[0]
