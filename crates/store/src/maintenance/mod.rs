//! Maintenance of a journal: checking, copying, moving single runs to another journal, and deleting old runs.
//!
//! Other processes may use the journal at the same time. No operation here holds a lock for longer than the
//! work on one run takes.

mod backup;
mod check;
mod export;
mod export_format;
mod import;
mod new_file;
mod prune;

pub use check::{JournalCheck, JournalProblem};
pub use prune::{JournalSpace, PausedRuns, PruneFilter, Pruned, PrunedRun};

pub(crate) use import::ImportedRun;
pub(crate) use prune::{ContentReferences, delete_contents, delete_rows, delete_run, is_free};
