//! SQLite files of the workspace.
//!
//! Neither a path, a link nor the file's own content leads SQLite out of the workspace: the path is resolved by the jail, SQLite follows no link on
//! it, the authorizer refuses what opens other files, a journal that names another file is refused ([`journal`]), and on Linux the
//! kernel holds the thread to the database's folder.
//!
//! A statement can be ended between two steps of SQLite's machine, never within one, and a step works on whole values. So values are
//! small, and a thread keeps its place among those that run at once until it has really ended.

mod confined;
mod journal;
mod memory;
mod watch;

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

use self::memory::Memory;
use self::watch::{Watch, Whose};
use super::changes::{self, Tables};
use super::fault::Fault;
use super::parameter::Parameter;
use super::rows::{Cells, Rows, integer, real};
use super::{Done, Statement};
use crate::workspace::{FileFault, Kind, Workspace, is_protected};

/// How long another writer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// After how many steps of SQLite's machine it is looked whether anybody still waits, and how much memory there is in use.
const STEPS: i32 = 1000;
/// The most bytes of one value and of one row that is written. What takes the square of it, as `instr` does, takes seconds.
const MAX_VALUE: i32 = 1024 * 1024;
/// The longest pattern of LIKE and GLOB, in bytes: each of its wildcards can go through the whole value.
const MAX_PATTERN: i32 = 1000;
/// The most columns of a result, of an index and the like: there may be that many values at once.
const MAX_COLUMNS: i32 = 500;

/// Runs it on a thread of its own, which ends when the future is dropped, and gives up its place then.
pub(super) async fn run(
    path: &Path,
    workspace: PathBuf,
    statement: Statement,
    place: OwnedSemaphorePermit,
) -> Result<Done, Fault> {
    let stop = Arc::new(AtomicBool::new(false));
    let _stops_when_dropped = StopsWhenDropped(Arc::clone(&stop));
    let path = path.to_owned();
    let (sender, receiver) = oneshot::channel();
    let work = move || {
        let done = carry_out(&path, &workspace, &statement, &stop);
        drop(place);
        // Nobody waits any more where it cannot be sent.
        let _ = sender.send(done);
    };
    // Not one of the threads for blocking work: what confines it holds for as long as it lives.
    std::thread::Builder::new()
        .name("execute_sql".to_owned())
        .spawn(work)
        .map_err(|error| Fault::NoThread(error.to_string()))?;
    receiver.await.unwrap_or(Err(Fault::BrokeDown))
}

struct StopsWhenDropped(Arc<AtomicBool>);

impl Drop for StopsWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn carry_out(
    path: &Path,
    workspace: &Path,
    statement: &Statement,
    stop: &Arc<AtomicBool>,
) -> Result<Done, Fault> {
    let path = locate(path, workspace, statement)?;
    let memory = Memory::now();
    let folder = path.parent().unwrap_or(workspace);
    confined::confine(folder).map_err(|error| Fault::NoSandbox(error.to_string()))?;
    let watch = Watch::new(statement.looks_only);
    let database = open(&path, statement, &watch, stop, memory.clone())?;
    execute(&database, statement, &watch, stop).map_err(|error| told(error, &watch, stop, &memory))?
}

/// The file's absolute path, without links.
fn locate(path: &Path, workspace: &Path, statement: &Statement) -> Result<PathBuf, Fault> {
    let name = path.to_str().unwrap_or_default();
    if name.is_empty() || name.starts_with(':') || name.to_ascii_lowercase().starts_with("file:") {
        return Err(Fault::Refused(
            "the connection's database must be the path of a file in the workspace".to_owned(),
        ));
    }
    let workspace = Workspace::open(workspace).map_err(Fault::File)?;
    let plain = workspace.canonical(name).map_err(Fault::File)?;
    if plain.split('/').any(|name| is_protected(OsStr::new(name))) {
        return Err(Fault::File(FileFault::Protected {
            path: name.to_owned(),
        }));
    }
    match workspace.kind(&plain) {
        Ok(Kind::File) if is_alone(&workspace, &plain).map_err(Fault::File)? => {}
        Ok(Kind::File) => {
            return Err(Fault::Refused(
                "the database file has other names (hard links), which may be outside the workspace"
                    .to_owned(),
            ));
        }
        Ok(Kind::Folder | Kind::Other) => {
            return Err(Fault::File(FileFault::NotAFile {
                path: name.to_owned(),
                kind: "a folder, a pipe or a device",
            }));
        }
        Err(FileFault::NotFound { .. }) if statement.looks_only.is_none() => {}
        Err(FileFault::NotFound { .. }) => {
            return Err(Fault::NoFile {
                connection: statement.connection.clone(),
                looks_only: statement.looks_only,
            });
        }
        Err(fault) => return Err(Fault::File(fault)),
    }
    if let Some((folder, _)) = plain.rsplit_once('/') {
        workspace.kind(folder).map_err(Fault::File)?;
    }
    journal::check(&workspace, &plain)?;
    Ok(workspace.root().join(plain))
}

