def total(numbers):
    return None
