# Looks for a cgroup tree to leave its own, and goes on using memory.
import glob

held = []
for path in glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True) + glob.glob("/run/assay/cgroup/**/cgroup.procs", recursive=True):
    try:
        with open(path, "w") as f:
            f.write("0")
        print("breach: joins", path)
    except OSError:
        pass
while True:
    held.append(bytearray(4 << 20))
