"""The command."""

import argparse
import sys

from stockroom.items import read_items
from stockroom.money import format_amount
from stockroom.orders import read_orders
from stockroom.report import low_stock, sales


def main(arguments=None, out=sys.stdout):
    """Runs the command, and returns its exit code."""
    parser = argparse.ArgumentParser(prog="stockroom")
    commands = parser.add_subparsers(dest="command", required=True)
    low = commands.add_parser("low-stock", help="items with few pieces")
    low.add_argument("items")
    paid = commands.add_parser("sales", help="what each customer has paid")
    paid.add_argument("orders")
    total = commands.add_parser("total", help="what an order costs")
    total.add_argument("orders")
    total.add_argument("number")
    options = parser.parse_args(arguments)
    if options.command == "low-stock":
        print(low_stock(read_items(options.items)), file=out)
    elif options.command == "sales":
        print(sales(read_orders(options.orders)), file=out)
    else:
        orders = {order.number: order for order in read_orders(options.orders)}
        if options.number not in orders:
            print(f"there is no order {options.number}", file=sys.stderr)
            return 1
        print(format_amount(orders[options.number].total()), file=out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
