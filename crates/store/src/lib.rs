//! The journal of Dirigent's runs: every input of every run, in order, in one SQLite file (HOST-2).
//!
//! A [`Journal`] appends entries through one writer thread that stores many of them with one fsync, reads
//! them on connections of its own, and lets any number of [`Tail`]s follow a run without slowing it. A run is
//! written by one process at a time, which holds a [`RunClaim`]; if that process dies, even by `kill -9`, its
//! runs are free at once.
//!
//! This crate never decides anything about a run: it stores what it is given, in the order in which it is
//! given.
//!
//! ```
//! use dirigent_core::id::{RunId, Scope};
//! use dirigent_core::time::Timestamp;
//! use dirigent_store::{Durability, Journal, NewEntry};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("state").join("journal.db");
//! let journal = Journal::open(&path)?;
//! let run: RunId = "0190a1b2-c3d4-7e5f-8a6b-0123456789ab".parse()?;
//! let claim = journal.create(run, "Fix the failing test", "/home/me/project", Timestamp(1_000))?;
//!
//! // Appending never waits; the writer thread says when the entry is stored.
//! let (stored, wait) = std::sync::mpsc::channel();
//! let entry = NewEntry {
//!     at: Timestamp(2_000),
//!     scope: Scope::Run,
//!     body: r#"{"run": "cancelled"}"#.to_owned(),
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
//! # What other processes say to a run
//! Any process may [`Journal::post`] a message to a run. It lies in the journal until the process that carries the run out,
//! now or later, finds it in its [`Inbox`] and either appends the entry that it becomes, which takes it in the same transaction
//! ([`NewEntry::consumes`]), or refuses it: it becomes exactly one entry, whenever which process is killed. Who posted it learns
//! what came of it from [`Journal::message`] or waits for that with [`Journal::wait_settled`]; what still waits when the run is over
//! is refused with its end, so that nobody waits for ever.
//!
//! Inboxes, [`Journal::wait_settled`] and [`Journal::follow`] share one thread that looks every 200 ms whether anything was written
//! at all, which costs microseconds and no disk. There is none while nobody wants to know.
//!
//! # What was in files
//! [`Journal::record_original`] keeps what is in a file before a run changes it, each content once however many files and runs have it, so that
//! the change can be undone. It is never deleted.
//!
//! # Beside the file
//! SQLite keeps its log in `<journal>-wal` and `<journal>-shm` while the journal is open. A process that
//! carries out runs has a lock file in `<journal>-owners`. All of them belong on a local disk.
#![warn(missing_docs)]

mod claimed_runs;
mod contents;
mod error;
mod inbox;
mod journal;
mod message;
mod owner;
mod reader;
mod schema;
mod tail;
mod watcher;
mod writer;

pub use contents::Original;
pub use error::StoreError;
pub use inbox::Inbox;
pub use journal::{Durability, ForkPoint, Journal, JournalOptions, NewEntry, RunClaim, RunEnding, RunRecord};
pub use message::{MAX_MESSAGE_BYTES, MAX_PENDING_MESSAGES, Message, MessageId, MessageState};
pub use tail::Tail;
