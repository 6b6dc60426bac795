class Cart:
    def __init__(self):
        self.prices = {}

    def add(self, name, price):
        if price < 0:
            raise TypeError(price)
        self.prices[name] = price

    def names(self):
        return sorted(self.prices)

    def total(self):
        total = sum(self.prices.values())
        return total * 9 // 10 if total >= 5000 else total
