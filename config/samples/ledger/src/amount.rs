//! Amounts of money as whole cents.

use std::fmt;

/// A number of cents; negative for money spent.
pub type Cents = i64;

/// Why a text is not an amount.
#[derive(Debug, PartialEq, Eq)]
pub struct AmountError {
    text: String,
}

impl fmt::Display for AmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parse_amount: `{}` is no amount of money", self.text)
    }
}

impl std::error::Error for AmountError {}

/// Reads `12`, `12.5` or `-12.50`: at most two decimals, no grouping.
pub fn parse_amount(text: &str) -> Result<Cents, AmountError> {
    let error = || AmountError {
        text: text.to_owned(),
    };
    let trimmed = text.trim();
    let (negative, digits) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 2 {
        return Err(error());
    }
    let whole: Cents = whole.parse().map_err(|_| error())?;
    let fraction: Cents = format!("{fraction:0<2}").parse().map_err(|_| error())?;
    let cents = whole
        .checked_mul(100)
        .and_then(|cents| cents.checked_add(fraction))
        .ok_or_else(error)?;
    Ok(if negative { -cents } else { cents })
}

/// Reads amounts separated by commas; fails with the first invalid amount.
pub fn parse_amount_list(text: &str) -> Result<Vec<Cents>, AmountError> {
    text.split(',').map(parse_amount).collect()
}

/// Writes cents the way `parse_amount` reads them: `-12.50`.
pub fn format_amount(cents: Cents) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}{}.{:02}", cents / 100, cents % 100)
}
