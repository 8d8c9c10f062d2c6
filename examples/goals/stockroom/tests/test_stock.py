import unittest

from stockroom.stock import OutOfStock, Stock


class Pieces(unittest.TestCase):
    def test_reserved_pieces_are_not_available(self):
        stock = Stock({"A": 10})
        stock.reserve("A", 4)
        self.assertEqual(stock.available("A"), 6)
        stock.ship("A", 4)
        self.assertEqual((stock.pieces["A"], stock.available("A")), (6, 6))

    def test_more_than_is_available_cannot_be_reserved(self):
        stock = Stock({"A": 3})
        with self.assertRaises(OutOfStock):
            stock.reserve("A", 4)

    def test_few_pieces_are_low(self):
        self.assertEqual(Stock({"C": 2, "A": 0, "B": 50}).low(), ["A", "C"])
