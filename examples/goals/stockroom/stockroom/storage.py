"""Orders in a SQLite database."""

import sqlite3
import time

from stockroom import config
from stockroom.money import format_amount, parse_amount
from stockroom.orders import Line, Order


class Storage:
    """A database of orders."""

    def __init__(self, path, sleep=time.sleep):
        self.connection = sqlite3.connect(path, timeout=0)
        self.sleep = sleep
        self.execute(
            "CREATE TABLE IF NOT EXISTS lines (number TEXT, customer TEXT, day TEXT, item TEXT, quantity INTEGER, price TEXT)"
        )

    def execute(self, statement, values=()):
        """Executes a statement; waits and tries again while the database is busy."""
        pause = config.BUSY_PAUSE
        for attempt in range(1, config.BUSY_ATTEMPTS + 1):
            try:
                with self.connection:
                    return self.connection.execute(statement, values)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or attempt == config.BUSY_ATTEMPTS:
                    raise
                self.sleep(pause)
                pause *= 2

    def save(self, order):
        """Saves an order."""
        for line in order.lines:
            values = (order.number, order.customer, order.day, line.item, line.quantity, format_amount(line.price))
            self.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?)", values)

    def load(self, number):
        """Loads an order; None if there is none with this number."""
        order = None
        for row in self.execute("SELECT customer, day, item, quantity, price FROM lines WHERE number = ?", (number,)):
            customer, day, item, quantity, price = row
            order = order or Order(number, customer, day)
            order.lines.append(Line(item, quantity, parse_amount(price)))
        return order
