class Matrix:
    def __init__(self, rows):
        pass
