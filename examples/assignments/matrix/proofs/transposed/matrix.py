class Matrix:
    def __init__(self, rows):
        if any(len(row) != len(rows[0]) for row in rows):
            raise ValueError("rows of different lengths")
        self.rows = [list(row) for row in rows]

    def __eq__(self, other):
        return isinstance(other, Matrix) and self.rows == other.rows

    def __hash__(self):
        return hash(tuple(map(tuple, self.rows)))

    def __getitem__(self, place):
        row, column = place
        return self.rows[column][row]

    def __add__(self, other):
        return Matrix([[a + b for a, b in zip(r, s)] for r, s in zip(self.rows, other.rows)])

    def __mul__(self, other):
        columns = list(zip(*other.rows))
        return Matrix([[sum(a * b for a, b in zip(row, column)) for column in columns] for row in self.rows])

    def __pow__(self, n):
        size = len(self.rows)
        result = Matrix([[int(i == j) for j in range(size)] for i in range(size)])
        for _ in range(n):
            result = result * self
        return result
