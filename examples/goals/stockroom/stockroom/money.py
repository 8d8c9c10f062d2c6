"""Amounts of money, kept in cents."""

import re

AMOUNT = re.compile(r"-?\d+(\.\d{1,2})?")


def parse_amount(text):
    """Reads an amount such as "12.50" into cents."""
    text = text.strip()
    if not AMOUNT.fullmatch(text):
        raise ValueError(f"{text!r} is not an amount such as 12.50")
    sign = -1 if text.startswith("-") else 1
    whole, _, cents = text.lstrip("-").partition(".")
    return sign * (int(whole) * 100 + int(cents.ljust(2, "0") or 0))


def format_amount(cents):
    """Writes cents as an amount such as "12.50"."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}"


def percent_of(cents, percent):
    """Returns a percentage of an amount, rounded half up to a cent."""
    return (cents * percent + 50) // 100
