import sys

text = sys.stdin.read()
# Write each word and how often it occurs.
