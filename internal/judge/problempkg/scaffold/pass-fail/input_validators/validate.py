import re
import sys

lines = sys.stdin.read().split("\n")
assert len(lines) == 3 and lines[2] == ""
assert re.fullmatch(r"[1-9][0-9]{0,3}", lines[0]) and int(lines[0]) <= 1000
words = lines[1].split(" ")
assert len(words) == int(lines[0])
for w in words:
    assert re.fullmatch(r"0|-?[1-9][0-9]{0,18}", w) and abs(int(w)) <= 10**18
sys.exit(42)
