//! Keeps what is in files before a call changes them, in the run's journal.

use std::error::Error;

use dirigent_core::id::{EffectId, RunId};
use dirigent_core::tool::FileVersion;
use dirigent_core::undo::Undoing;
use dirigent_store::{Journal, Original, StoreError};
use dirigent_tools::{ChangedByRun, Contents};

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
        self.journal.keep(original, bytes).map_err(in_words)
    }

    fn kept(&self, digest: &str) -> Result<Option<Vec<u8>>, String> {
        self.journal.content(digest).map_err(in_words)
    }

    /// Of a fork only what it has changed itself. What finished before this call began is in the journal.
    fn changed(&self) -> Result<ChangedByRun, String> {
        let record = self.journal.run(self.run).map_err(in_words)?;
        let after = record.forked_from.map_or(0, |point| point.seq);
        let entries = self.journal.entries(self.run, 0, usize::MAX).map_err(in_words)?;
        let undoing = Undoing::of(&entries, after);
        let originals = self.journal.originals(self.run).map_err(in_words)?;
        let untold = originals
            .into_iter()
            .filter(|kept| kept.effect != self.effect)
            .filter(|kept| undoing.is_untold(kept.effect, &kept.path, &kept.version))
            .map(|kept| (kept.path, kept.version))
            .collect();
        Ok(ChangedByRun { undoing, untold })
    }
}

fn in_words(error: StoreError) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
