//! A small account book: lines of text in, balances and a report out.

pub mod amount;
pub mod budget;
pub mod entry;
pub mod import;
pub mod ledger;
pub mod report;

pub use amount::{format_amount, parse_amount, Cents};
pub use entry::Entry;
pub use ledger::Ledger;

/// Cents from a literal amount, for tests and examples: `cents!("12.50")`.
#[macro_export]
macro_rules! cents {
    ($text:expr) => {
        $crate::parse_amount($text).expect("an amount")
    };
}
