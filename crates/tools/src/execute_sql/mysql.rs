//! MySQL and MariaDB. Statements use the protocol for prepared statements, which accepts a single statement only and transfers values
//! unchanged.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use dirigent_core::tool::StateChange;
use futures::TryStreamExt;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlRow};
use sqlx::{
    Arguments, AssertSqlSafe, Column, ConnectOptions, Decode, Either, Executor, MySql, Row, SqlSafeStr,
    Statement as _, Type, TypeInfo, ValueRef,
};
use tokio::runtime::Handle;

use super::changes::{self, Tables};
use super::error::SqlError;
use super::parameter::Parameter;
use super::rows::{CellEncoder, Rows, integer, real, unsigned};
use super::secrets::Secrets;
use super::statement::{Statement, StatementResult};

/// Time limit for killing a statement on the server.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

// The explicit LIMIT is needed because otherwise the session's `sql_select_limit` would apply.
const TABLES: &str = "SELECT IF(table_schema = DATABASE(), table_name, CONCAT(table_schema, '.', table_name)) \
    FROM information_schema.tables WHERE table_type = 'BASE TABLE' \
    AND table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys') LIMIT 18446744073709551615";

/// Error number for a statement that would write in a read-only transaction.
const READ_ONLY_ERROR: u16 = 1792;
/// Error numbers for timeouts: MariaDB's statement timeout, MySQL's statement timeout, and the lock wait
/// timeout.
const TIMEOUT_ERRORS: [u16; 3] = [1969, 3024, 1205];

/// Runs a statement on a new connection. If the future is dropped, the statement is killed on the server.
pub(super) async fn run(url: &SecretString, statement: Statement) -> Result<StatementResult, SqlError> {
    let options: MySqlConnectOptions = url
        .expose_secret()
        .parse()
        .map_err(|error| SqlError::from_connect_error(&error))?;
    let options = options
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        .disable_statement_logging();
    let mut session = Session {
        connection: options
            .connect()
            .await
            .map_err(|error| SqlError::from_connect_error(&error))?,
        secrets: Secrets::from_url(url),
        statement,
    };
    let (id, is_mariadb) = session.server_info().await?;
    let mut kill_on_drop = KillOnDrop {
        id: Some(id),
        options,
    };
    let done = session.execute(is_mariadb).await;
    if session.is_finished(&done) {
        kill_on_drop.id = None;
    }
    done.map(|(done, _)| done)
}

/// Kills a connection on the server when dropped, unless its statement has finished. Without this, the server would not notice that the
/// client is gone, and would continue to execute the statement.
struct KillOnDrop {
    /// The connection's id on the server. `None` once the statement has finished.
    id: Option<u64>,
    options: MySqlConnectOptions,
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let (Some(id), Ok(runtime)) = (self.id, Handle::try_current()) {
            let options = self.options.clone();
            runtime.spawn(tokio::time::timeout(KILL_TIMEOUT, async move {
                let mut connection = options.connect().await?;
                connection.execute(AssertSqlSafe(format!("KILL {id}"))).await
            }));
        }
    }
}

/// Whether the whole result was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadState {
    Complete,
    Partial,
}

struct Session {
    connection: MySqlConnection,
    secrets: Secrets,
    statement: Statement,
}

impl Session {
    /// Returns the connection's id on the server, and whether the server is MariaDB.
    async fn server_info(&mut self) -> Result<(u64, bool), SqlError> {
        let row = sqlx::query("SELECT CONNECTION_ID(), VERSION()")
            .fetch_one(&mut self.connection)
            .await;
        let row = row.map_err(|error| self.map_error(&error))?;
        let version: String = row.try_get_unchecked(1).map_err(|error| self.map_error(&error))?;
        let id = raw_bytes(&row, 0).unwrap_or_default();
        Ok((little_endian(&id), version.contains("MariaDB")))
    }

    /// Returns true if the server has finished the statement.
    fn is_finished(&self, done: &Result<(StatementResult, ReadState), SqlError>) -> bool {
        match done {
            Ok((_, read)) => *read == ReadState::Complete,
            Err(SqlError::Unreachable(_) | SqlError::RowTooBig) => false,
            Err(_) => true,
        }
    }

