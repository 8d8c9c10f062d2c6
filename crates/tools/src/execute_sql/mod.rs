//! The `execute_sql` tool: one statement for a database that the configuration names.
//!
//! What a statement may do is for the database to say, never for the words of the statement: where a connection or the agent may only
//! look, it runs in a read-only transaction. Each statement has a connection of its own, so that nothing that one sets holds for the
//! next. No description and no error tells models where a database is, nor who Dirigent is there; a statement that asks the database
//! (`SELECT current_user`) is told.

mod changes;
mod error;
mod mysql;
mod parameter;
mod postgres;
mod rows;
mod secrets;
mod sqlite;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dirigent_core::tool::{Access, StateChange, ToolResult};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use self::error::{ReadOnlyReason, SqlError};
use self::parameter::Parameter;
use self::rows::Rows;
use crate::tool::ToolContext;
use crate::typed::{TypedTool, typed};

/// The databases that agents can use, by the names under which they know them.
pub type Connections = BTreeMap<String, Connection>;

/// A database that agents can use.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Which one.
    pub database: Database,
    /// What may be done with it: [`Access::ReadOnly`] to look only, [`Access::ReadWrite`] to change it.
    pub access: Access,
    /// The most rows that one call returns.
    pub max_rows: usize,
    /// How long one statement may take, connecting included.
    pub timeout: Duration,
}

impl Connection {
    /// Tries it by a statement that only looks, as an agent's would be run; a SQLite file is looked for in `workspace`.
    ///
    /// # Errors
    /// Why it cannot be used, in words for people and without a server's address.
    pub async fn check(&self, workspace: &Path) -> Result<ConnectionCheck, String> {
        let statement = Statement {
            connection: String::new(),
            sql: "SELECT 1".to_owned(),
            parameters: Vec::new(),
            read_only: Some(ReadOnlyReason::Agent),
            max_rows: 1,
            timeout: self.timeout,
        };
        let permits = Arc::new(Semaphore::new(1));
        match (self.run(workspace, statement, &permits).await, self.access) {
            (Ok(_), _) => Ok(ConnectionCheck::Connected),
            (Err(SqlError::FileNotFound { .. }), Access::ReadWrite) => Ok(ConnectionCheck::FileNotCreated),
            (Err(SqlError::FileNotFound { .. }), Access::ReadOnly | Access::Execute) => {
                Err("its file does not exist in this folder".to_owned())
            }
            (Err(SqlError::Unreachable(why)), _) => Err(why),
            (Err(SqlError::TimedOut { limit }), _) => {
                Err(format!("it does not answer within {} s", limit.as_secs_f64()))
            }
            (Err(error), _) => Err(error.to_string()),
        }
    }

    /// Runs a statement once there is a place for it.
    async fn run(
        &self,
        workspace: &Path,
        statement: Statement,
        permits: &Arc<Semaphore>,
    ) -> Result<StatementResult, SqlError> {
        let limit = self.timeout;
        let end = Instant::now() + limit;
        let permit = timeout_at(end, Arc::clone(permits).acquire_owned()).await;
        // It is never closed, so that there is no other reason.
        let Ok(Ok(permit)) = permit else {
            return Err(SqlError::QueueTimedOut { limit });
        };
        let work = async {
            match &self.database {
                Database::Sqlite { path } => sqlite::run(path, workspace.to_owned(), statement, permit).await,
                Database::Postgres { url } => postgres::run(url, statement).await,
                Database::Mysql { url } => mysql::run(url, statement).await,
            }
        };
        // The work is dropped where it takes too long, which ends the statement.
        match timeout_at(end, work).await {
            Ok(done) => done,
            Err(_) => Err(SqlError::TimedOut { limit }),
        }
    }
}

/// What came of trying a connection that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionCheck {
    /// It answers.
    Connected,
    /// Its SQLite file is not there yet: the first statement that writes makes it.
    FileNotCreated,
}

