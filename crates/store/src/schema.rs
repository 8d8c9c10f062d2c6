//! Opens the journal's file: checks its application and format, and creates its tables. Never writes to a file that it refuses.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};

use crate::error::StoreError;
use crate::files::{create_private_file, create_private_folder};
use crate::options::{JournalAccess, JournalOptions, Missing};

/// The SQLite application id of Dirigent's journals: `Drgt` in ASCII.
const APPLICATION_ID: i32 = 0x4472_6774;

/// The tables. The key of `journal` is a separate index, because most bodies are too long to be stored in an index.
const TABLES: &str = "
    CREATE TABLE runs (
        id          INTEGER PRIMARY KEY,
        run         TEXT NOT NULL UNIQUE,        -- 32 hexadecimal digits
        goal        TEXT NOT NULL,
        workspace   TEXT NOT NULL,
        created_at  INTEGER NOT NULL,            -- milliseconds since 1970-01-01 UTC
        ended_at    INTEGER,
        status      TEXT,                        -- JSON: the reason for the end
        paused      INTEGER NOT NULL DEFAULT 0,  -- 1: it has ended, but can be resumed
        entries     INTEGER NOT NULL,            -- the number of its entries
        chain       BLOB NOT NULL,               -- the checksum of its last entry, or of the run itself
        forked_from TEXT,                        -- the id of its source, which may have been deleted since
        forked_at   INTEGER,                     -- the last entry that both runs share
        conversation TEXT,                       -- the conversation of which the run is a turn
        turn        INTEGER                      -- the number of the turn, from 1
    ) STRICT;
    CREATE INDEX newest ON runs (created_at, id);
    CREATE UNIQUE INDEX turns ON runs (conversation, turn) WHERE conversation IS NOT NULL;
    CREATE TABLE journal (
        run   INTEGER NOT NULL REFERENCES runs (id),
        seq   INTEGER NOT NULL,                  -- from 1, without gaps
        at    INTEGER NOT NULL,
        scope INTEGER,                           -- an agent's number; NULL for the run
        body  TEXT NOT NULL,                     -- JSON: the input, without the parts that are in contents
        parts TEXT,                              -- JSON: for each part, where it was cut out (a byte offset) and its digest
        chain BLOB NOT NULL,                     -- the checksum of the entry and of the one before it
        PRIMARY KEY (run, seq)
    ) STRICT;
    CREATE TABLE claims (
        run   INTEGER PRIMARY KEY REFERENCES runs (id),
        owner TEXT NOT NULL,                     -- the name of the owner's lock file
        pid   INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE messages (
        id     INTEGER PRIMARY KEY,
        run    INTEGER NOT NULL REFERENCES runs (id),
        at     INTEGER NOT NULL,
        body   TEXT,                             -- JSON; NULL once accepted or rejected
        seq    INTEGER,                          -- the entry that accepted it
        reason TEXT                              -- why it was rejected
    ) STRICT;
    CREATE INDEX pending ON messages (run) WHERE body IS NOT NULL;
    CREATE TABLE contents (
        digest TEXT PRIMARY KEY,                 -- SHA-256 in hexadecimal digits
        bytes  BLOB NOT NULL,
        before TEXT                              -- the digest of the text that these bytes extend
    ) STRICT;
    CREATE TABLE originals (
        id     INTEGER PRIMARY KEY,
        run    INTEGER NOT NULL REFERENCES runs (id),
        effect TEXT NOT NULL,                    -- the call that was about to change the file
        path   TEXT NOT NULL,
        digest TEXT NOT NULL,                    -- in contents
        mode   INTEGER NOT NULL                  -- as st_mode
    ) STRICT;
    CREATE INDEX originals_of ON originals (run);
    CREATE TABLE conversations (
        id           INTEGER PRIMARY KEY,
        conversation TEXT NOT NULL UNIQUE,       -- 32 hexadecimal digits
        title        TEXT NOT NULL,
        workspace    TEXT NOT NULL,
        settings     TEXT NOT NULL,              -- JSON
        created_at   INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE call_forms (
        address TEXT NOT NULL,                   -- the model's server
        model   TEXT NOT NULL,                   -- the server's name of the model
        form    TEXT NOT NULL,                   -- the form in which the model calls tools, as in the configuration
        at      INTEGER NOT NULL,                -- when it was found
        PRIMARY KEY (address, model)
    ) STRICT;
    CREATE TABLE approval_rules (
        id      INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice
        scope   TEXT NOT NULL CHECK (scope IN ('run', 'conversation', 'workspace', 'everywhere')),
        subject TEXT NOT NULL,                   -- the id of the run or conversation, or the folder
        calls   TEXT NOT NULL,                   -- the pattern of the calls, as in the configuration
        at      INTEGER NOT NULL,
        service TEXT,                            -- the digest of the service whose tools the calls name
        UNIQUE (scope, subject, calls)
    ) STRICT;
    CREATE TABLE system_prompts (
        name    TEXT NOT NULL,
        version INTEGER NOT NULL,                -- from 1
        text    TEXT NOT NULL,
        at      INTEGER NOT NULL,
        PRIMARY KEY (name, version)
    ) STRICT;
    CREATE TABLE trusted_files (
        path   TEXT PRIMARY KEY,                 -- absolute
        digest TEXT NOT NULL,                    -- of the content that the user trusts
        at     INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE mcp_services (
        name    TEXT PRIMARY KEY,
        config  TEXT NOT NULL,                   -- JSON, without secrets
        version INTEGER NOT NULL,                -- from 1
        at      INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE mcp_stopped (
        name TEXT PRIMARY KEY,                   -- a service that the user has stopped, wherever it is configured
        at   INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE request_keys (
        key     TEXT PRIMARY KEY,                -- chosen by a client of the service
        digest  TEXT NOT NULL,                   -- of the request
        handler TEXT NOT NULL,                   -- the process that handles the request
        at      INTEGER NOT NULL,
        answer  TEXT                             -- JSON; NULL while the request has no answer
    ) STRICT;
    CREATE TABLE mcp_starts (
        name   TEXT NOT NULL,                    -- a service, wherever it is configured
        digest TEXT NOT NULL,                    -- of its configuration
        result TEXT NOT NULL,                    -- JSON: its tools, the error, its last messages
        at     INTEGER NOT NULL,
        PRIMARY KEY (name, digest)
    ) STRICT;
";

/// The tables of the memory. The word index refers to facts by their ids, and stores no text.
const MEMORY_TABLES: &str = "
    CREATE TABLE facts (
        id        INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice
        workspace TEXT NOT NULL,                     -- the folder that the fact is about; empty for the user's facts
        fact      TEXT NOT NULL,
        same      TEXT NOT NULL,                     -- the text by which facts are the same
        at        INTEGER NOT NULL,
        UNIQUE (workspace, same)
    ) STRICT;
    CREATE VIRTUAL TABLE fact_words USING fts5 (
        words, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
    );
";

/// The version of the journal's format, which includes the tables and the JSON in them. Journals in other
/// formats are refused.
const FORMAT: i32 = 9;

/// Size to which SQLite truncates a longer write-ahead log after a checkpoint, in bytes. Without this limit, the log file would never
/// shrink.
const MAX_LOG_BYTES: u32 = 16 * 1024 * 1024;

/// SQLite's default page size, which this crate does not change.
const PAGE_BYTES: u64 = 4096;

/// Opens the journal for its writer, and creates it if allowed. Returns the canonical path of the file, so that all processes agree on the
/// paths of the log and the lock files.
pub(crate) fn open_for_writing(
    path: &Path,
    options: &JournalOptions,
) -> Result<(Connection, PathBuf), StoreError> {
    let path = find_or_create(path, options.missing)?;
    inspect(&path, options)?;
    let fails = |e| StoreError::sqlite(&path, e);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(&path, flags).map_err(fails)?;
    // SQLite silently opens a file read-only if it cannot be written.
    if connection.is_readonly("main").map_err(fails)? {
        return Err(StoreError::ReadOnly { path });
    }
    connection.busy_timeout(options.busy_timeout).map_err(fails)?;
    connection
        .execute_batch(&format!(
            "PRAGMA trusted_schema = OFF;
             PRAGMA cell_size_check = ON;
             PRAGMA fullfsync = ON;
             PRAGMA journal_size_limit = {MAX_LOG_BYTES};"
        ))
        .map_err(fails)?;
    if let Some(bytes) = options.max_bytes {
        let pages = i64::try_from((bytes / PAGE_BYTES).max(1)).unwrap_or(i64::MAX);
        connection
            .execute_batch(&format!("PRAGMA max_page_count = {pages}"))
            .map_err(fails)?;
    }
    create_tables(&mut connection, &path)?;
    use_write_ahead_log(&connection, options.busy_timeout).map_err(fails)?;
    Ok((connection, path))
}

/// Checks the journal without writing anything; returns the canonical path of its file.
pub(crate) fn check_for_reading(path: &Path, options: &JournalOptions) -> Result<PathBuf, StoreError> {
    let path = find_or_create(path, options.missing)?;
    match inspect(&path, options)? {
        Inspected::Journal => Ok(path),
        Inspected::Empty => Err(StoreError::Missing { path }),
    }
}

/// A read-only connection to the journal.
pub(crate) struct ReadConnection {
    pub(crate) connection: Connection,
    /// False if SQLite assumes that the file does not change. In this case, a later read must open the file
    /// again to see what other processes have written.
    pub(crate) sees_changes: bool,
}

/// Opens a read-only connection to the journal.
pub(crate) fn open_for_reading(path: &Path, busy_timeout: Duration) -> Result<ReadConnection, StoreError> {
    let fails = |e| StoreError::sqlite(path, e);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(fails)?;
    let (connection, sees_changes) = match pragma(&connection, "application_id") {
        Err(e) if cannot_lock(&e) && is_empty(&log_of(path)) => {
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            let connection = Connection::open_with_flags(immutable(path), flags).map_err(fails)?;
            (connection, false)
        }
        Ok(_) | Err(_) => (connection, true),
    };
    connection.busy_timeout(busy_timeout).map_err(fails)?;
    connection
        .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")
        .map_err(fails)?;
    Ok(ReadConnection {
        connection,
        sees_changes,
    })
}

/// Returns true if SQLite could not create the files with which it coordinates readers and writers, for example on a read-only disk.
fn cannot_lock(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    !is_unfinished(error)
        && matches!(
            code,
            Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly)
        )
}

/// Returns the URI with which SQLite reads a file that does not change.
fn immutable(path: &Path) -> String {
    let path = path.to_string_lossy();
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{path}?immutable=1")
}

fn find_or_create(path: &Path, missing: Missing) -> Result<PathBuf, StoreError> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // SQLite would delete the log. The log is tested first, because another process may be creating the journal.
    if !is_empty(&log_of(&real)) && is_empty(&real) {
        return Err(StoreError::EmptyBesideLog { path: real });
    }
    match missing {
        Missing::Create => create_if_missing(path)?,
        Missing::Refuse if path.exists() => {}
        Missing::Refuse => {
            let path = path.to_owned();
            return Err(StoreError::Missing { path });
        }
    }
    if path.is_file() {
        path.canonicalize()
    } else {
        Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        ))
    }
    .map_err(|e| StoreError::io("open the journal", path, e))
}

/// Returns the path of the journal's write-ahead log.
fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

/// Returns true if the file is empty or does not exist.
fn is_empty(path: &Path) -> bool {
    path.metadata().map_or(true, |metadata| metadata.len() == 0)
}

fn create_if_missing(path: &Path) -> Result<(), StoreError> {
    if let Some(folder) = path.parent() {
        create_private_folder(folder).map_err(|e| StoreError::io("create the folder", folder, e))?;
    }
    // Closing any handle of a file releases all POSIX locks that SQLite holds on the file in this process. So a new file is closed before
    // SQLite can open it, and this process opens an existing file only through SQLite.
    static CREATING: Mutex<()> = Mutex::new(());
    let _guard = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    match create_private_file(path) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(StoreError::io("create the journal", path, e)),
    }
}

