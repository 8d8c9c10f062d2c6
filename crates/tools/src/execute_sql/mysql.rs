//! MySQL and MariaDB, by the protocol for prepared statements, which takes one statement and sends values as they are.

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
use super::fault::Fault;
use super::parameter::Parameter;
use super::rows::{Cells, Rows, integer, real, unsigned};
use super::secrets::Secrets;
use super::{Done, Statement};

/// How long ending a statement on the server may take.
const ENDING: Duration = Duration::from_secs(5);

// The limit is there as the session's own would hold for it, too.
const TABLES: &str = "SELECT IF(table_schema = DATABASE(), table_name, CONCAT(table_schema, '.', table_name)) \
    FROM information_schema.tables WHERE table_type = 'BASE TABLE' \
    AND table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys') LIMIT 18446744073709551615";

/// Refused by a transaction that only looks.
const READ_ONLY: u16 = 1792;
/// Ended by the server, as it took too long (MariaDB, MySQL, and whoever waits for a lock).
const TOO_LONG: [u16; 3] = [1969, 3024, 1205];

/// Runs it on a connection of its own. When the future is dropped, the server is told to end the statement.
pub(super) async fn run(url: &SecretString, statement: Statement) -> Result<Done, Fault> {
    let options: MySqlConnectOptions = url
        .expose_secret()
        .parse()
        .map_err(|error| Fault::connecting(&error))?;
    let options = options
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        .disable_statement_logging();
    let mut session = Session {
        connection: options
            .connect()
            .await
            .map_err(|error| Fault::connecting(&error))?,
        secrets: Secrets::of(url),
        statement,
    };
    let (id, is_mariadb) = session.who().await?;
    let mut ends = EndsWhenDropped {
        id: Some(id),
        options,
    };
    let done = session.carry_out(is_mariadb).await;
    if session.is_over(&done) {
        ends.id = None;
    }
    done.map(|(done, _)| done)
}

/// Tells the server to end what a connection does, which it does not notice by itself.
struct EndsWhenDropped {
    id: Option<u64>,
    options: MySqlConnectOptions,
}

impl Drop for EndsWhenDropped {
    fn drop(&mut self) {
        if let (Some(id), Ok(runtime)) = (self.id, Handle::try_current()) {
            let options = self.options.clone();
            runtime.spawn(tokio::time::timeout(ENDING, async move {
                let mut connection = options.connect().await?;
                connection.execute(AssertSqlSafe(format!("KILL {id}"))).await
            }));
        }
    }
}

/// Whether all of the result was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    All,
    Some,
}

struct Session {
    connection: MySqlConnection,
    secrets: Secrets,
    statement: Statement,
}

impl Session {
    /// The connection's number on the server, and whether that is MariaDB.
    async fn who(&mut self) -> Result<(u64, bool), Fault> {
        let row = sqlx::query("SELECT CONNECTION_ID(), VERSION()")
            .fetch_one(&mut self.connection)
            .await;
        let row = row.map_err(|error| self.fault(&error))?;
        let version: String = row.try_get_unchecked(1).map_err(|error| self.fault(&error))?;
        let id = bytes_of(&row, 0).unwrap_or_default();
        Ok((little_endian(&id), version.contains("MariaDB")))
    }

    /// Whether the server does nothing for it any more.
    fn is_over(&self, done: &Result<(Done, Read), Fault>) -> bool {
        match done {
            Ok((_, read)) => *read == Read::All,
            Err(Fault::Unreachable(_) | Fault::TooBig) => false,
            Err(_) => true,
        }
    }

    async fn carry_out(&mut self, is_mariadb: bool) -> Result<(Done, Read), Fault> {
        let looks_only = self.statement.looks_only.is_some();
        let before = if looks_only {
            Tables::new()
        } else {
            self.tables().await?
        };
        self.begin(is_mariadb).await?;
        let mut rows = self.prepare().await?;
        let affected = self.collect(&mut rows).await?;
        let Some(affected) = affected else {
            return Ok((
                Done {
                    rows,
                    affected: None,
                    changes: Vec::new(),
                },
                Read::Some,
            ));
        };
        let changes = if looks_only {
            Vec::new()
        } else {
            self.commit(&before, affected).await?
        };
        let affected = (!rows.has_columns()).then_some(affected);
        Ok((
            Done {
                rows,
                affected,
                changes,
            },
            Read::All,
        ))
    }

    /// Begins the transaction, which only looks where the statement may do no more.
    async fn begin(&mut self, is_mariadb: bool) -> Result<(), Fault> {
        let (limit, rows) = (self.statement.timeout, self.statement.max_rows.saturating_add(1));
        let seconds = limit.as_secs().max(1);
        let time = if is_mariadb {
            format!("max_statement_time = {}", limit.as_secs_f64())
        } else {
            format!("max_execution_time = {}", limit.as_millis())
        };
        self.ours(format!(
            "SET SESSION {time}, lock_wait_timeout = {seconds}, innodb_lock_wait_timeout = {seconds}, sql_select_limit = {rows}"
        ))
        .await?;
        let begin = match (self.statement.looks_only, is_mariadb) {
            (None, _) => "START TRANSACTION READ WRITE".to_owned(),
            (Some(_), false) => {
                self.ours("SET SESSION TRANSACTION READ ONLY".to_owned()).await?;
                "START TRANSACTION READ ONLY".to_owned()
            }
            // One statement of MariaDB can have several in it (BEGIN NOT ATOMIC), which would end any other transaction. This one ends by
            // its name alone, which nobody knows.
            (Some(_), true) => {
                self.ours("SET SESSION TRANSACTION READ ONLY".to_owned()).await?;
                let (one, other) = (RandomState::new().hash_one(1), RandomState::new().hash_one(2));
                format!("XA START 'dirigent-{one:016x}{other:016x}'")
            }
        };
        self.ours(begin).await
    }

