//! The journal of Dirigent's runs: every input of every run, in order, in one SQLite file (HOST-2).
//!
//! A [`Journal`] appends entries through one writer thread, which stores many entries with one fsync. It
//! reads entries on separate connections, and any number of [`Tail`]s can follow a run without slowing it
//! down. Only one process at a time owns a run, by holding a [`RunClaim`]. When that process ends, even by
//! `kill -9`, other processes can claim its runs at once.
//!
//! This crate makes no decisions about a run. It stores entries in the order in which they are appended, and so implements the port
//! [`dirigent_runtime::run_log::RunLog`].
//!
//! ```
//! use dirigent_core::id::{RunId, Scope};
//! use dirigent_core::time::Timestamp;
//! use dirigent_store::{Durability, Journal, NewEntry, NewRun};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("state").join("journal.db");
//! let journal = Journal::open(&path)?;
//! let run: RunId = "0190a1b2-c3d4-7e5f-8a6b-0123456789ab".parse()?;
//! let claim = journal.create(run, NewRun::new("Fix the failing test", "/home/me/project", Timestamp(1_000)))?;
//!
//! // Appending never blocks; the writer thread reports when the entry is stored.
//! let (stored, wait) = std::sync::mpsc::channel();
//! let entry = NewEntry {
//!     at: Timestamp(2_000),
//!     scope: Scope::Run,
//!     body: r#"{"run": "cancelled"}"#.to_owned(),
//!     shared: Vec::new(),
//!     durability: Durability::Full,
//!     consumes: None,
//! };
//! journal.append(&claim, entry, move |seq| {
//!     let _ = stored.send(seq);
//! });
//! assert_eq!(wait.recv()??, 1);
//!
//! assert_eq!(journal.find("89ab")?, run);
//! assert_eq!(journal.entries(run, 0, 100)?.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Messages between processes
//! Any process may [`Journal::post`] a message to a run. The message is pending until the process that owns the run, now or later, receives
//! it from its [`Inbox`]. The owner either accepts the message, by appending an entry that consumes it in the same transaction
//! ([`NewEntry::consumes`]), or rejects it. So an accepted message becomes exactly one entry, even if a process is killed at any time. The
//! sender reads the result with [`Journal::message`] or waits for it with [`Journal::wait_settled`]. Messages that are still pending when
//! their run finishes are rejected, so that no sender waits forever.
//!
//! Inboxes, [`Journal::wait_settled`] and [`Journal::follow`] share one thread, which polls for writes every 200 ms. A poll takes
//! microseconds and does not access the disk. The thread runs only while it is needed.
//!
//! # File contents
//! [`Journal::record_original`] records the content of a file before a run changes it, so that the change can be undone. Each content is
//! stored once, even if many files and runs share it, and is kept until all runs that refer to it are deleted.
//!
//! # Memory
//! [`Journal::add_fact`] stores a fact about the user or about a folder, and [`Journal::search_facts`] finds facts by their words, in
//! languages with and without spaces between words.
//!
//! # Maintenance
//! [`Journal::check`] finds damage, [`Journal::backup`] copies the journal, [`Journal::export`] and [`Journal::import`] move a run to another
//! journal, and [`Journal::prune`] deletes old runs. Runs may be active at the same time.
//!
//! # Files
//! While the journal is open, SQLite keeps its log in `<journal>-wal` and `<journal>-shm`. Each process that
//! owns runs has a lock file in `<journal>-owners`, which also contains the file of the [`StartLock`]. All
//! these files must be on a local disk.
#![warn(missing_docs)]

mod approval_rules;
mod call_forms;
mod chain;
mod chained_entries;
mod claimed_runs;
mod contents;
mod conversations;
mod error;
mod facts;
mod files;
mod inbox;
mod job;
mod journal;
mod maintenance;
mod mcp_services;
mod message;
mod options;
mod originals;
mod owner;
mod progress;
mod reader;
mod request_keys;
mod run_changes;
mod run_filter;
mod run_log;
mod schema;
mod sql;
mod start_lock;
mod stored_entry;
mod system_prompts;
mod tail;
mod trusted_files;
mod watcher;
mod writer;

pub use approval_rules::{NewRule, RuleScope, StoredRule};
pub use call_forms::FoundCallForm;
pub use conversations::{ConversationFilter, ConversationRecord};
pub use dirigent_runtime::run_log::{
    Durability, ForkPoint, MAX_MESSAGE_BYTES, MAX_PENDING_MESSAGES, Message, MessageId, MessageState,
    NewEntry, NewRun, Original, Position, RunEnding, RunRecord, TurnNumber,
};
pub use error::{EntryProblem, StoreError};
pub use facts::{NewFact, StoredFact, VisibleFacts};
pub use inbox::Inbox;
pub use journal::{Journal, RunClaim};
pub use maintenance::{
    JournalCheck, JournalProblem, JournalSpace, PausedRuns, PruneFilter, Pruned, PrunedRun,
};
pub use mcp_services::{StopMark, StoredService, StoredServiceStart};
pub use options::JournalOptions;
pub use request_keys::{EarlierRequest, KeyedRequest};
pub use run_changes::{ChangedRuns, RunChanges};
pub use run_filter::{RunFilter, RunPage, RunState, UnknownRunState};
pub use start_lock::StartLock;
pub use system_prompts::StoredPrompt;
pub use tail::Tail;
pub use trusted_files::TrustedFile;
