"""Orders and their lines."""

import csv
from dataclasses import dataclass, field

from stockroom.money import parse_amount
from stockroom.pricing import order_total


@dataclass(frozen=True)
class Line:
    """A line of an order: so many pieces of an item, at a unit price in cents."""

    item: str
    quantity: int
    price: int


@dataclass
class Order:
    """An order of a customer."""

    number: str
    customer: str
    day: str
    lines: list = field(default_factory=list)

    def goods(self):
        """Returns the goods value in cents, before discount and shipping."""
        return sum(line.quantity * line.price for line in self.lines)

    def total(self):
        """Returns what the customer pays, in cents."""
        return order_total(self.goods())


def read_orders(path):
    """Reads the orders of a CSV file with a row for each line of an order."""
    orders = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            order = orders.setdefault(row["order"], Order(row["order"], row["customer"], row["day"]))
            order.lines.append(Line(row["item"], int(row["quantity"]), parse_amount(row["price"])))
    return list(orders.values())
