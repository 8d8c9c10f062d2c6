//! The changes of a run as one diff.

use std::path::Path;

use dirigent_core::id::RunId;
use dirigent_core::view::RunView;
use dirigent_runtime::{ChangeDiffs, CommandDiff, FileDiff, change_diffs, diff_bytes};
use dirigent_store::Journal;

use super::recorded::{RecordedChanges, UnfinishedCall};
use crate::DirigentError;

/// A run's changes to files, from [`crate::Dirigent::diff`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDiff {
    /// The paths that file tools changed. A moved folder has one entry for the whole folder.
    pub files: Vec<FileDiff>,
    /// The files that changed while commands were running, whether the commands or something else changed them, in journal order
    /// (PAOR-10).
    pub commands: Vec<CommandDiff>,
    /// The calls that may have changed something without reporting it.
    pub unfinished: Vec<UnfinishedCall>,
}

impl RunDiff {
    pub(crate) fn load(journal: &Journal, run: RunId, after: Option<u64>) -> Result<RunDiff, DirigentError> {
        let changes = RecordedChanges::load(journal, run, after)?;
        let ChangeDiffs { files, commands } =
            change_diffs(journal, &changes.workspace, &changes.plan, &changes.interrupted)?;
        Ok(RunDiff {
            files,
            commands,
            unfinished: changes.unfinished,
        })
    }

    /// Computes the diff of a run up to the last entry that the view has seen.
    pub(crate) fn from_view(journal: &Journal, view: &RunView) -> Result<RunDiff, DirigentError> {
        let workspace = Path::new(&view.run().spec().workspace);
        let ChangeDiffs { files, commands } = change_diffs(journal, workspace, &view.undo_plan(), &[])?;
        Ok(RunDiff {
            files,
            commands,
            unfinished: Vec::new(),
        })
    }

    /// Returns all diffs, in the format of `git apply`, which may refuse files that are [also changed](FileDiff::also_changed). Only the
    /// changes made by file tools can be applied; changes made while commands were running follow in lines that begin with `#`.
    pub fn bytes(&self) -> Vec<u8> {
        diff_bytes(&self.files, &self.commands)
    }
}
