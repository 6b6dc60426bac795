# Holds little memory in each of many processes.
import os
import time

for _ in range(12):
    if os.fork() == 0:
        held = bytearray(16 << 20)
        for i in range(0, len(held), 4096):
            held[i] = 1
        time.sleep(60)
time.sleep(60)
