//! The journal's errors: one variant for each failure that a caller or a user can act on.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::id::{ConversationId, RunId};
use dirigent_runtime::run_log::{MAX_MESSAGE_BYTES, MAX_PENDING_MESSAGES, MessageId};
use rusqlite::ErrorCode;

/// A failure of the journal. `Clone`, because one failed transaction fails many callers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// An operation on a file or folder failed: on the journal, a lock file, the folder of one of these, or
    /// the target of an export or a backup.
    #[error("cannot {action} {}: check the path and its permissions", path.display())]
    Io {
        /// The failed operation, as a verb: `create the folder`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The underlying error.
        source: Arc<io::Error>,
    },
    /// The journal does not exist or is empty, and the options forbid creating it.
    #[error("there is no journal at {}: check the path; the first run creates the journal", path.display())]
    Missing {
        /// The path of the journal.
        path: PathBuf,
    },
    /// SQLite could not open the file.
    #[error(
        "cannot open the journal {}: check that it is a file and that you have permission to read and write it and its folder",
        path.display()
    )]
    CannotOpen {
        /// The path of the journal.
        path: PathBuf,
        /// The underlying error.
        source: Arc<rusqlite::Error>,
    },
    /// The file, its folder or its disk is read-only.
    #[error(
        "the journal {} is read-only: make the file, its -wal and -shm files and its folder writable, or use another journal",
        path.display()
    )]
    ReadOnly {
        /// The path of the journal.
        path: PathBuf,
    },
    /// Another process locked the journal for longer than the busy timeout.
    #[error(
        "the journal {} is locked by another process: end the process that is writing to it, then try again",
        path.display()
    )]
    Locked {
        /// The path of the journal.
        path: PathBuf,
    },
    /// The disk is full, or the journal has reached [`crate::JournalOptions::max_bytes`].
    #[error(
        "no space left for the journal {}: free disk space or raise the size limit of the journal, then resume the run",
        path.display()
    )]
    Full {
        /// The path of the journal.
        path: PathBuf,
    },
    /// The file is not a database, or its content is malformed.
    #[error(
        "the journal {} is damaged or not a database: restore it from a backup, or move it away to start a new one",
        path.display()
    )]
    Damaged {
        /// The path of the journal.
        path: PathBuf,
        /// The error that SQLite reported.
        source: Arc<rusqlite::Error>,
    },
    /// The file is another program's database.
    #[error(
        "{} is a database of another program (application id {application_id:#x}): use another file for the journal",
        path.display()
    )]
    Foreign {
        /// The path of the file.
        path: PathBuf,
        /// SQLite's `application_id` of the file; 0 if unset.
        application_id: i32,
    },
    /// Another version of Dirigent wrote the file.
    #[error(
        "the journal {} has format {found}, but this version of Dirigent supports only format {supported}: use the version that \
         wrote it, or another journal",
        path.display()
    )]
    UnsupportedFormat {
        /// The path of the journal.
        path: PathBuf,
        /// The journal's format.
        found: i32,
        /// The only format that this version of Dirigent supports.
        supported: i32,
    },
    /// Any SQLite error for which there is no more specific variant.
    #[error("an operation on the journal {} failed", path.display())]
    Sqlite {
        /// The path of the journal.
        path: PathBuf,
        /// The underlying error.
        source: Arc<rusqlite::Error>,
    },
    /// The journal's writer thread has stopped, so nothing more can be written.
    #[error("the writer of the journal {} has stopped: restart the process and resume its runs", path.display())]
    Stopped {
        /// The path of the journal.
        path: PathBuf,
    },
    /// The text is not a valid id or search text for a run.
    #[error(
        "`{text}` is not a run id: use a complete id, at least 4 hexadecimal digits from its start or end, or `last`"
    )]
    NotARunId {
        /// The rejected text.
        text: String,
    },
    /// The journal has no such run.
    #[error("no run `{text}` in the journal {}: list the runs to see their ids", path.display())]
    NoSuchRun {
        /// The id or search text.
        text: String,
        /// The path of the journal.
        path: PathBuf,
    },
    /// Several runs match the text.
    #[error("`{text}` matches {} runs; use more digits of the id: {}", candidates.len(), list(candidates))]
    AmbiguousRun {
        /// The search text.
        text: String,
        /// The matching runs, newest first.
        candidates: Vec<RunId>,
    },
    /// A run with this id already exists.
    #[error("run {run} already exists in the journal: claim it to continue it, or use a new id")]
    RunExists {
        /// The id of the run.
        run: RunId,
    },
    /// The journal has no such conversation.
    #[error("no conversation `{text}` in the journal {}: list the conversations to see their ids", path.display())]
    NoSuchConversation {
        /// The id or search text.
        text: String,
        /// The path of the journal.
        path: PathBuf,
    },
    /// Several conversations match the text.
    #[error("`{text}` matches {} conversations; use more digits of the id: {}", candidates.len(), list(candidates))]
    AmbiguousConversation {
        /// The search text.
        text: String,
        /// The matching conversations.
        candidates: Vec<ConversationId>,
    },
    /// A conversation with this id already exists.
    #[error("conversation {conversation} already exists in the journal: use a new id")]
    ConversationExists {
        /// The id of the conversation.
        conversation: ConversationId,
    },
    /// The conversation has a turn with this number, because another process has just started it.
    #[error(
        "another process has already started turn {number} of conversation {conversation}: send the message again"
    )]
    TurnExists {
        /// The id of the conversation.
        conversation: ConversationId,
        /// The number of the turn.
        number: u32,
    },
    /// A process owns a turn of the conversation, so it cannot be deleted.
    #[error("a turn of conversation {conversation} is active: cancel it, or wait until it has ended")]
    ConversationActive {
        /// The id of the conversation.
        conversation: ConversationId,
    },
    /// The run has no entry with this number.
    #[error("run {run} has no entry {at}: {}", entry_range(*last))]
    NoSuchEntry {
        /// The id of the run.
        run: RunId,
        /// The number of the missing entry.
        at: u64,
        /// The number of the run's last entry; 0 if it has none.
        last: u64,
    },
    /// A message was posted to a run that has finished.
    #[error(
        "run {run} has finished and accepts no messages: fork it to continue from an earlier entry, or start a new run"
    )]
    Finished {
        /// The id of the run.
        run: RunId,
    },
    /// The message is longer than [`crate::MAX_MESSAGE_BYTES`].
    #[error("the message has {bytes} bytes: shorten it to at most {MAX_MESSAGE_BYTES} bytes")]
    MessageTooLong {
        /// The message's length in bytes.
        bytes: usize,
    },
    /// The run has [`crate::MAX_PENDING_MESSAGES`] pending messages.
    #[error(
        "run {run} already has {MAX_PENDING_MESSAGES} pending messages: resume it, or find out why its process is not handling them"
    )]
    TooManyMessages {
        /// The id of the run.
        run: RunId,
    },
    /// The newest pending message of the run is not the message that the sender expects.
    #[error("the pending messages of run {run} have changed: read them again before you post the message")]
    OtherMessages {
        /// The id of the run.
        run: RunId,
    },
    /// The journal has no message with this number.
    #[error("the journal {} has no message {message}", path.display())]
    NoSuchMessage {
        /// The number of the message.
        message: MessageId,
        /// The path of the journal.
        path: PathBuf,
    },
    /// An appended entry consumes ([`crate::NewEntry::consumes`]) a message that is not pending for its run.
    #[error(
        "message {message} is not pending for run {run}: it was already accepted or rejected, or belongs to another run"
    )]
    MessageNotPending {
        /// The id of the run.
        run: RunId,
        /// The number of the message.
        message: MessageId,
    },
    /// A live process, perhaps this one, owns the run.
    #[error("run {run} is owned by process {pid}: wait until that process ends, or end it")]
    AlreadyClaimed {
        /// The id of the run.
        run: RunId,
        /// The id of the process that owns the run.
        pid: u32,
    },
    /// The run is not claimed through this [`crate::Journal`] or a clone of it.
    #[error("run {run} is not claimed through this journal: claim it before writing")]
    NotClaimed {
        /// The id of the run.
        run: RunId,
    },
    /// An entry was appended to a run that is marked as ended.
    #[error("run {run} has been marked as ended: claim it again to continue it")]
    Ended {
        /// The id of the run.
        run: RunId,
    },
    /// An earlier write for the run failed. Later writes are refused, so that the run's entries have no gaps.
    #[error(
        "an earlier write for run {run} failed, so nothing more is stored for it: fix the cause, then resume the run"
    )]
    Poisoned {
        /// The id of the run.
        run: RunId,
        /// The error of the first failed write.
        source: Arc<StoreError>,
    },
    /// An entry is missing, or differs from the one that was written.
    #[error(
        "entry {seq} of run {run} {problem}: restore the journal from a backup, or fork the run from an earlier entry"
    )]
    BrokenEntry {
        /// The run.
        run: RunId,
        /// The entry's number.
        seq: u64,
        /// The problem with the entry.
        problem: EntryProblem,
    },
    /// A process committed more entries of the run than the journal now contains.
    #[error(
        "run {run} had {committed} entries when its process ended, but the journal has only {found}: its write-ahead log is damaged, or an \
         older copy of the journal was put in its place. Fork the run from entry {found} to continue without the lost entries, or remove \
         {} if you restored the journal on purpose",
        record.display()
    )]
    EntriesLost {
        /// The run.
        run: RunId,
        /// The number of entries that were committed.
        committed: u64,
        /// The number of entries in the journal.
        found: u64,
        /// The file in which the process recorded the number of committed entries.
        record: PathBuf,
    },
    /// The journal was moved, deleted or replaced while it was open.
    #[error(
        "the journal {} was moved, deleted or replaced while it was in use: put it back, then resume its runs",
        path.display()
    )]
    Moved {
        /// The path at which the journal was opened.
        path: PathBuf,
    },
    /// The database is empty, but its write-ahead log is not.
    #[error(
        "the journal {} is empty, but its write-ahead log {}-wal is not: the file was truncated or replaced. Restore it, or move both \
         files away to start a new journal",
        path.display(), path.display()
    )]
    EmptyBesideLog {
        /// The journal.
        path: PathBuf,
    },
    /// A file that must be new exists.
    #[error("{} already exists: name another file, or remove it", path.display())]
    FileExists {
        /// The file.
        path: PathBuf,
    },
    /// The file of an exported run cannot be read.
    #[error("cannot read {}: check the path and its permissions", path.display())]
    UnreadableExport {
        /// The file.
        path: PathBuf,
        /// The underlying error.
        source: Arc<io::Error>,
    },
    /// A recorded file content is missing, or differs from the one that was recorded.
    #[error(
        "an original file content that run {run} recorded (SHA-256 {digest}) {problem}: restore the journal from a backup"
    )]
    BrokenContent {
        /// The run that recorded the content.
        run: RunId,
        /// The content's SHA-256.
        digest: String,
        /// The problem with the content.
        problem: EntryProblem,
    },
    /// A file is not an exported run, or is not complete.
    #[error("line {line} of {} {problem}", path.display())]
    NotAnExport {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: u64,
        /// The problem with the line, and how to fix it.
        problem: String,
    },
    /// An entry cannot be read.
    #[error("entry {seq} of run {run} cannot be read: use the version of Dirigent that wrote it")]
    Entry {
        /// The id of the run.
        run: RunId,
        /// The entry's number.
        seq: u64,
        /// The underlying error.
        source: Arc<serde_json::Error>,
    },
}

/// The problem with a stored entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryProblem {
    /// The entry was stored, but is missing now.
    #[error("is missing from the journal")]
    Missing,
    /// The entry, or its position among the run's entries, has changed since it was stored.
    #[error("was changed or damaged after it was written")]
    Changed,
}

impl StoreError {
    pub(crate) fn broken(run: RunId, seq: u64, problem: EntryProblem) -> Self {
        StoreError::BrokenEntry { run, seq, problem }
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        StoreError::Io {
            action,
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }

    /// Returns the error for a file of an exported run that cannot be read.
    pub fn unreadable_export(path: &Path, source: io::Error) -> Self {
        StoreError::UnreadableExport {
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }

    /// Converts a SQLite error to the variant for its error code; [`StoreError::Sqlite`] if no other variant fits.
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
        0 => "it has no entries yet".to_owned(),
        1 => "it has only entry 1".to_owned(),
        last => format!("it has entries 1 to {last}"),
    }
}

fn list(runs: &[impl std::fmt::Display]) -> String {
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