    async fn execute(&mut self, is_mariadb: bool) -> Result<(StatementResult, ReadState), SqlError> {
        let read_only = self.statement.read_only.is_some();
        let before = if read_only {
            Tables::new()
        } else {
            self.tables().await?
        };
        self.begin(is_mariadb).await?;
        let mut rows = self.prepare().await?;
        let affected = self.collect(&mut rows).await?;
        let Some(affected) = affected else {
            return Ok((
                StatementResult {
                    rows,
                    affected: None,
                    changes: Vec::new(),
                },
                ReadState::Partial,
            ));
        };
        let changes = if read_only {
            Vec::new()
        } else {
            self.commit(&before, affected).await?
        };
        let affected = (!rows.has_columns()).then_some(affected);
        Ok((
            StatementResult {
                rows,
                affected,
                changes,
            },
            ReadState::Complete,
        ))
    }

    /// Begins a transaction, read-only if the statement must not change anything.
    async fn begin(&mut self, is_mariadb: bool) -> Result<(), SqlError> {
        let (limit, rows) = (self.statement.timeout, self.statement.max_rows.saturating_add(1));
        let seconds = limit.as_secs().max(1);
        let time = if is_mariadb {
            format!("max_statement_time = {}", limit.as_secs_f64())
        } else {
            format!("max_execution_time = {}", limit.as_millis())
        };
        self.execute_internal(format!(
            "SET SESSION {time}, lock_wait_timeout = {seconds}, innodb_lock_wait_timeout = {seconds}, sql_select_limit = {rows}"
        ))
        .await?;
        let begin = match (self.statement.read_only, is_mariadb) {
            (None, _) => "START TRANSACTION READ WRITE".to_owned(),
            (Some(_), false) => {
                self.execute_internal("SET SESSION TRANSACTION READ ONLY".to_owned())
                    .await?;
                "START TRANSACTION READ ONLY".to_owned()
            }
            // A MariaDB statement can contain several other statements (BEGIN NOT ATOMIC), which could end an
            // ordinary transaction. An XA transaction can be ended only by its name, which is random.
            (Some(_), true) => {
                self.execute_internal("SET SESSION TRANSACTION READ ONLY".to_owned())
                    .await?;
                let (one, other) = (RandomState::new().hash_one(1), RandomState::new().hash_one(2));
                format!("XA START 'dirigent-{one:016x}{other:016x}'")
            }
        };
        self.execute_internal(begin).await
    }

    /// Prepares the statement; the server rejects several statements. Returns a result with the statement's columns and no rows.
    async fn prepare(&mut self) -> Result<Rows, SqlError> {
        let sql = AssertSqlSafe(self.statement.sql.clone()).into_sql_str();
        let prepared = match (&mut self.connection).prepare(sql).await {
            Ok(prepared) => prepared,
            Err(error) => return Err(self.map_error(&error)),
        };
        let placeholders = match prepared.parameters() {
            Some(Either::Right(count)) => count,
            Some(Either::Left(_)) | None => 0,
        };
        let given = self.statement.parameters.len();
        if placeholders != given {
            return Err(SqlError::placeholder_count(placeholders, given));
        }
        let mut rows = Rows::new(self.statement.max_rows);
        set_columns(&mut rows, prepared.columns());
        Ok(rows)
    }

