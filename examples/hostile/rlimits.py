# Lowers its own limits, and its parent's if it may, for later runs.
import os
import resource

for name in "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_CPU", "RLIMIT_DATA":
    kind = getattr(resource, name)
    for pid in 1, os.getppid():
        try:
            resource.prlimit(pid, kind, (1, 1))
            if pid == 1 and os.getppid() != 1:
                print("breach: sets a limit of init")
        except OSError:
            pass
for name in "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_CPU":
    resource.setrlimit(getattr(resource, name), (1, 1))
os.write(1, b"lowered\n")
