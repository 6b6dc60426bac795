# Forgets that the walk may go to the right around the field.
import sys

words = sys.stdin.read().split()
p = list(zip(map(float, words[1::2]), map(float, words[2::2])))
print(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(p, p[1:] + p[:1])) / 2)
