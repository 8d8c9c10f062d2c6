//! The book as text.

use crate::amount::format_amount;
use crate::ledger::Ledger;

/// A line for each account and one for the balance.
pub fn report(ledger: &Ledger) -> String {
    let mut lines: Vec<String> = ledger
        .by_account()
        .into_iter()
        .map(|(account, sum)| format!("{account:<12}{:>12}", format_amount(sum)))
        .collect();
    lines.push(format!(
        "{:<12}{:>12}",
        "balance",
        format_amount(ledger.balance())
    ));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::report;
    use crate::{cents, Entry, Ledger};

    #[test]
    fn the_balance_comes_last() {
        let mut ledger = Ledger::new();
        let entry = |account: &str, amount| Entry {
            date: "2024-03-01".to_owned(),
            account: account.to_owned(),
            amount,
        };
        ledger.add(entry("salary", cents!("2100")));
        ledger.add(entry("groceries", cents!("-12.50")));
        assert_eq!(
            report(&ledger),
            "groceries         -12.50\nsalary           2100.00\nbalance          2087.50"
        );
    }
}
