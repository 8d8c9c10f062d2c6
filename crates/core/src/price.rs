//! Prices and costs of models, in whole nano-dollars, so that sums are exact on every platform.

use std::fmt;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// An amount of money in nano-dollars (billionths of a US dollar).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(pub u64);

impl Cost {
    /// A cost of zero.
    pub const ZERO: Cost = Cost(0);

    /// Converts from US dollars, rounding to whole nano-dollars. Returns `None` if the value is negative, not a number or more than 18
    /// billion.
    pub fn from_dollars(dollars: f64) -> Option<Cost> {
        // Every non-negative float below 2^64 can be converted to an integer.
        (0.0..=18e9)
            .contains(&dollars)
            .then_some(Cost((dollars * 1e9).round() as u64))
    }

    /// Returns the amount in US dollars.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns true if the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// Returns the sum, saturating at the maximum.
    pub fn saturating_add(self, other: Cost) -> Cost {
        Cost(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        *self = self.saturating_add(other);
    }
}

/// Formats the amount for display: `$12.50`, `$0.50`, `$0.0031`. Amounts of a dollar or more are rounded to cents, smaller amounts to
/// hundredths of a cent.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("$0"),
            1..100_000 => f.write_str("less than $0.0001"),
            // Amounts that round up to a dollar are formatted in dollars and cents, like larger amounts.
            100_000..999_950_000 => {
                let hundredths = (self.0 + 50_000) / 100_000;
                match hundredths % 100 {
                    0 => write!(f, "$0.{:02}", hundredths / 100),
                    _ => write!(f, "$0.{hundredths:04}"),
                }
            }
            nano => {
                let cents = nano / 10_000_000 + u64::from(nano % 10_000_000 >= 5_000_000);
                write!(f, "${}.{:02}", cents / 100, cents % 100)
            }
        }
    }
}

/// The price of a model, per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Price of a million input tokens.
    pub input: Cost,
    /// Price of a million input tokens that the provider reads from its cache.
    pub cached_input: Cost,
    /// Price of a million output tokens.
    pub output: Cost,
}

/// Formats the price for display: `$0.40 in, $0.10 cached, $1.60 out`.
impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Price {
            input,
            cached_input,
            output,
        } = self;
        write!(f, "{input} in, {cached_input} cached, {output} out")
    }
}

impl Price {
    /// Returns the cost of these token counts. `cached` is the number of `input` tokens that the provider read from its cache.
    pub fn cost(&self, input: u64, cached: u64, output: u64) -> Cost {
        let cached = cached.min(input);
        let parts = [
            (input - cached, self.input),
            (cached, self.cached_input),
            (output, self.output),
        ];
        let sum = parts.iter().fold(0_u128, |sum, (tokens, price)| {
            sum.saturating_add(u128::from(*tokens) * u128::from(price.0))
        });
        Cost(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// Returns a price with the higher of both prices for each kind of token.
    pub fn highest(self, other: Price) -> Price {
        Price {
            input: self.input.max(other.input),
            cached_input: self.cached_input.max(other.cached_input),
            output: self.output.max(other.output),
        }
    }
}
