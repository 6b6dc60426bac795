def fahrenheit(celsius):
    """Degrees Fahrenheit, rounded to a whole number."""
    return round(celsius * 9 / 5 + 32)
