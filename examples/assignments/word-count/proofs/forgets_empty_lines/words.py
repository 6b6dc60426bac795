import re
import sys

counts = {}
for line in iter(sys.stdin.readline, "\n"):  # stops at the first empty line
    if not line:
        break
    for word in re.findall(r"[a-z]+", line.lower()):
        counts[word] = counts.get(word, 0) + 1
for word in sorted(counts):
    print(word, counts[word])
sys.exit(not counts)
