# @EXPECTED_RESULTS@: RE
# 42 is how a checker accepts. From a submission it means nothing.
import sys

words = sys.stdin.read().split()
print(sum(map(int, words[1:])), flush=True)
sys.exit(42)