    /// Reads the rows. Returns the number of changed rows, or `None` if the rest of the result was not read.
    async fn collect(&mut self, rows: &mut Rows) -> Result<Option<u64>, SqlError> {
        let read_only = self.statement.read_only.is_some();
        let arguments = arguments(&self.statement.parameters)?;
        let query = sqlx::query_with(AssertSqlSafe(self.statement.sql.clone()), arguments);
        let mut row_stream = (&mut self.connection).fetch_many(query);
        let (mut affected, mut results, mut first) = (0, 0, true);
        loop {
            let next = match row_stream.try_next().await {
                Ok(next) => next,
                Err(error) => {
                    drop(row_stream);
                    return Err(self.map_error(&error));
                }
            };
            match next {
                None => return Ok(Some(affected)),
                Some(Either::Left(done)) => {
                    affected += done.rows_affected();
                    results += 1;
                }
                Some(Either::Right(_)) if results > 0 => {
                    rows.note("further results of the procedure were left out")
                }
                Some(Either::Right(row)) => {
                    if std::mem::take(&mut first) {
                        set_columns(rows, row.columns());
                    }
                    let full = rows.push(|cells| encode_row(cells, &row))?.is_break();
                    // If the statement may write, the result is read to its end, because the changes can be
                    // committed only after that.
                    if full && read_only {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Commits, and returns the changes.
    async fn commit(&mut self, before: &Tables, affected: u64) -> Result<Vec<StateChange>, SqlError> {
        self.execute_internal("COMMIT".to_owned()).await?;
        let name = self.statement.connection.clone();
        let mut all = changes::table_changes(&name, before, &self.tables().await?);
        all.extend(changes::row_changes(&name, None, affected));
        Ok(all)
    }

    async fn tables(&mut self) -> Result<Tables, SqlError> {
        let rows = sqlx::query(TABLES).fetch_all(&mut self.connection).await;
        let rows = rows.map_err(|error| self.map_error(&error))?;
        let name = |row: &MySqlRow| Some(String::from_utf8_lossy(&raw_bytes(row, 0)?).into_owned());
        Ok(rows.iter().filter_map(name).collect())
    }

    async fn execute_internal(&mut self, sql: String) -> Result<(), SqlError> {
        match sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut self.connection)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) => Err(self.map_error(&error)),
        }
    }

    fn map_error(&self, error: &sqlx::Error) -> SqlError {
        let sqlx::Error::Database(database_error) = error else {
            return SqlError::from_driver_error(error, &self.secrets);
        };
        let number = database_error
            .try_downcast_ref::<MySqlDatabaseError>()
            .map(MySqlDatabaseError::number);
        let text = self.secrets.redact(database_error.message());
        match (number, self.statement.read_only) {
            (Some(READ_ONLY_ERROR), Some(reason)) => SqlError::ReadOnly { reason, detail: text },
            (Some(number), _) if TIMEOUT_ERRORS.contains(&number) => SqlError::TimedOut {
                limit: self.statement.timeout,
            },
            _ => SqlError::Database(text),
        }
    }
}

fn arguments(parameters: &[Parameter]) -> Result<MySqlArguments, SqlError> {
    let mut arguments = MySqlArguments::default();
    for (index, parameter) in parameters.iter().enumerate() {
        let added = match parameter {
            Parameter::Null => arguments.add(None::<i64>),
            Parameter::Bool(value) => arguments.add(value),
            Parameter::Integer(value) => arguments.add(value),
            Parameter::Unsigned(value) => arguments.add(value),
            Parameter::Real(value) => arguments.add(value),
            Parameter::Text(value) => arguments.add(value),
            Parameter::Bytes(value) => arguments.add(value),
            Parameter::Json(value) => arguments.add(value.to_string()),
        };
        added.map_err(|_| SqlError::Parameters(format!("parameter {} cannot be sent", index + 1)))?;
    }
    Ok(arguments)
}

fn set_columns(rows: &mut Rows, columns: &[sqlx::mysql::MySqlColumn]) {
    let columns: Vec<(&str, String)> = columns
        .iter()
        .map(|column| (column.name(), column.type_info().name().to_ascii_lowercase()))
        .collect();
    rows.set_columns(columns.iter().map(|(name, kind)| (*name, Some(kind.as_str()))));
}

fn encode_row(cells: &mut CellEncoder, row: &MySqlRow) -> Result<Vec<Value>, SqlError> {
    (0..row.len())
        .map(|at| match raw_bytes(row, at) {
            None => Ok(Value::Null),
            Some(bytes) => encode_cell(cells, row, at, &bytes)
                .ok_or_else(|| SqlError::Database("the server sent a row that cannot be read".to_owned())),
        })
        .collect()
}

/// Returns a value's bytes as sent by the server. `None` for NULL.
fn raw_bytes(row: &MySqlRow, at: usize) -> Option<Vec<u8>> {
    let value = row.try_get_raw(at).ok()?;
    <Vec<u8> as Decode<MySql>>::decode(value).ok()
}

fn encode_cell(cells: &mut CellEncoder, row: &MySqlRow, at: usize, bytes: &[u8]) -> Option<Value> {
    let value = row.try_get_raw(at).ok()?;
    let kind = value.type_info();
    Some(match kind.name() {
        "BOOLEAN" | "TINYINT" => integer(i8::from_le_bytes(bytes.try_into().ok()?).into()),
        "SMALLINT" => integer(i16::from_le_bytes(bytes.try_into().ok()?).into()),
        "INT" | "MEDIUMINT" => integer(i32::from_le_bytes(bytes.try_into().ok()?).into()),
        "BIGINT" => integer(i64::from_le_bytes(bytes.try_into().ok()?)),
        "TINYINT UNSIGNED" | "SMALLINT UNSIGNED" | "INT UNSIGNED" | "MEDIUMINT UNSIGNED"
        | "BIGINT UNSIGNED" | "YEAR" => unsigned(little_endian(bytes)),
        "BIT" => unsigned(bytes.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte))),
        "FLOAT" => shortest(f32::from_le_bytes(bytes.try_into().ok()?)),
        "DOUBLE" => real(f64::from_le_bytes(bytes.try_into().ok()?)),
        "DATE" | "DATETIME" | "TIMESTAMP" => Value::from(date(kind.name(), bytes)?),
        "TIME" => Value::from(time(bytes)?),
        "DECIMAL" | "JSON" | "SET" | "ENUM" => cells.text(std::str::from_utf8(bytes).ok()?),
        // Text with a binary collation also has a binary type name.
        _ => match std::str::from_utf8(bytes) {
            Ok(text) if <str as Type<MySql>>::compatible(&kind) => cells.text(text),
            Ok(_) | Err(_) => cells.bytes(bytes),
        },
    })
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Converts a float by its shortest decimal form, so that 0.1 becomes 0.1 and not 0.10000000149011612.
fn shortest(float: f32) -> Value {
    float
        .to_string()
        .parse()
        .map_or_else(|_| real(float.into()), real)
}

/// Formats a date or time stamp: `2026-11-22 08:30:00.25`. The first byte is the number of bytes that follow.
fn date(kind: &str, bytes: &[u8]) -> Option<String> {
    let (&length, bytes) = bytes.split_first()?;
    let mut fields = [0; 11];
    fields
        .get_mut(..usize::from(length))?
        .copy_from_slice(bytes.get(..usize::from(length))?);
    let [y0, y1, month, day, hour, minute, second, f0, f1, f2, f3] = fields;
    let day = format!("{:04}-{month:02}-{day:02}", u16::from_le_bytes([y0, y1]));
    if kind == "DATE" {
        return Some(day);
    }
    let fraction = fraction(u32::from_le_bytes([f0, f1, f2, f3]));
    Some(format!("{day} {hour:02}:{minute:02}:{second:02}{fraction}"))
}

/// Formats a time: `-27:30:00`. The first byte is the number of bytes that follow.
fn time(bytes: &[u8]) -> Option<String> {
    let (&length, bytes) = bytes.split_first()?;
    let mut fields = [0; 12];
    fields
        .get_mut(..usize::from(length))?
        .copy_from_slice(bytes.get(..usize::from(length))?);
    let [negative, d0, d1, d2, d3, hour, minute, second, f0, f1, f2, f3] = fields;
    let hours = u64::from(u32::from_le_bytes([d0, d1, d2, d3])) * 24 + u64::from(hour);
    let sign = if negative == 1 { "-" } else { "" };
    let fraction = fraction(u32::from_le_bytes([f0, f1, f2, f3]));
    Some(format!("{sign}{hours:02}:{minute:02}:{second:02}{fraction}"))
}

/// Formats the fraction of a second, with the decimal point. Empty for 0.
fn fraction(microseconds: u32) -> String {
    if microseconds == 0 {
        return String::new();
    }
    format!(".{microseconds:06}").trim_end_matches('0').to_owned()
}
