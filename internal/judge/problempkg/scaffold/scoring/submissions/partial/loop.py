# Right, and too slow for the largest staircase.
n = int(input())
blocks = 0
for i in range(1, n + 1):
    blocks += i
print(blocks)
