//! Reads whole runs from the journal. All functions block on disk IO.

use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use dirigent_core::view::{Event, RunView};

use crate::error::RuntimeError;
use crate::run_log::{RunLog, RunLogError};

/// The maximum number of entries per read.
const BATCH: usize = 1_000;

/// Rebuilds a run from its journal entries, with its events so far. Blocks on disk IO, so async code must not call it directly.
///
/// # Errors
/// [`RuntimeError::NeverBegan`], [`RuntimeError::Journal`] and [`RuntimeError::Replay`].
pub fn read_run(journal: &dyn RunLog, run: RunId) -> Result<(RunView, Vec<Event>), RuntimeError> {
    replay_entries(run, read_entries(journal, run)?)
}

/// Rebuilds a run as it was after its entry with the number `seq`.
///
/// # Errors
/// As for [`read_run`]; [`RuntimeError::NeverBegan`] if `seq` is 0.
pub fn read_run_until(journal: &dyn RunLog, run: RunId, seq: u64) -> Result<RunView, RuntimeError> {
    let entries = read_entries(journal, run)?.into_iter();
    let (view, _) = replay_entries(run, entries.take_while(|entry| entry.seq <= seq))?;
    Ok(view)
}

/// Rebuilds a run from its journal entries.
pub(crate) fn read_view(journal: &dyn RunLog, run: RunId) -> Result<RunView, RuntimeError> {
    Ok(read_run(journal, run)?.0)
}

/// Rebuilds a run from its entries, with their events.
pub(crate) fn replay_entries(
    run: RunId,
    entries: impl IntoIterator<Item = Entry>,
) -> Result<(RunView, Vec<Event>), RuntimeError> {
    RunView::replay(entries)
        .map_err(|(seq, refusal)| RuntimeError::Replay { run, seq, refusal })?
        .ok_or(RuntimeError::NeverBegan { run })
}

/// Reads all entries of a run.
pub(crate) fn read_entries(journal: &dyn RunLog, run: RunId) -> Result<Vec<Entry>, RunLogError> {
    let mut entries = Vec::new();
    loop {
        let batch = journal.entries(run, entries.len() as u64, BATCH)?;
        let last = batch.len() < BATCH;
        entries.extend(batch);
        if last {
            return Ok(entries);
        }
    }
}
