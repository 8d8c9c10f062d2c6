//! What can go wrong with the journal: one variant for each thing that a caller or a user can do something
//! about.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::id::RunId;
use rusqlite::ErrorCode;

use crate::message::{MAX_MESSAGE_BYTES, MAX_PENDING_MESSAGES, MessageId};

/// Why the journal could not do what was asked. It is `Clone`, since one failed transaction is many callers'
/// failure.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A folder or file beside or above the journal could not be made, opened or locked.
    #[error("cannot {action} {}: check that the path is right and that you may write there", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: Arc<io::Error>,
    },
    /// There is no journal, and none was to be created ([`crate::JournalOptions::existing`]).
    #[error("there is no journal {}: check the path; the first run creates one", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file could not be opened by SQLite.
    #[error(
        "cannot open the journal {}: check that it is a file and that you may read and write it and its folder",
        path.display()
    )]
    CannotOpen {
        /// The journal.
        path: PathBuf,
        /// Why it failed.
        source: Arc<rusqlite::Error>,
    },
    /// The file, its folder or its disk may only be read.
    #[error(
        "the journal {} can only be read: allow writing to it, to the files beside it whose names begin with its own, and to its folder, or name another journal",
        path.display()
    )]
    ReadOnly {
        /// The journal.
        path: PathBuf,
    },
    /// Another process kept the journal to itself for longer than the busy timeout.
    #[error(
        "the journal {} is locked by another process: end the process that is writing to it, then try again",
        path.display()
    )]
    Locked {
        /// The journal.
        path: PathBuf,
    },
    /// The disk is full, or the journal has reached [`crate::JournalOptions::max_bytes`].
    #[error(
        "no room left for the journal {}: free space on its disk (or raise its size limit), then resume the run",
        path.display()
    )]
    Full {
        /// The journal.
        path: PathBuf,
    },
    /// The file is no database, or its content is malformed.
    #[error(
        "the journal {} is damaged or no database: restore it from a copy, or move it away to begin with a new one",
        path.display()
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// What SQLite found.
        source: Arc<rusqlite::Error>,
    },
    /// The file is another program's database.
    #[error(
        "{} is a database of another program (application id {application_id:#x}): name another file for the journal",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Whose it is, as SQLite's `application_id`; 0 where that is not said.
        application_id: i32,
    },
    /// A later version of Dirigent wrote the file.
    #[error(
        "the journal {} has format {found}, this version of Dirigent reads up to {known}: use a newer Dirigent, or name \
         another journal",
        path.display()
    )]
    Newer {
        /// The journal.
        path: PathBuf,
        /// Its format.
        found: i32,
        /// The latest format that this version reads.
        known: i32,
    },
    /// SQLite failed in a way that has no variant of its own.
    #[error("the journal {} failed", path.display())]
    Sqlite {
        /// The journal.
        path: PathBuf,
        /// How.
        source: Arc<rusqlite::Error>,
    },
    /// The thread that writes the journal is gone, so nothing can be written any more.
    #[error("the writer of the journal {} has stopped: restart the process and resume its runs", path.display())]
    Stopped {
        /// The journal.
        path: PathBuf,
    },
    /// Text that cannot name a run.
    #[error(
        "`{text}` is no run id: give an id, at least 4 hexadecimal digits of its beginning or end, or `last`"
    )]
    NotARunId {
        /// The text.
        text: String,
    },
    /// Nothing in the journal has that id.
    #[error("no run `{text}` in the journal {}: list the runs to see their ids", path.display())]
    NoSuchRun {
        /// What was looked for.
        text: String,
        /// The journal.
        path: PathBuf,
    },
    /// Several runs begin or end that way.
    #[error("`{text}` names {} runs, give more of the id: {}", candidates.len(), list(candidates))]
    AmbiguousRun {
        /// What was looked for.
        text: String,
        /// The runs, newest first.
        candidates: Vec<RunId>,
    },
    /// A run with that id was created before.
    #[error("run {run} is in the journal already: claim it to go on with it, or use a new id")]
    RunExists {
        /// The run.
        run: RunId,
    },
    /// The run has no entry there.
    #[error("run {run} has no entry {at}: {}", entry_range(*last))]
    NoSuchEntry {
        /// The run.
        run: RunId,
        /// Where one was looked for.
        at: u64,
        /// The run's last entry; 0 if it has none.
        last: u64,
    },
    /// Something was posted to a run that has ended.
    #[error(
        "run {run} is over, so it accepts no messages: fork it to go on from its past, or start a new run"
    )]
    Finished {
        /// The run.
        run: RunId,
    },
    /// A message is longer than one may be.
    #[error(
        "a message of {bytes} bytes is too long: at most {MAX_MESSAGE_BYTES} bytes may be said to a run at once"
    )]
    MessageTooLong {
        /// Its length.
        bytes: usize,
    },
    /// As much waits for the run as may.
    #[error(
        "{MAX_PENDING_MESSAGES} messages wait for run {run} already, so it takes no more: resume it, or see why it does not \
         take them"
    )]
    TooManyMessages {
        /// The run.
        run: RunId,
    },
    /// Other messages wait for the run than its sender knows of.
    #[error("other messages wait for run {run} by now: look at them and post again")]
    OtherMessages {
        /// The run.
        run: RunId,
    },
    /// No message has that number.
    #[error("there is no message {message} in the journal {}", path.display())]
    NoSuchMessage {
        /// What was looked for.
        message: MessageId,
        /// The journal.
        path: PathBuf,
    },
    /// An entry was to take a message that does not wait for its run.
    #[error(
        "message {message} does not wait for run {run}: it was taken or refused before, or is another run's"
    )]
    MessageNotPending {
        /// The run.
        run: RunId,
        /// The message.
        message: MessageId,
    },
    /// A live process, perhaps this one, carries the run out.
    #[error("run {run} is owned by process {pid}: wait for it, or end that process first")]
    AlreadyClaimed {
        /// The run.
        run: RunId,
        /// The process.
        pid: u32,
    },
    /// The claim is not one of this journal.
    #[error("run {run} is not claimed through this journal: claim it before writing")]
    NotClaimed {
        /// The run.
        run: RunId,
    },
    /// Something was written for a run after its end.
    #[error("run {run} has been marked as ended: claim it anew to go on with it")]
    Ended {
        /// The run.
        run: RunId,
    },
    /// An earlier write for the run failed. Later ones are refused, so that the run's entries never have a
    /// gap.
    #[error(
        "an earlier write for run {run} failed, so nothing more is written for it: claim it anew to go on with it"
    )]
    Poisoned {
        /// The run.
        run: RunId,
        /// The first failure.
        source: Arc<StoreError>,
    },
    /// An entry is there but can't be read.
    #[error("entry {seq} of run {run} cannot be read: use the version of Dirigent that wrote it")]
    Entry {
        /// The run.
        run: RunId,
        /// Its place in the run.
        seq: u64,
        /// What is wrong with it.
        source: Arc<serde_json::Error>,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        StoreError::Io {
            action,
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }

    /// Sorts SQLite's failures by what can be done about them.
    pub(crate) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { path },
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::Damaged {
                path,
                source: Arc::new(source),
            },
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => StoreError::CannotOpen {
                path,
                source: Arc::new(source),
            },
            _ => StoreError::Sqlite {
                path,
                source: Arc::new(source),
            },
        }
    }
}

fn entry_range(last: u64) -> String {
    match last {
        0 => "it has none yet".to_owned(),
        1 => "it has entry 1 alone".to_owned(),
        last => format!("it has entries 1 to {last}"),
    }
}

fn list(runs: &[RunId]) -> String {
    const SHOWN: usize = 10;
    let mut text = String::new();
    for run in runs.iter().take(SHOWN) {
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{run}");
    }
    if runs.len() > SHOWN {
        text.push_str(", …");
    }
    text
}
