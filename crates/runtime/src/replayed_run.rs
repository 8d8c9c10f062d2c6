//! A run rebuilt from its journal entries, to be continued.

use std::collections::BTreeSet;

use dirigent_core::id::{RunId, Scope};
use dirigent_core::journal::Entry;
use dirigent_core::view::RunView;

use crate::error::RuntimeError;
use crate::journal_reader::{read_entries, replay_entries};
use crate::run_log::RunLog;

/// A run's machines after the replay of its journal entries.
pub(crate) struct ReplayedRun {
    pub(crate) view: RunView,
    /// For a fork, the machines whose entries are all shared with the source run. The user's decisions in the
    /// source run do not apply to these machines (APPROVE-3). Empty if the run is not a fork.
    pub(crate) inherited: BTreeSet<Scope>,
}

impl ReplayedRun {
    /// Replays a run's entries. Blocks on disk IO.
    pub(crate) fn read(journal: &dyn RunLog, run: RunId) -> Result<ReplayedRun, RuntimeError> {
        let entries = read_entries(journal, run)?;
        let mut inherited = BTreeSet::new();
        if let Some(point) = journal.run(run)?.forked_from {
            let (shared, own): (Vec<&Entry>, Vec<&Entry>) =
                entries.iter().partition(|entry| entry.seq <= point.seq);
            inherited.extend(shared.iter().map(|entry| entry.scope));
            for entry in own {
                inherited.remove(&entry.scope);
            }
        }
        let (view, _) = replay_entries(run, entries)?;
        Ok(ReplayedRun { view, inherited })
    }
}
