# @EXPECTED_RESULTS@: TLE
# Computes too long first and takes too much memory then: the time was over.
n = 0
while n < 10**9:
    n += 1
x = [b"a" * 10**6 for _ in range(10**4)]
