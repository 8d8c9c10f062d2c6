//! Records file contents in the journal before a call changes the files.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;

use crate::run_log::{Original, RunLog, RunLogError};
use dirigent_core::id::{EffectId, RunId};
use dirigent_core::tool::FileVersion;
use dirigent_core::undo::UndoPlan;
use dirigent_tools::{ContentStore, RunChanges};

/// Records and loads file contents in the journal for one tool call.
#[derive(Debug)]
pub(crate) struct ContentRecorder {
    journal: Arc<dyn RunLog>,
    run: RunId,
    effect: EffectId,
}

impl ContentRecorder {
    pub(crate) fn new(journal: &Arc<dyn RunLog>, run: RunId, effect: EffectId) -> Self {
        ContentRecorder {
            journal: journal.clone(),
            run,
            effect,
        }
    }
}

impl ContentStore for ContentRecorder {
    fn record(&self, path: &str, version: &FileVersion, bytes: &[u8]) -> Result<(), String> {
        let original = Original {
            run: self.run,
            effect: self.effect,
            path: path.to_owned(),
            version: version.clone(),
        };
        self.journal.record_original(original, bytes).map_err(error_text)
    }

    fn load(&self, digest: &str) -> Result<Option<Vec<u8>>, String> {
        self.journal.content(digest).map_err(error_text)
    }

    fn recorded_paths(&self) -> Result<BTreeSet<String>, String> {
        let originals = self.journal.originals(self.run).map_err(error_text)?;
        Ok(originals.into_iter().map(|original| original.path).collect())
    }

    /// Returns the run's earlier changes to files, from the journal. For a fork, leaves out the changes that
    /// it shares with its source run.
    fn run_changes(&self) -> Result<RunChanges, String> {
        let record = self.journal.run(self.run).map_err(error_text)?;
        let after = record.forked_from.map_or(0, |point| point.seq);
        let entries = self
            .journal
            .entries(self.run, 0, usize::MAX)
            .map_err(error_text)?;
        let undoing = UndoPlan::from_entries(&entries, after);
        let originals = self.journal.originals(self.run).map_err(error_text)?;
        let unreported = originals
            .into_iter()
            .filter(|original| original.effect != self.effect)
            .filter(|original| undoing.is_unreported(original.effect, &original.path, &original.version))
            .map(|original| (original.path, original.version))
            .collect();
        Ok(RunChanges { undoing, unreported })
    }
}

fn error_text(error: RunLogError) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