#[cfg(unix)]
fn is_alone(workspace: &Workspace, plain: &str) -> Result<bool, FileFault> {
    use cap_std::fs::MetadataExt;
    let metadata = workspace.open_file(plain)?.metadata();
    Ok(metadata.is_ok_and(|metadata| metadata.nlink() == 1))
}

#[cfg(not(unix))]
fn is_alone(_: &Workspace, _: &str) -> Result<bool, FileFault> {
    Ok(true)
}

/// Opens the file, with all off that could be used against its user.
fn open(
    path: &Path,
    statement: &Statement,
    watch: &Watch,
    stop: &Arc<AtomicBool>,
    memory: Memory,
) -> Result<Connection, Fault> {
    // Also where it is only looked at: else the log of a database that others write could be neither read nor cleaned up after a crash.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if statement.looks_only.is_none() {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let database = Connection::open_with_flags(path, flags)
        .map_err(|_| Fault::Database("the database file cannot be opened".to_owned()))?;
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
        database.busy_timeout(statement.timeout.min(PATIENCE))?;
        // What is sorted stays off the disk: there is none to put it on but the workspace. How much it may be is looked at at each step, as
        // SQLite's own limits of memory hold for the whole process, and the journal of runs must go on.
        database.pragma_update(None, "temp_store", "memory")?;
        database.pragma_update(None, "query_only", statement.looks_only.is_some())?;
        database.progress_handler(
            STEPS,
            Some(move || stop.load(Ordering::Relaxed) || memory.is_too_much()),
        )?;
        watch.set_on(&database)
    };
    set_up().map_err(|error| Fault::Database(error.to_string()))?;
    Ok(database)
}

type Carried<T> = Result<T, rusqlite::Error>;

/// The outer error is SQLite's, the inner one ours.
fn execute(
    database: &Connection,
    statement: &Statement,
    watch: &Watch,
    stop: &AtomicBool,
) -> Carried<Result<Done, Fault>> {
    watch.expect(Whose::Models);
    let mut prepared = match database.prepare(&statement.sql) {
        Err(rusqlite::Error::MultipleStatement) => return Ok(Err(Fault::several())),
        prepared => prepared?,
    };
    if prepared.expanded_sql().is_none() {
        return Ok(Err(Fault::nothing_to_run()));
    }
    if prepared.parameter_count() != statement.parameters.len() {
        return Ok(Err(Fault::count(
            prepared.parameter_count(),
            statement.parameters.len(),
        )));
    }
    if let (false, Some(who)) = (prepared.readonly(), statement.looks_only) {
        return Ok(Err(Fault::OnlyLooks {
            who,
            what: "SQLite says that the statement writes".to_owned(),
        }));
    }
    for (place, parameter) in statement.parameters.iter().enumerate() {
        if let Err(fault) = bind(&mut prepared, place + 1, parameter)? {
            return Ok(Err(fault));
        }
    }
    let writes = !prepared.readonly();
    // A writer waits for the others before it looks, else what it saw may be old by the time it writes.
    watch.ours(|| database.execute_batch(if writes { "BEGIN IMMEDIATE" } else { "BEGIN" }))?;
    let before = watch.ours(|| tables(database, writes))?;
    let (total, mut rows) = (database.total_changes(), Rows::new(statement.max_rows));
    let columns = prepared.columns();
    rows.set_columns(columns.iter().map(|column| (column.name(), column.decl_type())));
    drop(columns);
    if let Err(fault) = collect(&mut prepared, &mut rows)? {
        return Ok(Err(fault));
    }
    drop(prepared);
    let changed = database.total_changes() - total;
    let affected = (!rows.has_columns()).then(|| if changed > 0 { database.changes() } else { 0 });
    let after = watch.ours(|| tables(database, writes))?;
    if stop.load(Ordering::Relaxed) {
        return Ok(Err(Fault::Cancelled));
    }
    watch.ours(|| database.execute_batch("COMMIT"))?;
    let mut all = changes::tables(&statement.connection, &before, &after);
    all.extend(rows_changed(&statement.connection, watch, changed));
    Ok(Ok(Done {
        rows,
        affected,
        changes: all,
    }))
}

