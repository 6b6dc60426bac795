# Looks into every process that /proc shows: guestd and other runs.
import os

me = os.getpid()
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == me:
        continue
    for name in "environ", "maps", "mem", "fd/3", "root/etc/shadow", "cwd/x":
        path = "/proc/%s/%s" % (pid, name)
        try:
            with open(path, "rb") as f:
                if name != "mem":
                    data = f.read(100)
                    if data:
                        print("breach: reads", path)
                else:
                    f.seek(0x400000)
                    if f.read(16):
                        print("breach: reads", path)
        except OSError:
            pass
    try:
        with open("/proc/%s/mem" % pid, "r+b"):
            print("breach: may write memory of", pid)
    except OSError:
        pass
print("refused")
