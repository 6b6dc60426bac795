print("3"