/// The content of a file that can be opened as a journal.
enum Inspected {
    Journal,
    /// A database without tables.
    Empty,
}

/// Refuses a file that is not a journal of this format. Checks it through a connection that cannot change it.
fn inspect(path: &Path, options: &JournalOptions) -> Result<Inspected, StoreError> {
    let fails = |e| StoreError::sqlite(path, e);
    let connection = open_for_reading(path, options.busy_timeout)?.connection;
    if let Err(e) = pragma(&connection, "application_id") {
        if !is_unfinished(&e) || options.access == JournalAccess::ReadOnly {
            return Err(fails(e));
        }
        roll_back_unfinished(path, options.busy_timeout).map_err(fails)?;
    }
    // Read all values in one snapshot, because another process may be creating the journal at the same time.
    let snapshot = connection.unchecked_transaction().map_err(fails)?;
    let application_id = pragma(&snapshot, "application_id").map_err(fails)?;
    let format = pragma(&snapshot, "user_version").map_err(fails)?;
    let tables: i64 = snapshot
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(fails)?;
    match (application_id, format, tables) {
        (0, 0, 0) => Ok(Inspected::Empty),
        (APPLICATION_ID, FORMAT, _) => {
            touch_tables(&snapshot).map_err(fails)?;
            Ok(Inspected::Journal)
        }
        (APPLICATION_ID, found, _) => Err(unsupported(path, found)),
        (application_id, ..) => Err(StoreError::Foreign {
            path: path.to_owned(),
            application_id,
        }),
    }
}

