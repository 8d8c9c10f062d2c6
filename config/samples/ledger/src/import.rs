//! Entries from other programs' exports.

use crate::amount::parse_amount;
use crate::entry::Entry;

/// Reads `date;account;amount` lines, as banks export them. Lines that are not entries are skipped and counted.
pub fn from_csv(text: &str) -> (Vec<Entry>, usize) {
    let mut entries = Vec::new();
    let mut skipped = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match csv_entry(line) {
            Some(entry) => entries.push(entry),
            None => skipped += 1,
        }
    }
    (entries, skipped)
}

fn csv_entry(line: &str) -> Option<Entry> {
    let mut fields = line.split(';');
    let (date, account, amount) = (fields.next()?, fields.next()?, fields.next()?);
    // Banks write a comma where parse_amount expects a point.
    let amount = parse_amount(&amount.replace(',', ".")).ok()?;
    Some(Entry {
        date: date.to_owned(),
        account: account.to_owned(),
        amount,
    })
}
