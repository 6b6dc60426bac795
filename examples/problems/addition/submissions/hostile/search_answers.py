# @EXPECTED_RESULTS@: WA
# Looks for the expected outputs: in files, and in what /proc shows of others.
# Prints what it finds; there must be nothing.
import os
import sys

number = sys.stdin.read()
for folder, inner, files in os.walk("/"):
    if folder in ("/proc", "/sys", "/usr"):
        inner.clear()
        continue
    for name in files:
        if name.endswith(".ans"):
            try:
                with open(os.path.join(folder, name)) as f:
                    print(f.read())
            except OSError:
                pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    for what in ("cmdline", "environ"):
        try:
            with open(f"/proc/{pid}/{what}", "rb") as f:
                if b".ans" in f.read() and int(pid) != os.getpid():
                    print("somebody speaks of answers")
        except OSError:
            pass
