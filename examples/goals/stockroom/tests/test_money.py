import unittest

from stockroom.money import format_amount, parse_amount, percent_of


class Money(unittest.TestCase):
    def test_amounts_are_kept_in_cents(self):
        self.assertEqual(parse_amount("12.50"), 1250)
        self.assertEqual(parse_amount(" 7 "), 700)
        self.assertEqual(parse_amount("-0.5"), -50)

    def test_other_texts_are_refused(self):
        for text in ["", "1,50", "1.234", "abc"]:
            with self.assertRaises(ValueError):
                parse_amount(text)

    def test_amounts_are_written_with_two_digits(self):
        self.assertEqual(format_amount(1250), "12.50")
        self.assertEqual(format_amount(-50), "-0.50")

    def test_halves_of_a_cent_are_rounded_up(self):
        self.assertEqual(percent_of(1_010, 5), 51)
        self.assertEqual(percent_of(1_009, 5), 50)
