package pytest

// Clock gives the Python module clock.py, which moves the clock that a program
// sees: modes that run Python have one way to do it.
func Clock() []byte { return clockPy }
