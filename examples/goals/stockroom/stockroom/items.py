"""The items that the shop sells."""

import csv
from dataclasses import dataclass

from stockroom.money import parse_amount


@dataclass(frozen=True)
class Item:
    """An item with its price in cents and the pieces in stock."""

    number: str
    name: str
    price: int
    pieces: int


def read_items(path):
    """Reads the items of a CSV file with the columns number, name, price and pieces."""
    with open(path, newline="", encoding="utf-8") as file:
        return [
            Item(row["number"], row["name"], parse_amount(row["price"]), int(row["pieces"]))
            for row in csv.DictReader(file)
        ]
