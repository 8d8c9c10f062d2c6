//! One line of the book.

use crate::amount::{parse_amount, AmountError, Cents};

/// Money that moved on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The day, as `2024-03-01`.
    pub date: String,
    /// The account, such as `groceries`.
    pub account: String,
    /// The amount; negative for money spent.
    pub amount: Cents,
}

/// Why a line is not an entry.
#[derive(Debug, PartialEq, Eq)]
pub enum EntryError {
    /// It has fewer than three parts.
    Incomplete,
    /// Its last part is not an amount.
    Amount(AmountError),
}

impl Entry {
    /// Reads a line: date, account and amount, separated by spaces.
    pub fn parse(line: &str) -> Result<Entry, EntryError> {
        let mut parts = line.split_whitespace();
        let (Some(date), Some(account), Some(amount)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(EntryError::Incomplete);
        };
        let amount = parse_amount(amount).map_err(EntryError::Amount)?;
        Ok(Entry {
            date: date.to_owned(),
            account: account.to_owned(),
            amount,
        })
    }
}
