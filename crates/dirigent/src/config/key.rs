//! The keys of settings, and where each was set.

use std::collections::BTreeMap;
use std::fmt;

use super::error::Origin;

/// A setting's key: `model.name`, `prices.openai."gpt-4.1"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) Vec<String>);

impl Key {
    pub(super) fn new(parts: &[&str]) -> Self {
        Key(parts.iter().map(|part| (*part).to_owned()).collect())
    }

    pub(super) fn join(&self, part: &str) -> Self {
        Key(self.0.iter().cloned().chain([part.to_owned()]).collect())
    }

    pub(super) fn parts(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    /// Returns true if a table with this key is a section of settings, false if the table is itself a value.
    pub(super) fn is_section(&self) -> bool {
        matches!(
            self.parts()[..],
            [] | [_]
                | [
                    "models" | "connections" | "mcp" | "webhooks" | "limits" | "prices",
                    _
                ]
        )
    }

    /// Returns true if a later file adds its entries to this list instead of replacing the list.
    pub(super) fn adds_up(&self) -> bool {
        matches!(self.parts()[..], ["approvals", _])
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        for (index, part) in self.0.iter().enumerate() {
            let dot = if index > 0 { "." } else { "" };
            match !part.is_empty() && part.chars().all(bare) {
                true => write!(f, "{dot}{part}")?,
                false => write!(f, "{dot}{part:?}")?,
            }
        }
        Ok(())
    }
}

/// The origin of each key, followed by the origins of its entries if it is a list.
pub(super) type Places = BTreeMap<Key, Vec<Origin>>;
