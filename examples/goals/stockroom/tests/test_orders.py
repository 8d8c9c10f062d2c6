import unittest

from stockroom.money import parse_amount
from stockroom.orders import Line, Order, read_orders


def order(price, quantity=1):
    return Order("1", "Ada", "2025-01-01", [Line("A-100", quantity, parse_amount(price))])


class Orders(unittest.TestCase):
    def test_the_goods_value_sums_up_the_lines(self):
        self.assertEqual(order("39.90", 3).goods(), 11_970)

    def test_small_orders_pay_for_shipping(self):
        self.assertEqual(order("49.99").total(), 5_489)
        self.assertEqual(order("50.00").total(), 5_000)

    def test_discounts_begin_at_their_values(self):
        self.assertEqual(order("99.99").total(), 9_999)
        self.assertEqual(order("100.00").total(), 9_500)
        self.assertEqual(order("500.00").total(), 45_000)

    def test_rows_of_an_order_are_its_lines(self):
        orders = read_orders("data/orders.csv")
        self.assertEqual([one.number for one in orders], ["1001", "1002", "1003", "1004", "1005"])
        self.assertEqual(orders[0].goods(), 6_390)
