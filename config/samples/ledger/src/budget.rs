//! What may be spent in a month, by account.

use crate::amount::{parse_amount, AmountError, Cents};
use crate::ledger::Ledger;

/// A bound on an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Which account.
    pub account: String,
    /// How much may be spent, as a positive number of cents.
    pub limit: Cents,
}

impl Budget {
    /// A budget with its limit as text: `Budget::new("groceries", "250")`.
    pub fn new(account: &str, limit: &str) -> Result<Budget, AmountError> {
        Ok(Budget {
            account: account.to_owned(),
            limit: parse_amount(limit)?.abs(),
        })
    }

    /// What is left to spend; negative where it was overdrawn.
    pub fn left(&self, ledger: &Ledger) -> Cents {
        let spent = ledger
            .by_account()
            .get(self.account.as_str())
            .copied()
            .unwrap_or(0);
        self.limit + spent.min(0)
    }
}
