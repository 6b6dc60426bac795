all = [bytes([i % 256]) * 2**20 for i in range(160)]
print("hello" if all[7][7] == 7 else "lost")
