//! The book: entries in order, and their balances.

use std::collections::BTreeMap;

use crate::amount::Cents;
use crate::entry::Entry;

/// Entries and their balances.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
}

impl Ledger {
    /// An empty book.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry at the end.
    pub fn add(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// All entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The sum of all entries.
    pub fn balance(&self) -> Cents {
        self.entries.iter().map(|entry| entry.amount).sum()
    }

    /// The balance of each account, by name.
    pub fn by_account(&self) -> BTreeMap<&str, Cents> {
        let mut sums = BTreeMap::new();
        for entry in &self.entries {
            *sums.entry(entry.account.as_str()).or_insert(0) += entry.amount;
        }
        sums
    }
}
