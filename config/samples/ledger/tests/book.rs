//! The book from the outside: lines in, balances out.

use ledger::amount::parse_amount_list;
use ledger::budget::Budget;
use ledger::import::from_csv;
use ledger::{cents, format_amount, parse_amount, Entry, Ledger};

fn book(lines: &[&str]) -> Ledger {
    let mut ledger = Ledger::new();
    for line in lines {
        ledger.add(Entry::parse(line).expect("an entry"));
    }
    ledger
}

#[test]
fn amounts_are_read_to_the_cent() {
    assert_eq!(parse_amount("12"), Ok(1200));
    assert_eq!(parse_amount("12.5"), Ok(1250));
    assert_eq!(parse_amount("-0.05"), Ok(-5));
}

#[test]
fn what_is_no_amount_is_refused_with_its_text() {
    for text in ["", "12.345", "1,000", "12.", "abc"] {
        assert!(parse_amount(text).is_err(), "{text}");
    }
    let error = parse_amount("1,000").expect_err("no grouping");
    assert!(error.to_string().contains("1,000"));
}

#[test]
fn lists_are_read_in_order() {
    assert_eq!(parse_amount_list("1, 2.50,-3"), Ok(vec![100, 250, -300]));
}

#[test]
fn writing_and_reading_agree() {
    for cents in [0, 5, -5, 1250, -120_000] {
        assert_eq!(parse_amount(&format_amount(cents)), Ok(cents));
    }
}

#[test]
fn entries_add_up() {
    let ledger = book(&["2024-03-01 groceries -12.50", "2024-03-02 salary 2100"]);
    assert_eq!(ledger.balance(), cents!("2087.50"));
    assert_eq!(ledger.by_account()["groceries"], cents!("-12.50"));
}

#[test]
fn a_budget_knows_what_is_left() {
    let ledger = book(&["2024-03-01 groceries -12.50"]);
    let budget = Budget::new("groceries", "250").expect("a budget");
    assert_eq!(budget.left(&ledger), cents!("237.50"));
}

#[test]
fn an_export_is_read_and_its_other_lines_are_counted() {
    let (entries, skipped) = from_csv("2024-03-01;groceries;-12,50\nno entry\n");
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].amount, cents!("-12.50"));
    assert_eq!(skipped, 1);
}
