# The right answer, and then more blanks than anybody may print.
import sys

words = sys.stdin.read().split()
print(sum(map(int, words[1:])))
for _ in range(9):
    sys.stdout.write(" " * 2**20)
