def is_leap(year):
    return False  # Is it a leap year?
