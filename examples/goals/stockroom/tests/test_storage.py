import os
import sqlite3
import tempfile
import unittest

from stockroom.money import parse_amount
from stockroom.orders import Line, Order
from stockroom.storage import Storage


class Orders(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "orders.db")

    def tearDown(self):
        self.folder.cleanup()

    def test_a_saved_order_is_loaded(self):
        storage = Storage(self.path)
        order = Order("1", "Ada", "2025-01-01", [Line("A-100", 2, parse_amount("39.90"))])
        storage.save(order)
        self.assertEqual(storage.load("1"), order)
        self.assertIsNone(storage.load("2"))
        storage.connection.close()

    def test_a_busy_database_is_tried_again(self):
        pauses = []
        storage = Storage(self.path, pauses.append)
        other = sqlite3.connect(self.path)
        other.execute("BEGIN EXCLUSIVE")
        with self.assertRaises(sqlite3.OperationalError):
            storage.save(Order("1", "Ada", "2025-01-01", [Line("A-100", 2, 3990)]))
        self.assertEqual(pauses, [0.1, 0.2, 0.4])
        other.close()
        storage.connection.close()
