//! SQLite files of the workspace.
//!
//! Neither paths, links nor the content of a database file can lead SQLite out of the workspace: the path is resolved within the workspace,
//! SQLite follows no links, the authorizer refuses statements that open other files, a journal that names another file is refused
//! ([`rollback_journal`]), and on Linux the kernel confines the thread to the database's folder.
//!
//! A statement can only be ended between two instructions of SQLite's virtual machine, and an instruction works on whole values. Therefore
//! the size of values is limited, and a thread holds its permit until the statement has actually ended.

mod memory_limit;
mod monitor;
mod rollback_journal;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dirigent_core::tool::StateChange;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use self::memory_limit::MemoryLimit;
use self::monitor::{StatementMonitor, StatementOrigin};
use super::changes::{self, Tables};
use super::error::SqlError;
use super::parameter::Parameter;
use super::rows::{CellEncoder, Rows, integer, real};
use super::statement::{Statement, StatementResult};
use crate::sandbox::confine_thread;
use crate::workspace::{EntryKind, FileError, Workspace, is_protected};

/// Maximum time to wait for another writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of instructions of SQLite's virtual machine between two checks for cancellation and memory use.
const PROGRESS_INTERVAL: i32 = 1000;
/// Maximum size of a value and of a written row, in bytes. At this size, functions with quadratic run time, such as `instr`, already take
/// seconds.
const MAX_VALUE: i32 = 1024 * 1024;
/// Maximum length of a LIKE or GLOB pattern, in bytes. Each wildcard can cause another scan of the whole value.
const MAX_PATTERN: i32 = 1000;
/// Maximum number of columns of a table, an index or a result. It limits the number of values in memory.
const MAX_COLUMNS: i32 = 500;

/// Files outside the database's folder that SQLite reads: random bytes, and the time zone.
const READABLE: [&str; 3] = ["/dev/urandom", "/etc/localtime", "/usr/share/zoneinfo"];

/// Runs a statement on a new thread. Dropping the future ends the statement; the thread releases the permit when it ends.
pub(super) async fn run(
    path: &Path,
    workspace: PathBuf,
    statement: Statement,
    permit: OwnedSemaphorePermit,
) -> Result<StatementResult, SqlError> {
    let stop = Arc::new(AtomicBool::new(false));
    let _stop_on_drop = StopOnDrop(Arc::clone(&stop));
    let path = path.to_owned();
    let (sender, receiver) = oneshot::channel();
    let work = move || {
        let result = run_on_thread(&path, &workspace, &statement, &stop);
        drop(permit);
        // Fails if the future was dropped.
        let _ = sender.send(result);
    };
    // A new thread, not a pooled one, because the confinement of a thread cannot be lifted.
    std::thread::Builder::new()
        .name("execute_sql".to_owned())
        .spawn(work)
        .map_err(|error| SqlError::ThreadSpawnFailed(error.to_string()))?;
    receiver.await.unwrap_or(Err(SqlError::BrokeDown))
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn run_on_thread(
    path: &Path,
    workspace: &Path,
    statement: &Statement,
    stop: &Arc<AtomicBool>,
) -> Result<StatementResult, SqlError> {
    let path = locate(path, workspace, statement)?;
    let memory = MemoryLimit::start();
    let folder = path.parent().unwrap_or(workspace);
    confine_thread(folder, &READABLE).map_err(|error| SqlError::SandboxUnavailable(error.to_string()))?;
    let monitor = StatementMonitor::new(statement.read_only);
    let database = open(&path, statement, &monitor, stop, memory.clone())?;
    execute(&database, statement, &monitor, stop)
        .map_err(|error| to_sql_error(error, &monitor, stop, &memory))?
}

/// Returns the absolute path of the database file, without links.
fn locate(path: &Path, workspace: &Path, statement: &Statement) -> Result<PathBuf, SqlError> {
    let name = path.to_str().unwrap_or_default();
    if name.is_empty() || name.starts_with(':') || name.to_ascii_lowercase().starts_with("file:") {
        return Err(SqlError::Refused(
            "the connection's database must be the path of a file in the workspace".to_owned(),
        ));
    }
    let workspace = Workspace::open(workspace).map_err(SqlError::File)?;
    let plain = workspace.canonical(name).map_err(SqlError::File)?;
    if plain.split('/').any(|name| is_protected(OsStr::new(name))) {
        return Err(SqlError::File(FileError::Protected {
            path: name.to_owned(),
        }));
    }
    match workspace.kind(&plain) {
        Ok(EntryKind::File) if has_single_link(&workspace, &plain).map_err(SqlError::File)? => {}
        Ok(EntryKind::File) => {
            return Err(SqlError::Refused(
                "the database file has several hard links, which may be outside the workspace".to_owned(),
            ));
        }
        Ok(EntryKind::Folder | EntryKind::Other) => {
            return Err(SqlError::File(FileError::NotAFile {
                path: name.to_owned(),
                kind: "a folder, a pipe or a device",
            }));
        }
        Err(FileError::NotFound { .. }) if statement.read_only.is_none() => {}
        Err(FileError::NotFound { .. }) => {
            return Err(SqlError::FileNotFound {
                connection: statement.connection.clone(),
                read_only: statement.read_only,
            });
        }
        Err(error) => return Err(SqlError::File(error)),
    }
    if let Some((folder, _)) = plain.rsplit_once('/') {
        workspace.kind(folder).map_err(SqlError::File)?;
    }
    rollback_journal::check_super_journal(&workspace, &plain)?;
    Ok(workspace.root().join(plain))
}

#[cfg(unix)]
fn has_single_link(workspace: &Workspace, plain: &str) -> Result<bool, FileError> {
    use cap_std::fs::MetadataExt;
    let metadata = workspace.open_file(plain)?.metadata();
    Ok(metadata.is_ok_and(|metadata| metadata.nlink() == 1))
}

#[cfg(not(unix))]
fn has_single_link(_: &Workspace, _: &str) -> Result<bool, FileError> {
    Ok(true)
}

/// Opens the file with all dangerous features of SQLite switched off.
fn open(
    path: &Path,
    statement: &Statement,
    monitor: &StatementMonitor,
    stop: &Arc<AtomicBool>,
    memory: MemoryLimit,
) -> Result<Connection, SqlError> {
    // Even read-only statements open the file for writing, because otherwise SQLite could neither read the
    // write-ahead log of other writers nor recover after a crash.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if statement.read_only.is_none() {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let database = Connection::open_with_flags(path, flags)
        .map_err(|_| SqlError::Database("the database file cannot be opened".to_owned()))?;
    let stop = Arc::clone(stop);
    let set_up = || {
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false)?;
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false)?;
        database.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        database.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
        database.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN)?;
        database.set_limit(Limit::SQLITE_LIMIT_COLUMN, MAX_COLUMNS)?;
        database.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
        database.busy_timeout(statement.timeout.min(BUSY_TIMEOUT))?;
        // Sorting uses memory, because the thread can write only to the database's folder. The progress
        // handler limits this memory, because SQLite's own limits would also apply to the other SQLite
        // databases of this process, such as the run journal.
        database.pragma_update(None, "temp_store", "memory")?;
        database.pragma_update(None, "query_only", statement.read_only.is_some())?;
        database.progress_handler(
            PROGRESS_INTERVAL,
            Some(move || stop.load(Ordering::Relaxed) || memory.is_exceeded()),
        )?;
        monitor.install(&database)
    };
    set_up().map_err(|error| SqlError::Database(error.to_string()))?;
    Ok(database)
}

