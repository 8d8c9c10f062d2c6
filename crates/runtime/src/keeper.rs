//! Keeps what is in files before a call changes them, in the run's journal.

use std::error::Error;

use dirigent_core::id::{EffectId, RunId};
use dirigent_core::tool::FileVersion;
use dirigent_store::{Journal, Original};
use dirigent_tools::Contents;

/// What one call keeps.
#[derive(Debug)]
pub(crate) struct Keeper {
    journal: Journal,
    run: RunId,
    effect: EffectId,
}

impl Keeper {
    pub(crate) fn new(journal: &Journal, run: RunId, effect: EffectId) -> Self {
        Keeper {
            journal: journal.clone(),
            run,
            effect,
        }
    }
}

impl Contents for Keeper {
    fn keep(&self, path: &str, version: &FileVersion, bytes: &[u8]) -> Result<(), String> {
        let original = Original {
            run: self.run,
            effect: self.effect,
            path: path.to_owned(),
            version: version.clone(),
        };
        self.journal
            .keep(original, bytes)
            .map_err(|error| match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            })
    }
}
