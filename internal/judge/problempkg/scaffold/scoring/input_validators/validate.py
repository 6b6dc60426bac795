import re
import sys

limit = int(sys.argv[1]) if len(sys.argv) > 1 else 10**9
text = sys.stdin.read()
assert re.fullmatch(r"[1-9][0-9]{0,9}\n", text) and int(text) <= limit
sys.exit(42)
