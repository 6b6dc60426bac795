def fahrenheit(celsius):
    """Degrees Fahrenheit, rounded to a whole number."""
