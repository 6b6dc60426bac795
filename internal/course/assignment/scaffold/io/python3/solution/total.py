print(sum(int(word) for word in input().split()))
