//! Maintenance of the journal.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dirigent_core::id::RunId;
use dirigent_core::time::{Millis, Timestamp};
use dirigent_store::{Journal, JournalCheck, PausedRuns, PruneFilter, Pruned, PrunedRun};

use crate::{Dirigent, DirigentError};

impl Dirigent {
    /// Checks the whole journal for damage. Only reads; runs may be active.
    ///
    /// # Errors
    /// A failure to read the journal that is not damage.
    pub async fn check_journal(&self) -> Result<JournalCheck, DirigentError> {
        self.reading(Journal::check).await
    }

    /// Copies the journal to a new file, which is a journal itself; returns the copy's length in bytes. Runs may be active. Only the user can
    /// access the file.
    ///
    /// # Errors
    /// The file exists or cannot be written, or an error of the journal. In these cases, no file is created.
    pub async fn back_up_journal(&self, file: impl Into<PathBuf>) -> Result<u64, DirigentError> {
        let file = file.into();
        self.reading(move |journal| journal.backup(&file)).await
    }

    /// Writes a run, with the recorded contents that its undo needs, to a new file. Only the user can access the file.
    ///
    /// # Errors
    /// An unknown or damaged run, or the file exists or cannot be written. In these cases, no file is created.
    pub async fn export_run(&self, run: RunId, file: impl Into<PathBuf>) -> Result<(), DirigentError> {
        let file = file.into();
        self.reading(move |journal| journal.export(run, &file)).await
    }

    /// Adds a run from a file of [`Self::export_run`] to the journal; returns its id.
    ///
    /// # Errors
    /// The run exists, the file is not an exported run or is not complete, or an error of the journal. In these cases, nothing is written.
    pub async fn import_run(&self, file: impl Into<PathBuf>) -> Result<RunId, DirigentError> {
        let file = file.into();
        self.reading(move |journal| journal.import(&file)).await
    }

    /// Returns the runs that [`Self::prune_runs`] would delete, oldest first.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn prunable_runs(
        &self,
        older_than: Duration,
        paused: PausedRuns,
    ) -> Result<Vec<PrunedRun>, DirigentError> {
        let filter = filter(older_than, paused);
        self.reading(move |journal| journal.prunable(filter)).await
    }

    /// Deletes the runs that ended longer ago than `older_than` and that no process owns, with all data that no other run needs,
    /// including their worktrees. The deleted runs can no longer be shown, forked or undone.
    ///
    /// # Errors
    /// An error of the journal. Runs that were deleted before the error stay deleted.
    pub async fn prune_runs(
        &self,
        older_than: Duration,
        paused: PausedRuns,
    ) -> Result<Pruned, DirigentError> {
        let filter = filter(older_than, paused);
        let pruned = self.reading(move |journal| journal.prune(filter)).await?;
        self.remove_unused_worktrees().await?;
        Ok(pruned)
    }
}

fn filter(older_than: Duration, paused: PausedRuns) -> PruneFilter {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    PruneFilter {
        ended_before: Timestamp(Millis::from(now.saturating_sub(older_than)).0),
        paused,
    }
}
