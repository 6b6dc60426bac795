# Adds the triangles up again from the start for each corner.
import sys

words = sys.stdin.read().split()
p = list(zip(map(float, words[1::2]), map(float, words[2::2])))
best = 0.0
for end in range(1, len(p) + 1):
    total = 0.0
    for i in range(end):
        a, b = p[i], p[(i + 1) % len(p)]
        total += a[0] * b[1] - b[0] * a[1]
    best = total
print(abs(best) / 2)