    /// Has it prepared, which the server does for one statement only.
    async fn prepare(&mut self) -> Result<Rows, Fault> {
        let sql = AssertSqlSafe(self.statement.sql.clone()).into_sql_str();
        let prepared = match (&mut self.connection).prepare(sql).await {
            Ok(prepared) => prepared,
            Err(error) => return Err(self.fault(&error)),
        };
        let placeholders = match prepared.parameters() {
            Some(Either::Right(count)) => count,
            Some(Either::Left(_)) | None => 0,
        };
        let given = self.statement.parameters.len();
        if placeholders != given {
            return Err(Fault::count(placeholders, given));
        }
        let mut rows = Rows::new(self.statement.max_rows);
        set_columns(&mut rows, prepared.columns());
        Ok(rows)
    }

    /// How many rows the database says that it changed; none where the rest is left.
    async fn collect(&mut self, rows: &mut Rows) -> Result<Option<u64>, Fault> {
        let looks_only = self.statement.looks_only.is_some();
        let arguments = arguments(&self.statement.parameters)?;
        let query = sqlx::query_with(AssertSqlSafe(self.statement.sql.clone()), arguments);
        let mut found = (&mut self.connection).fetch_many(query);
        let (mut affected, mut results, mut first) = (0, 0, true);
        loop {
            let next = match found.try_next().await {
                Ok(next) => next,
                Err(error) => {
                    drop(found);
                    return Err(self.fault(&error));
                }
            };
            match next {
                None => return Ok(Some(affected)),
                Some(Either::Left(done)) => {
                    affected += done.rows_affected();
                    results += 1;
                }
                Some(Either::Right(_)) if results > 0 => {
                    rows.note("further results of the procedure are left out")
                }
                Some(Either::Right(row)) => {
                    if std::mem::take(&mut first) {
                        set_columns(rows, row.columns());
                    }
                    let full = rows.push(|cells| cells_of(cells, &row))?.is_break();
                    // What the statement changes is kept only where it runs to its end.
                    if full && looks_only {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// What was changed, once it is there to stay.
    async fn commit(&mut self, before: &Tables, affected: u64) -> Result<Vec<StateChange>, Fault> {
        self.ours("COMMIT".to_owned()).await?;
        let name = self.statement.connection.clone();
        let mut all = changes::tables(&name, before, &self.tables().await?);
        all.extend(changes::rows(&name, None, affected));
        Ok(all)
    }

    async fn tables(&mut self) -> Result<Tables, Fault> {
        let rows = sqlx::query(TABLES).fetch_all(&mut self.connection).await;
        let rows = rows.map_err(|error| self.fault(&error))?;
        let name = |row: &MySqlRow| Some(String::from_utf8_lossy(&bytes_of(row, 0)?).into_owned());
        Ok(rows.iter().filter_map(name).collect())
    }

    async fn ours(&mut self, sql: String) -> Result<(), Fault> {
        match sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut self.connection)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) => Err(self.fault(&error)),
        }
    }

    fn fault(&self, error: &sqlx::Error) -> Fault {
        let sqlx::Error::Database(said) = error else {
            return Fault::lost(error, &self.secrets);
        };
        let number = said
            .try_downcast_ref::<MySqlDatabaseError>()
            .map(MySqlDatabaseError::number);
        let text = self.secrets.left_out(said.message());
        match (number, self.statement.looks_only) {
            (Some(READ_ONLY), Some(who)) => Fault::OnlyLooks { who, what: text },
            (Some(number), _) if TOO_LONG.contains(&number) => Fault::TimedOut {
                limit: self.statement.timeout,
            },
            _ => Fault::Database(text),
        }
    }
}

fn arguments(parameters: &[Parameter]) -> Result<MySqlArguments, Fault> {
    let mut arguments = MySqlArguments::default();
    for (place, parameter) in parameters.iter().enumerate() {
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
        added.map_err(|_| Fault::Parameters(format!("parameter {} cannot be sent", place + 1)))?;
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

fn cells_of(cells: &mut Cells, row: &MySqlRow) -> Result<Vec<Value>, Fault> {
    (0..row.len())
        .map(|at| match bytes_of(row, at) {
            None => Ok(Value::Null),
            Some(bytes) => cell(cells, row, at, &bytes)
                .ok_or_else(|| Fault::Database("the server sent a row that cannot be read".to_owned())),
        })
        .collect()
}

/// A value as it was sent; none for NULL.
fn bytes_of(row: &MySqlRow, at: usize) -> Option<Vec<u8>> {
    let value = row.try_get_raw(at).ok()?;
    <Vec<u8> as Decode<MySql>>::decode(value).ok()
}

fn cell(cells: &mut Cells, row: &MySqlRow, at: usize, bytes: &[u8]) -> Option<Value> {
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
        // A text whose letters are compared as bytes is called binary as well.
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

/// With the digits that the float has, not those of the double nearest to it.
fn shortest(float: f32) -> Value {
    float
        .to_string()
        .parse()
        .map_or_else(|_| real(float.into()), real)
}

/// `2026-11-22 08:30:00.25`; the first byte says how many follow.
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

/// `-27:30:00`; the first byte says how many follow.
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

/// Of a second; nothing for none.
fn fraction(microseconds: u32) -> String {
    if microseconds == 0 {
        return String::new();
    }
    format!(".{microseconds:06}").trim_end_matches('0').to_owned()
}
