for n in range(100):
    print("the", n)
