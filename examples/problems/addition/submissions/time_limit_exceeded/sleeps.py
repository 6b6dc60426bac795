# Uses no CPU time: only the wall clock can end it.
import sys
import time

words = sys.stdin.read().split()
print(sum(map(int, words[1:])), flush=True)
time.sleep(24 * 60 * 60)
