//! The file: whose it is, which format it has, and how it is opened. A file that is refused is never written
//! to.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};

use crate::error::StoreError;
use crate::journal::{JournalOptions, Missing};
use crate::owner::{make_folder, private_file};

/// `Drgt` in ASCII: what says that a SQLite file is a journal of Dirigent.
const APPLICATION_ID: i32 = 0x4472_6774;

/// What makes format n + 1 out of format n. Entries are added, never changed.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE runs (
        id         INTEGER PRIMARY KEY,
        run        TEXT NOT NULL UNIQUE,  -- 32 hexadecimal digits
        goal       TEXT NOT NULL,
        workspace  TEXT NOT NULL,
        created_at INTEGER NOT NULL,      -- milliseconds since 1970-01-01 UTC
        ended_at   INTEGER,
        status     TEXT                   -- JSON: why it ended
    ) STRICT;
    -- The key is an index beside the table, for most bodies are too long to be well kept in an index.
    CREATE TABLE journal (
        run   INTEGER NOT NULL REFERENCES runs (id),
        seq   INTEGER NOT NULL,           -- from 1, without gaps
        at    INTEGER NOT NULL,
        scope INTEGER,                    -- an agent's number; NULL for the run
        body  TEXT NOT NULL,              -- JSON: the input
        PRIMARY KEY (run, seq)
    ) STRICT;
    CREATE TABLE claims (
        run   INTEGER PRIMARY KEY REFERENCES runs (id),
        owner TEXT NOT NULL,              -- a lock file beside the journal
        pid   INTEGER NOT NULL
    ) STRICT;
",
    "
    ALTER TABLE runs ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;  -- 1: it has ended, but may go on
    ALTER TABLE runs ADD COLUMN forked_from INTEGER REFERENCES runs (id);
    ALTER TABLE runs ADD COLUMN forked_at INTEGER;                  -- the last place that they share
    UPDATE runs SET paused = 1 WHERE status = '{\"reason\":\"user_required\"}';
    CREATE TABLE messages (
        id     INTEGER PRIMARY KEY,
        run    INTEGER NOT NULL REFERENCES runs (id),
        at     INTEGER NOT NULL,
        body   TEXT,                      -- JSON; NULL once it is taken or refused
        seq    INTEGER,                   -- of the entry that took it
        reason TEXT                       -- why it was refused
    ) STRICT;
    CREATE INDEX waiting ON messages (run) WHERE body IS NOT NULL;
",
    "
    CREATE TABLE contents (
        digest TEXT PRIMARY KEY,          -- SHA-256 in hexadecimal digits
        bytes  BLOB NOT NULL
    ) STRICT;
    CREATE TABLE originals (
        id     INTEGER PRIMARY KEY,
        run    INTEGER NOT NULL REFERENCES runs (id),
        effect TEXT NOT NULL,             -- the call that was about to change the file
        path   TEXT NOT NULL,
        digest TEXT NOT NULL,             -- in contents
        mode   INTEGER NOT NULL           -- as st_mode
    ) STRICT;
    CREATE INDEX originals_of ON originals (run);
",
];

/// The latest format.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "nobody writes two thousand million migrations"
)]
const FORMAT: i32 = MIGRATIONS.len() as i32;

/// Left in the log file after a checkpoint at most, in bytes: one huge transaction shall not hold its space
/// for ever.
const MAX_LOG_BYTES: u32 = 16 * 1024 * 1024;

/// SQLite's usual size of a page, which this crate does not change.
const PAGE_BYTES: u64 = 4096;

/// Opens the journal for its writer, after creating or upgrading it where need be. The path returned is the
/// file's one true name, so that all who open it agree on what lies beside it.
pub(crate) fn open_for_writing(
    path: &Path,
    options: &JournalOptions,
) -> Result<(Connection, PathBuf), StoreError> {
    let path = find_or_create(path, options.missing)?;
    inspect(&path, options.busy_timeout)?;
    let fails = |e| StoreError::sqlite(&path, e);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(&path, flags).map_err(fails)?;
    // SQLite silently opens for reading what it may not write.
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
    migrate(&mut connection, &path)?;
    use_write_ahead_log(&connection, options.busy_timeout).map_err(fails)?;
    Ok((connection, path))
}

/// Opens the journal for reading only, beside a writer of this process.
pub(crate) fn open_for_reading(path: &Path, busy_timeout: Duration) -> Result<Connection, StoreError> {
    let fails = |e| StoreError::sqlite(path, e);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(fails)?;
    connection.busy_timeout(busy_timeout).map_err(fails)?;
    connection
        .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")
        .map_err(fails)?;
    Ok(connection)
}