/// Returns true if the error means that a process died in a transaction before the file used a write-ahead log. SQLite can read the file
/// only after rolling that transaction back.
fn is_unfinished(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(failure, _)
        if failure.extended_code == rusqlite::ffi::SQLITE_READONLY_ROLLBACK)
}

/// Rolls back the unfinished transaction, as any reader with write access would do, and changes nothing else.
fn roll_back_unfinished(path: &Path, busy_timeout: Duration) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(busy_timeout)?;
    pragma(&connection, "application_id").map(drop)
}

/// Reads the first and the last row of every table, to find damage there before anything is written. Reading
/// a long journal completely would make every start slow. Damage elsewhere is reported when the damaged rows
/// are read.
fn touch_tables(connection: &Connection) -> rusqlite::Result<()> {
    for table in [
        "runs",
        "journal",
        "claims",
        "messages",
        "contents",
        "originals",
        "conversations",
        "call_forms",
        "approval_rules",
        "system_prompts",
        "trusted_files",
        "mcp_services",
        "mcp_stopped",
        "mcp_starts",
        "facts",
        "fact_words_data",
    ] {
        for order in ["ASC", "DESC"] {
            let sql = format!("SELECT * FROM {table} ORDER BY rowid {order} LIMIT 1");
            connection
                .query_row(&sql, [], |row| row.get_ref(1).map(drop))
                .optional()?;
        }
    }
    Ok(())
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

fn create_tables(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let fails = |e| StoreError::sqlite(path, e);
    if pragma(connection, "user_version").map_err(fails)? == FORMAT {
        return Ok(());
    }
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate).map_err(fails)?;
    // Another process, perhaps of another version, may have created the tables while this process waited for the lock.
    match pragma(&transaction, "user_version").map_err(fails)? {
        FORMAT => Ok(()),
        0 => transaction
            .execute_batch(TABLES)
            .and_then(|()| transaction.execute_batch(MEMORY_TABLES))
            .and_then(|()| transaction.pragma_update(None, "application_id", APPLICATION_ID))
            .and_then(|()| transaction.pragma_update(None, "user_version", FORMAT))
            .and_then(|()| transaction.commit())
            .map_err(fails),
        found => Err(unsupported(path, found)),
    }
}

fn unsupported(path: &Path, found: i32) -> StoreError {
    StoreError::UnsupportedFormat {
        path: path.to_owned(),
        found,
        supported: FORMAT,
    }
}

/// Enables the write-ahead log. SQLite does not apply the busy timeout to this change, so it is retried here.
fn use_write_ahead_log(connection: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    const PAUSE: Duration = Duration::from_millis(5);
    let start = Instant::now();
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match mode {
            Err(e)
                if e.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
                    && start.elapsed() < busy_timeout =>
            {
                std::thread::sleep(PAUSE);
            }
            other => return other.map(drop),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_of_another_format_created_in_the_meantime_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let (mut connection, path) = open_for_writing(&path, &JournalOptions::default()).unwrap();

        for other in [FORMAT - 1, FORMAT + 1] {
            connection.pragma_update(None, "user_version", other).unwrap();
            let refused = create_tables(&mut connection, &path).unwrap_err();

            assert!(
                matches!(refused, StoreError::UnsupportedFormat { found, .. } if found == other),
                "{refused}"
            );
            assert_eq!(pragma(&connection, "user_version").unwrap(), other);
        }
    }
}