/// Where a database is.
#[derive(Clone, Debug)]
pub enum Database {
    /// A SQLite file, relative to the workspace.
    Sqlite {
        /// Which.
        path: PathBuf,
    },
    /// A PostgreSQL server.
    Postgres {
        /// `postgres://user:password@host:port/database`.
        url: SecretString,
    },
    /// A MySQL or MariaDB server.
    Mysql {
        /// `mysql://user:password@host:port/database`.
        url: SecretString,
    },
}

impl Database {
    /// What people call it.
    fn name(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } => "SQLite",
            Database::Postgres { .. } => "PostgreSQL",
            Database::Mysql { .. } => "MySQL or MariaDB",
        }
    }

    /// How its statements name their parameters.
    fn placeholders(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } | Database::Mysql { .. } => "?",
            Database::Postgres { .. } => "$1",
        }
    }
}

/// How many statements a connection of the configuration runs at once; further ones wait.
const MAX_CONCURRENT_STATEMENTS: usize = 4;

const DESCRIPTION: &str = "Runs one SQL statement on a database and returns its rows. `parameters` are the values of its \
    placeholders, in order: never write values into the statement. The statement has a transaction of its own, which is kept where \
    the statement succeeds. Rows are lists in the order of `columns`; integers too long for JSON, decimals, dates and the like \
    are strings, bytes are {\"hex\": …}. Of many rows only the first are returned: use WHERE and LIMIT. Databases: ";

/// The parameters of `execute_sql`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// The database's name.
    connection: String,
    /// One statement, with `?` (SQLite, MySQL) or `$1`, `$2` (PostgreSQL) in place of values.
    sql: String,
    /// The values in order: null, booleans, numbers, strings, {"hex": "00ff"} for bytes; other lists and objects are sent as JSON.
    #[serde(default)]
    parameters: Vec<Value>,
}

/// The tool `execute_sql`: one statement on one of these databases.
///
/// Its output is `{"columns": [{"name", "type"}], "rows": [[…]], "row_count": n}`; `"rows_affected"` where the statement returns no rows,
/// and `"truncated": true` with a `"note"` where there is more than is shown. Values, whatever the database:
///
/// | value | JSON |
/// | --- | --- |
/// | NULL | `null` |
/// | boolean (PostgreSQL; others have integers) | `true`, `false` |
/// | integer | a number; a string where a double would not hold it exactly (beyond ±2^53) |
/// | real | a number; `"NaN"`, `"Infinity"`, `"-Infinity"` |
/// | text | a string; past 16 KiB it is cut, and says so at its end |
/// | bytes | `{"hex": "00ff", "bytes": 2}`, of which the first 1,024 are shown |
/// | all others (decimals, dates and times, UUIDs, JSON, arrays, ranges …) | the database's own text |
///
/// Times are in UTC where the database converts them. A failure has one of these codes:
///
/// | code | what was wrong |
/// | --- | --- |
/// | `bad_parameters` | several statements or none, or values that do not fit the placeholders |
/// | `not_found` | no connection of that name, or its SQLite file does not exist |
/// | `access_denied` | the statement changes something, and the connection or the agent may only look |
/// | `refused` | what this tool never does: `ATTACH`, extensions, most of SQLite's `PRAGMA`s; a SQLite file whose journal names another file |
/// | `outside_workspace`, `protected`, `not_a_file`, `denied` and others of [`FileError`](crate::workspace::FileError) | the SQLite file's path |
/// | `no_sandbox`, `denied` | SQLite's thread could not be confined, or not be started |
/// | `database` | what the database said |
/// | `too_big` | one row alone is too big to show; or what SQLite works on is: a value of more than 1 MiB, more than 512 MiB in all |
/// | `timed_out` | it took longer than the connection's timeout, or waited for others that long and never ran |
/// | `broke_down` | the tool's own code did |
/// | `cancelled` | nobody waits for the result any more |
/// | `unreachable` | the server cannot be reached, or does not let Dirigent in |
pub fn execute_sql(connections: &Connections) -> TypedTool {
    let described: Vec<String> = connections.iter().map(described).collect();
    let description = format!("{DESCRIPTION}{}.", described.join(", "));
    let connections: Arc<BTreeMap<String, LimitedConnection>> = Arc::new(
        connections
            .iter()
            .map(|(name, connection)| (name.clone(), LimitedConnection::new(connection)))
            .collect(),
    );
    let example = example(&connections);
    typed("execute_sql", description, move |context, parameters| {
        execute(Arc::clone(&connections), context, parameters)
    })
    .access(Access::ReadOnly)
    .example(example)
}

