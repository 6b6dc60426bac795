# Recurses without end and lifts the interpreter's own limit first.
import sys

sys.setrecursionlimit(1 << 30)


def deeper(n):
    return deeper(n + 1) + n


deeper(0)
