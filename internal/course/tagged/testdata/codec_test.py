"""Tests of tagged.py; the Go test runs them with the folder of it in sys.path."""

import datetime
import decimal
import fractions
import json
import unittest

import tagged

VALUES = [
    None, True, "", "é", "\ud800x", 1, 2**53, 2**53 + 1, -(2**53) - 1, 10**9999, 1.5, -0.0, 1e300, 1e-7,
    float("inf"), float("nan"), 1j, complex("nan-1j"), b"\x00\xff", [1, [2]], (1,), {1, 2}, frozenset([1]),
    {(1, 2): [3], "a": None}, range(1, 10, 2), range(0, 2**70), decimal.Decimal("1.50"), decimal.Decimal("NaN"),
    fractions.Fraction(-1, 3), datetime.date(2026, 1, 2), datetime.time(1, 2), datetime.timedelta(-1, 5, 6),
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.timezone.utc),
]  # fmt: skip

MALFORMED = [
    1.5, 2**60, [1], {}, {"l": [], "t": []}, {"x": 1}, {"f": "1_0"}, {"f": 1}, {"i": "x"}, {"i": "1" * 200000},
    {"l": 1}, {"d": [[1]]}, {"td": [1.5, 0, 0]}, {"frac": ["1", "0"]}, {"h": {}}, {"dec": "zz"},
    {"dec": [0, [1], "F"]}, {"b": "!"}, {"np": 1}, {"range": [0, 1, 0]}, {"s": [{"l": []}]}, {"date": 3},
]  # fmt: skip


class Subclass(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


class CodecTest(unittest.TestCase):
    def test_round_trip(self):
        codec = tagged.Codec()
        for value in VALUES:
            with self.subTest(str(type(value))):
                back = codec.decode(json.loads(json.dumps(codec.encode(value))))
                self.assertIs(type(back), type(value))
                self.assertTrue(back == value or repr(back) == repr(value))

    def test_malformed_is_refused(self):
        for data in MALFORMED:
            with self.subTest(str(data)[:80]), self.assertRaises((ValueError, TypeError, ImportError)):
                tagged.Codec().decode(data)

    def test_deep_values_are_refused(self):
        deep, data = [], {"l": []}
        for _ in range(tagged.MAX_DEPTH * 2):
            deep, data = [deep], {"l": [data]}
        with self.assertRaises(tagged.TaggedError):
            tagged.Codec().encode(deep)
        with self.assertRaises(tagged.TaggedError):
            tagged.Codec().decode(data)

    def test_subclasses_are_not_plain(self):
        with self.assertRaises(tagged.TaggedError):
            tagged.Codec().encode(Subclass(3))


if __name__ == "__main__":
    unittest.main()