type SqliteResult<T> = Result<T, rusqlite::Error>;

/// Executes the statement in a transaction. The outer error is an error of SQLite, the inner error an error of this tool.
fn execute(
    database: &Connection,
    statement: &Statement,
    monitor: &StatementMonitor,
    stop: &AtomicBool,
) -> SqliteResult<Result<StatementResult, SqlError>> {
    monitor.set_origin(StatementOrigin::Model);
    let mut prepared = match database.prepare(&statement.sql) {
        Err(rusqlite::Error::MultipleStatement) => return Ok(Err(SqlError::multiple_statements())),
        prepared => prepared?,
    };
    if prepared.expanded_sql().is_none() {
        return Ok(Err(SqlError::no_statement()));
    }
    if prepared.parameter_count() != statement.parameters.len() {
        return Ok(Err(SqlError::placeholder_count(
            prepared.parameter_count(),
            statement.parameters.len(),
        )));
    }
    if let (false, Some(reason)) = (prepared.readonly(), statement.read_only) {
        return Ok(Err(SqlError::ReadOnly {
            reason,
            detail: "SQLite reports that the statement writes".to_owned(),
        }));
    }
    for (index, parameter) in statement.parameters.iter().enumerate() {
        if let Err(error) = bind(&mut prepared, index + 1, parameter)? {
            return Ok(Err(error));
        }
    }
    let writes = !prepared.readonly();
    // A writing statement waits for other writers before it reads; otherwise the data it read could be outdated when it writes.
    monitor.run_internal(|| database.execute_batch(if writes { "BEGIN IMMEDIATE" } else { "BEGIN" }))?;
    let before = monitor.run_internal(|| tables(database, writes))?;
    let (total, mut rows) = (database.total_changes(), Rows::new(statement.max_rows));
    let columns = prepared.columns();
    rows.set_columns(columns.iter().map(|column| (column.name(), column.decl_type())));
    drop(columns);
    if let Err(error) = collect(&mut prepared, &mut rows)? {
        return Ok(Err(error));
    }
    drop(prepared);
    let changed = database.total_changes() - total;
    let affected = (!rows.has_columns()).then(|| if changed > 0 { database.changes() } else { 0 });
    let after = monitor.run_internal(|| tables(database, writes))?;
    if stop.load(Ordering::Relaxed) {
        return Ok(Err(SqlError::Cancelled));
    }
    monitor.run_internal(|| database.execute_batch("COMMIT"))?;
    let mut all = changes::table_changes(&statement.connection, &before, &after);
    all.extend(rows_changed(&statement.connection, monitor, changed));
    Ok(Ok(StatementResult {
        rows,
        affected,
        changes: all,
    }))
}

