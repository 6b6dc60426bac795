# One call for each corner: too deep for Python.
# @EXPECTED_RESULTS@: RE
import sys

words = sys.stdin.read().split()
p = list(zip(map(float, words[1::2]), map(float, words[2::2])))


def twice(i):
    if i == len(p):
        return 0.0
    a, b = p[i], p[(i + 1) % len(p)]
    return (a[0] - p[0][0]) * (b[1] - p[0][1]) - (b[0] - p[0][0]) * (a[1] - p[0][1]) + twice(i + 1)


print(abs(twice(0)) / 2)
