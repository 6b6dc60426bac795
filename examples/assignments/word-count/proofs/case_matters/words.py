import re
import sys
from collections import Counter

counts = Counter(re.findall(r"[A-Za-z]+", sys.stdin.read()))
for word in sorted(counts):
    print(word, counts[word])
sys.exit(0 if counts else 1)
