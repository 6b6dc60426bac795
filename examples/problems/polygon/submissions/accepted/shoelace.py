import sys
from fractions import Fraction

words = sys.stdin.read().split()
p = [(round(1000 * Fraction(x)), round(1000 * Fraction(y))) for x, y in zip(words[1::2], words[2::2])]
twice = sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(p, p[1:] + p[:1]))
print(abs(twice) / 2_000_000)
