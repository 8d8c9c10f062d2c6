//! Monthly budgets of accounts.

use crate::amount::{parse_amount, AmountError, Cents};
use crate::ledger::Ledger;

/// The budget of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The account's name.
    pub account: String,
    /// The limit, as a positive number of cents.
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

    /// The remaining amount; negative if the budget is exceeded.
    pub fn left(&self, ledger: &Ledger) -> Cents {
        let spent = ledger
            .by_account()
            .get(self.account.as_str())
            .copied()
            .unwrap_or(0);
        self.limit + spent.min(0)
    }
}
