"""Reports as text."""

from stockroom import config
from stockroom.money import format_amount
from stockroom.stock import Stock


def low_stock(items):
    """Lists the items with few pieces."""
    stock = Stock({item.number: item.pieces for item in items})
    names = {item.number: item for item in items}
    lines = ["%s  %s: %d left" % (number, names[number].name, names[number].pieces) for number in stock.low()]
    return "\n".join(lines) or "nothing is low"


def sales(orders):
    """Lists what each customer has paid, the highest first."""
    paid = {}
    for order in orders:
        paid[order.customer] = paid.get(order.customer, 0) + order.total()
    ranked = sorted(paid.items(), key=lambda entry: (-entry[1], entry[0]))
    return "\n".join("%s: %s %s" % (customer, format_amount(cents), config.CURRENCY) for customer, cents in ranked)