fn collect(prepared: &mut rusqlite::Statement<'_>, rows: &mut Rows) -> Carried<Result<(), Fault>> {
    let width = prepared.column_count();
    let mut found = prepared.raw_query();
    // A statement that changes rows has changed all of them when it returns the first.
    while let Some(row) = found.next()? {
        let values: Vec<ValueRef<'_>> = (0..width).map(|at| row.get_ref(at)).collect::<Carried<_>>()?;
        match rows.push(|cells| Ok(values.into_iter().map(|value| cell(cells, value)).collect())) {
            Ok(flow) if flow.is_break() => break,
            Ok(_) => {}
            Err(fault) => return Ok(Err(fault)),
        }
    }
    Ok(Ok(()))
}

fn bind(
    prepared: &mut rusqlite::Statement<'_>,
    place: usize,
    parameter: &Parameter,
) -> Carried<Result<(), Fault>> {
    match parameter {
        Parameter::Null => prepared.raw_bind_parameter(place, rusqlite::types::Null)?,
        Parameter::Bool(value) => prepared.raw_bind_parameter(place, value)?,
        Parameter::Integer(value) => prepared.raw_bind_parameter(place, value)?,
        Parameter::Unsigned(value) => {
            return Ok(Err(Fault::Parameters(format!(
                "parameter {place} is {value}, and SQLite's integers end at {}; nothing was run",
                i64::MAX
            ))));
        }
        Parameter::Real(value) => prepared.raw_bind_parameter(place, value)?,
        Parameter::Text(value) => prepared.raw_bind_parameter(place, value)?,
        Parameter::Bytes(value) => prepared.raw_bind_parameter(place, value)?,
        Parameter::Json(value) => prepared.raw_bind_parameter(place, value.to_string())?,
    }
    Ok(Ok(()))
}

fn cell(cells: &mut Cells, value: ValueRef<'_>) -> Value {
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

/// The tables that there are; none are asked for where nothing is going to change.
fn tables(database: &Connection, writes: bool) -> Carried<Tables> {
    if !writes {
        return Ok(Tables::new());
    }
    let mut names = database.prepare(
        "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )?;
    let names = names.query_map([], |row| row.get(0))?;
    names.collect()
}

fn rows_changed(connection: &str, watch: &Watch, changed: u64) -> Vec<StateChange> {
    let (counted, written) = watch.changed_rows();
    let rest = changed.saturating_sub(counted.values().sum());
    // Rows of a table without row ids are not counted one by one, nor are those of a table that is emptied.
    let mut uncounted = written.into_iter().filter(|table| !counted.contains_key(table));
    let only = match (uncounted.next(), uncounted.next()) {
        (Some(table), None) => Some(table),
        _ => None,
    };
    let counted = counted
        .into_iter()
        .filter_map(|(table, rows)| changes::rows(connection, Some(table), rows));
    counted.chain(changes::rows(connection, only, rest)).collect()
}

/// What an error of SQLite means.
fn told(error: rusqlite::Error, watch: &Watch, stop: &AtomicBool, memory: &Memory) -> Fault {
    if stop.load(Ordering::Relaxed) {
        return Fault::Cancelled;
    }
    if let Some(fault) = watch.refused() {
        return fault;
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) if memory.was_too_much() => Fault::TooMuch(
            "the statement took more memory than it may and was ended, and its transaction is undone: narrow it with WHERE, sort and \
             group fewer rows",
        ),
        Some(ErrorCode::TooBig) => Fault::TooMuch(
            "the statement, a value or a row is longer than 1 MiB, which is the most that this tool works on in SQLite: narrow it, or \
             take parts of it",
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Fault::Database("the database is locked: somebody else writes to it; try again later".to_owned())
        }
        _ => Fault::Database(match error {
            rusqlite::Error::SqlInputError { msg, offset, .. } => {
                format!("{msg} (at byte {offset} of `sql`)")
            }
            error => error.to_string(),
        }),
    }
}