fn find_or_create(path: &Path, missing: Missing) -> Result<PathBuf, StoreError> {
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

fn create_if_missing(path: &Path) -> Result<(), StoreError> {
    if let Some(folder) = path.parent() {
        make_folder(folder).map_err(|e| StoreError::io("create the folder", folder, e))?;
    }
    // Closing any handle of a file drops all locks that SQLite holds on it in this process, so a new file is
    // closed before anyone here can have opened it through SQLite; an existing one is never opened but
    // through SQLite.
    static CREATING: Mutex<()> = Mutex::new(());
    let _guard = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    match private_file(path) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(StoreError::io("create the journal", path, e)),
    }
}

/// Refuses what is no journal that this version can write, through a connection that cannot change it.
fn inspect(path: &Path, busy_timeout: Duration) -> Result<(), StoreError> {
    let fails = |e| StoreError::sqlite(path, e);
    let connection = open_for_reading(path, busy_timeout)?;
    if let Err(e) = pragma(&connection, "application_id") {
        if !is_unfinished(&e) {
            return Err(fails(e));
        }
        undo_unfinished(path, busy_timeout).map_err(fails)?;
    }
    // One snapshot: another process may be creating the journal right now.
    let snapshot = connection.unchecked_transaction().map_err(fails)?;
    let application_id = pragma(&snapshot, "application_id").map_err(fails)?;
    let format = pragma(&snapshot, "user_version").map_err(fails)?;
    let tables: i64 = snapshot
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(fails)?;
    match (application_id, format, tables) {
        (0, 0, 0) => Ok(()),
        (APPLICATION_ID, found, _) if found > FORMAT => Err(newer(path, found)),
        (APPLICATION_ID, found, _) => touch_tables(&snapshot, found).map_err(fails),
        (application_id, ..) => Err(StoreError::Foreign {
            path: path.to_owned(),
            application_id,
        }),
    }
}

/// Whether a process died in the middle of a transaction, before the file used a write-ahead log: SQLite reads such a file
/// only once that transaction is undone.
fn is_unfinished(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(failure, _)
        if failure.extended_code == rusqlite::ffi::SQLITE_READONLY_ROLLBACK)
}

/// Undoes it, which is what the next reader would do whose database it is; nothing else is changed.
fn undo_unfinished(path: &Path, busy_timeout: Duration) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(busy_timeout)?;
    pragma(&connection, "application_id").map(drop)
}

/// Reads both edges of every table, so that damage there is found before anything is written. (Reading all of
/// a long journal would make every start slow; damage further inside is reported by whoever reads it.)
fn touch_tables(connection: &Connection, format: i32) -> rusqlite::Result<()> {
    for (table, since) in [
        ("runs", 1),
        ("journal", 1),
        ("claims", 1),
        ("messages", 2),
        ("contents", 3),
        ("originals", 3),
    ] {
        if format < since {
            continue;
        }
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

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let fails = |e| StoreError::sqlite(path, e);
    if pragma(connection, "user_version").map_err(fails)? == FORMAT {
        return Ok(());
    }
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate).map_err(fails)?;
    // Another process may have done it while this one waited for the lock, perhaps one of a later version.
    match pragma(&transaction, "user_version").map_err(fails)? {
        FORMAT => Ok(()),
        found if found > FORMAT => Err(newer(path, found)),
        found => upgrade(&transaction, found)
            .and_then(|()| transaction.commit())
            .map_err(fails),
    }
}

fn upgrade(connection: &Connection, format: i32) -> rusqlite::Result<()> {
    for migration in MIGRATIONS.iter().skip(usize::try_from(format).unwrap_or(0)) {
        connection.execute_batch(migration)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", FORMAT)
}

fn newer(path: &Path, found: i32) -> StoreError {
    StoreError::Newer {
        path: path.to_owned(),
        found,
        known: FORMAT,
    }
}

/// SQLite does not wait for others when it changes this mode, so it is asked again until the busy timeout is
/// over.
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
    fn a_format_that_came_in_between_is_never_lowered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let (mut connection, path) = open_for_writing(&path, &JournalOptions::default()).unwrap();

        for later in [FORMAT + 1, 99] {
            connection.pragma_update(None, "user_version", later).unwrap();
            let refused = migrate(&mut connection, &path).unwrap_err();

            assert!(
                matches!(refused, StoreError::Newer { found, .. } if found == later),
                "{refused}"
            );
            assert_eq!(pragma(&connection, "user_version").unwrap(), later);
        }
    }
}
