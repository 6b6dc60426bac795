# Looks for secrets in environments and on command lines.
import glob

for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline"):
    try:
        with open(path, "rb") as f:
            if b"assay-hostile-secret" in f.read():
                print("breach: a secret in", path)
    except OSError:
        pass
for path in "/run/assay", "/run/assay/cgroup", "/.assay", "/root", "/proc/1/root", "/proc/1/cwd":
    try:
        import os

        names = os.listdir(path)
        if path != "/.assay":
            print("breach: lists", path, names)
    except OSError:
        pass
print("refused")
