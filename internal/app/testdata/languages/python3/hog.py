x = [b"a" * 10**6 + bytes([i % 256]) for i in range(10**4)]
