import re
import sys

text = sys.stdin.read()
assert re.fullmatch(r"[1-9][0-9]{0,3}\n", text) and int(text) <= 1000
sys.exit(42)
