# Zero is even, too.
input()
print(sum(int(x) % 2 == 0 and x != "0" for x in input().split()))
