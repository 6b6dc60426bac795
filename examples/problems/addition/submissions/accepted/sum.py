import sys

words = sys.stdin.read().split()
print("\n  ", sum(map(int, words[1:])), "  \n")  # blanks around it: allowed
