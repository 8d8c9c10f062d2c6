"""The pieces in stock."""

from stockroom import config


class OutOfStock(Exception):
    """Not enough pieces of an item are available."""


class Stock:
    """The pieces of each item, and how many of them are reserved for orders."""

    def __init__(self, pieces):
        self.pieces = dict(pieces)
        self.reserved = dict.fromkeys(pieces, 0)

    def available(self, item):
        """Returns the pieces that are not reserved."""
        return self.pieces[item] - self.reserved[item]

    def reserve(self, item, quantity):
        """Reserves pieces for an order."""
        if self.available(item) < quantity:
            raise OutOfStock(f"{item}: {quantity} wanted, {self.available(item)} available")
        self.reserved[item] += quantity

    def ship(self, item, quantity):
        """Takes reserved pieces out of the stock."""
        self.reserved[item] -= quantity
        self.pieces[item] -= quantity

    def low(self):
        """Returns the items with few pieces, by name."""
        return sorted(item for item in self.pieces if self.available(item) < config.LOW_STOCK)
