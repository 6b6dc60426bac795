# Fills memory through a filesystem that lies in it.
chunk = b"x" * (1 << 20)
with open("/dev/shm/fill", "wb") as f:
    while True:
        f.write(chunk)
        f.flush()