fn collect(prepared: &mut rusqlite::Statement<'_>, rows: &mut Rows) -> SqliteResult<Result<(), SqlError>> {
    let width = prepared.column_count();
    let mut cursor = prepared.raw_query();
    // Stopping early is safe, because a statement that changes rows has changed all of them before it returns
    // the first.
    while let Some(row) = cursor.next()? {
        let values: Vec<ValueRef<'_>> = (0..width)
            .map(|at| row.get_ref(at))
            .collect::<SqliteResult<_>>()?;
        match rows.push(|cells| {
            Ok(values
                .into_iter()
                .map(|value| encode_cell(cells, value))
                .collect())
        }) {
            Ok(flow) if flow.is_break() => break,
            Ok(_) => {}
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(()))
}

fn bind(
    prepared: &mut rusqlite::Statement<'_>,
    index: usize,
    parameter: &Parameter,
) -> SqliteResult<Result<(), SqlError>> {
    match parameter {
        Parameter::Null => prepared.raw_bind_parameter(index, rusqlite::types::Null)?,
        Parameter::Bool(value) => prepared.raw_bind_parameter(index, value)?,
        Parameter::Integer(value) => prepared.raw_bind_parameter(index, value)?,
        Parameter::Unsigned(value) => {
            return Ok(Err(SqlError::Parameters(format!(
                "parameter {index} is {value}, but SQLite's largest integer is {}; nothing was run",
                i64::MAX
            ))));
        }
        Parameter::Real(value) => prepared.raw_bind_parameter(index, value)?,
        Parameter::Text(value) => prepared.raw_bind_parameter(index, value)?,
        Parameter::Bytes(value) => prepared.raw_bind_parameter(index, value)?,
        Parameter::Json(value) => prepared.raw_bind_parameter(index, value.to_string())?,
    }
    Ok(Ok(()))
}

fn encode_cell(cells: &mut CellEncoder, value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => integer(value),
        ValueRef::Real(value) => real(value),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => cells.text(text),
            Err(_) => cells.bytes(bytes),
        },
        ValueRef::Blob(bytes) => cells.bytes(bytes),
    }
}

/// Lists the tables. Empty for a statement that does not write, because such a statement changes no table.
fn tables(database: &Connection, writes: bool) -> SqliteResult<Tables> {
    if !writes {
        return Ok(Tables::new());
    }
    let mut names = database.prepare(
        "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )?;
    let names = names.query_map([], |row| row.get(0))?;
    names.collect()
}

fn rows_changed(connection: &str, monitor: &StatementMonitor, changed: u64) -> Vec<StateChange> {
    let (counted, written) = monitor.changed_rows();
    let rest = changed.saturating_sub(counted.values().sum());
    // The update hook does not count rows of tables WITHOUT ROWID, nor the rows of a `DELETE` without `WHERE`.
    let mut uncounted = written.into_iter().filter(|table| !counted.contains_key(table));
    let only = match (uncounted.next(), uncounted.next()) {
        (Some(table), None) => Some(table),
        _ => None,
    };
    let counted = counted
        .into_iter()
        .filter_map(|(table, rows)| changes::row_changes(connection, Some(table), rows));
    counted
        .chain(changes::row_changes(connection, only, rest))
        .collect()
}

/// Converts an error of SQLite.
fn to_sql_error(
    error: rusqlite::Error,
    monitor: &StatementMonitor,
    stop: &AtomicBool,
    memory: &MemoryLimit,
) -> SqlError {
    if stop.load(Ordering::Relaxed) {
        return SqlError::Cancelled;
    }
    if let Some(error) = monitor.take_refusal() {
        return error;
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) if memory.was_exceeded() => SqlError::ResourceLimit(
            "the statement exceeded its memory limit and was ended; its transaction is rolled back: narrow it with WHERE, or sort and \
             group fewer rows",
        ),
        Some(ErrorCode::TooBig) => SqlError::ResourceLimit(
            "the statement, a value or a row is larger than 1 MiB, the limit of this tool for SQLite: use smaller values, or parts of \
             them",
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            SqlError::Database("the database is locked by another writer; try again later".to_owned())
        }
        _ => SqlError::Database(match error {
            rusqlite::Error::SqlInputError { msg, offset, .. } => {
                format!("{msg} (at byte {offset} of `sql`)")
            }
            error => error.to_string(),
        }),
    }
}
