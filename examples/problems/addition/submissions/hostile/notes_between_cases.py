# @EXPECTED_RESULTS@: AC
# Leaves a note wherever it can write, and is silent if it finds one: a case
# must not learn anything from the cases before.
import os
import sys

words = sys.stdin.read().split()
found = False
for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/home/user", "/box", "/box/work", "/box/build", "/box/prog", "/box/src", os.getcwd(), os.path.expanduser("~"), "/"):
    path = os.path.join(folder, "note-of-an-earlier-case")
    try:
        found = found or os.path.exists(path)
    except OSError:
        pass
for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/home/user", "/box", "/box/work", "/box/build", "/box/prog", "/box/src", os.getcwd(), os.path.expanduser("~"), "/"):
    path = os.path.join(folder, "note-of-an-earlier-case")
    try:
        with open(path, "w") as f:
            f.write("hello")
    except OSError:
        pass
if not found:
    print(sum(map(int, words[1:])))
