class Cart:
    def __init__(self):
        self.prices = {}

    def add(self, name, price):
        if price < 0:
            raise ValueError(price)
        self.prices[name] = price

    def names(self):
        return sorted(self.prices)

    def total(self):
        return sum(self.prices.values())