fn described((name, connection): (&String, &Connection)) -> String {
    let access = access(connection);
    format!("`{name}` ({}, {access})", connection.database.name())
}

/// Running commands is nothing that a database knows.
fn access(connection: &Connection) -> Access {
    match connection.access {
        Access::ReadOnly | Access::Execute => Access::ReadOnly,
        Access::ReadWrite => Access::ReadWrite,
    }
}

fn example(connections: &BTreeMap<String, LimitedConnection>) -> Value {
    let (name, placeholder) = match connections.first_key_value() {
        Some((name, known)) => (name.as_str(), known.connection.database.placeholders()),
        None => ("app", "?"),
    };
    json!({
        "connection": name,
        "sql": format!("SELECT id, name FROM users WHERE name = {placeholder} ORDER BY id LIMIT 20"),
        "parameters": ["Ada"],
    })
}

/// A connection of the configuration, and how many more statements it may run now.
struct LimitedConnection {
    connection: Connection,
    permits: Arc<Semaphore>,
}

impl LimitedConnection {
    fn new(connection: &Connection) -> Self {
        LimitedConnection {
            connection: connection.clone(),
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT_STATEMENTS)),
        }
    }
}

/// A statement that is to be run.
struct Statement {
    /// The name of its connection.
    connection: String,
    sql: String,
    parameters: Vec<Parameter>,
    /// Who may only look, where anybody may.
    read_only: Option<ReadOnlyReason>,
    max_rows: usize,
    timeout: Duration,
}

/// What came of a statement.
struct StatementResult {
    rows: Rows,
    /// How many rows it changed, where the database says so.
    affected: Option<u64>,
    changes: Vec<StateChange>,
}

async fn execute(
    connections: Arc<BTreeMap<String, LimitedConnection>>,
    context: ToolContext,
    parameters: Parameters,
) -> ToolResult {
    let cancel = context.cancel.clone();
    let done = tokio::select! {
        biased;
        () = cancel.cancelled() => Err(SqlError::Cancelled),
        done = run(&connections, context, parameters) => done,
    };
    match done.and_then(|done| Ok((done.rows.into_output(done.affected)?, done.changes))) {
        Ok((output, changes)) => ToolResult::success(output).with_changes(changes),
        Err(error) => error.into_result(),
    }
}

async fn run(
    connections: &BTreeMap<String, LimitedConnection>,
    context: ToolContext,
    parameters: Parameters,
) -> Result<StatementResult, SqlError> {
    let Some(known) = connections.get(&parameters.connection) else {
        return Err(SqlError::UnknownConnection {
            name: parameters.connection,
            known: connections.keys().cloned().collect(),
        });
    };
    let statement = statement(&known.connection, &context, parameters)?;
    known
        .connection
        .run(&context.workspace, statement, &known.permits)
        .await
}

fn statement(
    connection: &Connection,
    context: &ToolContext,
    parameters: Parameters,
) -> Result<Statement, SqlError> {
    if parameters.sql.contains('\0') {
        return Err(SqlError::Parameters("`sql` has a NUL character in it".to_owned()));
    }
    if parameters.sql.trim().is_empty() {
        return Err(SqlError::no_statement());
    }
    let read_only = match (access(connection), context.access) {
        (Access::ReadOnly | Access::Execute, _) => Some(ReadOnlyReason::Connection),
        (Access::ReadWrite, Access::ReadOnly | Access::Execute) => Some(ReadOnlyReason::Agent),
        (Access::ReadWrite, Access::ReadWrite) => None,
    };
    let values = parameters.parameters.iter().enumerate();
    Ok(Statement {
        parameters: values
            .map(|(index, value)| Parameter::from_json(index + 1, value))
            .collect::<Result<_, _>>()?,
        connection: parameters.connection,
        sql: parameters.sql,
        read_only,
        max_rows: connection.max_rows,
        timeout: connection.timeout,
    })
}
