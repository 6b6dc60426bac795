class Cart:
    """Articles and their prices in cents."""

    def __init__(self):
        self._prices = {}

    def add(self, name, price):
        if price < 0:
            raise ValueError("a price cannot be below zero")
        self._prices[name] = price

    def names(self):
        return sorted(self._prices)

    def total(self):
        total = sum(self._prices.values())
        if total >= 5000:
            total -= total // 10
        return total
