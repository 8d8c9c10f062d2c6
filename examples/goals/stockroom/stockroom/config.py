"""Settings of the shop."""

CURRENCY = "EUR"

# Items with fewer pieces than this are reported as low.
LOW_STOCK = 5

# Goods value in cents from which a discount holds, and the discount in percent; the highest first.
DISCOUNTS = [(50_000, 10), (10_000, 5)]

SHIPPING = 490
FREE_SHIPPING_FROM = 5_000

# Attempts at a statement while the database is busy, and the pause before the second one in seconds. Each pause is twice the one before.
BUSY_ATTEMPTS = 4
BUSY_PAUSE = 0.1
