# Fills the disk with files of one block, in many places.
import os

chunk = b"x" * 4096
i = 0
while True:
    directory = "/tmp/d%d" % (i // 1000)
    if i % 1000 == 0:
        os.makedirs(directory)
    with open("%s/f%d" % (directory, i), "wb") as f:
        f.write(chunk)
    i += 1
