import io
import unittest

from stockroom.cli import main
from stockroom.items import read_items
from stockroom.orders import read_orders
from stockroom.report import low_stock, sales


class Reports(unittest.TestCase):
    def test_low_items_are_listed_with_their_pieces(self):
        self.assertIn("B-200  Toaster: 3 left", low_stock(read_items("data/items.csv")))

    def test_customers_are_ranked_by_what_they_paid(self):
        lines = sales(read_orders("data/orders.csv")).splitlines()
        self.assertEqual(lines[:2], ["Grace: 464.40 EUR", "Ada: 161.75 EUR"])

    def test_the_command_prints_a_total(self):
        out = io.StringIO()
        self.assertEqual(main(["total", "data/orders.csv", "1003"], out), 0)
        self.assertEqual(out.getvalue(), "40.90\n")

    def test_an_unknown_order_is_an_error(self):
        self.assertEqual(main(["total", "data/orders.csv", "9"], io.StringIO()), 1)
