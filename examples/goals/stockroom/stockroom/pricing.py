"""Discounts and shipping: see docs/pricing.md."""

from stockroom import config
from stockroom.money import percent_of


def discount(goods):
    """Returns the discount for a goods value, both in cents."""
    for start, percent in config.DISCOUNTS:
        if goods >= start:
            return percent_of(goods, percent)
    return 0


def shipping(goods):
    """Returns the cost of shipping for a goods value after discount, both in cents."""
    return 0 if goods >= config.FREE_SHIPPING_FROM else config.SHIPPING


def order_total(goods):
    """Returns the total for a goods value, both in cents."""
    reduced = goods - discount(goods)
    return reduced + shipping(reduced)
