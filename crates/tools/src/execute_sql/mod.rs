//! The `execute_sql` tool: runs one statement on a configured database, or describes its schema.
//!
//! The database itself enforces what a statement may do. The SQL text is checked only for its first keyword:
//! if a statement must not change anything but begins with a keyword such as `INSERT`, it is refused early.
//! No protection depends on this check. Queries run in a read-only transaction. So do all statements if the
//! connection or the agent is read-only. Each statement gets a new connection, so session settings do not
//! affect the next statement. Descriptions and errors never reveal to models the address of a database or the
//! user name of Dirigent's login. A statement can still query both (`SELECT current_user`).

mod changes;
mod connection;
mod error;
mod hex;
mod mysql;
mod parameter;
mod postgres;
mod rows;
mod schema;
mod secrets;
mod sqlite;
mod statement;

use std::collections::BTreeMap;
use std::sync::Arc;

use dirigent_core::tool::{Access, CallDemand, CallRule, Repeat, ToolCategory, ToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::connection::LimitedConnection;
use self::error::{ReadOnlyReason, SqlError};
use self::parameter::Parameter;
use self::statement::{Statement, change_keyword};
use crate::tool::ToolContext;
use crate::typed::{TypedTool, parameter_values, typed};

pub use self::connection::{Connection, ConnectionCheck, Connections, Database};

const DESCRIPTION: &str = "Runs one SQL statement on a database and returns its rows. `query` only reads, `change` may change \
    something, `schema` describes the tables. Pass values in `parameters`, never in the statement. Each statement is committed if it \
    succeeds. Large integers, decimals and dates are strings. Long results are cut, so use WHERE and LIMIT. Connections: ";

const READ_ONLY_DESCRIPTION: &str = "Runs one SQL statement that only reads on a database and returns its rows; `schema` describes the \
    tables. Pass values in `parameters`, never in the statement. Large integers, decimals and dates are strings. Long results are \
    cut, so use WHERE and LIMIT. Connections: ";

/// Why `change` is refused on a read-only connection.
const READ_ONLY_CONNECTION: &str = "the connection is read-only. Use `query` or another connection, or report what should be \
    changed";

/// The parameters of `execute_sql`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    #[serde(default)]
    operation: Operation,
    connection: String,
    /// For values: `?` (SQLite, MySQL) or `$1`, `$2` (PostgreSQL).
    sql: Option<String>,
    /// The values in order; {"hex": "00ff"} for bytes, other objects and lists are sent as JSON.
    #[serde(default)]
    parameters: Vec<Value>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Operation {
    #[default]
    Query,
    Change,
    Schema,
}

/// Creates the tool `execute_sql`, which runs one statement on one of `connections`, or describes its schema.
///
/// The output of `schema` is text: `TABLE orders (id integer NOT NULL, …, PRIMARY KEY (id))`, one entry per line in the form of DDL (for
/// SQLite, the DDL itself), below a note if not everything is shown. For a statement, the output is `{"columns": [{"name", "type"}], "rows": [[…]], "row_count": n}`, or `{"rows_affected": n}` if the statement returns no rows,
/// with `"truncated": true` and a `"note"` if not everything is shown. Values have the same form for all databases:
///
/// | value | JSON |
/// | --- | --- |
/// | NULL | `null` |
/// | boolean (PostgreSQL; others have integers) | `true`, `false` |
/// | integer | a number; a string if a double cannot represent it exactly (beyond ±2^53) |
/// | real | a number; `"NaN"`, `"Infinity"`, `"-Infinity"` |
/// | text | a string; truncated after 16 KiB, with a mark at its end |
/// | bytes | `{"hex": "00ff", "bytes": 2}`, of which the first 1,024 are shown |
/// | all others (decimals, dates and times, UUIDs, JSON, arrays, ranges …) | the database's own text |
///
/// The session's time zone is UTC. A failure has one of these codes:
///
/// | code | meaning |
/// | --- | --- |
/// | `bad_parameters` | several statements or none, or values that do not fit the placeholders |
/// | `not_found` | the connection is not configured, or its SQLite file does not exist |
/// | `access_denied` | the statement changes something, and the operation is `query`, or the connection or the agent is read-only |
/// | `refused` | a statement that is never allowed: `ATTACH`, extensions, most of SQLite's `PRAGMA`s; or a SQLite file whose journal names another file |
/// | `outside_workspace`, `protected`, `not_a_file`, `denied` and others of [`FileError`](crate::workspace::FileError) | the SQLite file's path cannot be used |
/// | `no_sandbox`, `denied` | SQLite's thread could not be confined or started |
/// | `database` | an error of the database |
/// | `too_big` | a single row is too large to show, or SQLite exceeded its limits: 1 MiB for a value, 512 MiB of memory in all |
/// | `timed_out` | the statement took longer than the connection's timeout, or never ran because it waited too long for other statements |
/// | `broke_down` | the tool failed internally |
/// | `cancelled` | the call was cancelled |
/// | `unreachable` | the server cannot be reached, or rejects Dirigent's login |
pub fn execute_sql(connections: &Connections) -> TypedTool {
    let described: Vec<String> = connections.iter().map(describe).collect();
    let described = described.join(", ");
    let description = format!("{DESCRIPTION}{described}.");
    let read_only = format!("{READ_ONLY_DESCRIPTION}{described}.");
    let connections: Arc<BTreeMap<String, LimitedConnection>> = Arc::new(
        connections
            .iter()
            .map(|(name, connection)| (name.clone(), LimitedConnection::new(connection)))
            .collect(),
    );
    let example = example(&connections);
    let read_only_connections: Vec<&str> = connections
        .iter()
        .filter(|(_, known)| known.connection.effective_access() < Access::ReadWrite)
        .map(|(name, _)| name.as_str())
        .collect();
    let refused = CallRule {
        calls: vec![
            parameter_values("operation", &["change"]),
            parameter_values("connection", &read_only_connections),
        ],
        demand: CallDemand::Refuses {
            reason: READ_ONLY_CONNECTION.to_owned(),
        },
    };
    let tool = typed("execute_sql", description, move |context, parameters| {
        execute(Arc::clone(&connections), context, parameters)
    });
    tool.rule(refused)
        .requires_where(
            ("operation", &["query", "change"]),
            "sql",
            "give one statement, or the operation `schema`",
        )
        .category(ToolCategory::Data)
        .access(Access::ReadOnly)
        .repeat(Repeat::SafeWhere {
            parameter: "operation".to_owned(),
            values: vec!["query".to_owned(), "schema".to_owned()],
            or_absent: true,
        })
        .changes_where("operation", &["change"])
        .requires_approval_where("operation", &["change"])
        .example(example.clone())
        .read_only(
            read_only,
            &["operation", "connection", "sql", "parameters"],
            &["query", "schema"],
            example,
        )
}

fn describe((name, connection): (&String, &Connection)) -> String {
    let access = connection.effective_access();
    format!("`{name}` ({}, {access})", connection.database.name())
}

fn example(connections: &BTreeMap<String, LimitedConnection>) -> Value {
    let (name, placeholder) = match connections.first_key_value() {
        Some((name, known)) => (name.as_str(), known.connection.database.placeholder()),
        None => ("app", "?"),
    };
    json!({
        "connection": name,
        "sql": format!("SELECT id FROM users WHERE name = {placeholder} LIMIT 20"),
        "parameters": ["Ada"],
    })
}

async fn execute(
    connections: Arc<BTreeMap<String, LimitedConnection>>,
    context: ToolContext,
    parameters: Parameters,
) -> ToolResult {
    let cancel = context.cancel.clone();
    let result = tokio::select! {
        biased;
        () = cancel.cancelled() => Err(SqlError::Cancelled),
        result = run(&connections, context, parameters) => result,
    };
    result.unwrap_or_else(SqlError::into_result)
}

async fn run(
    connections: &BTreeMap<String, LimitedConnection>,
    context: ToolContext,
    parameters: Parameters,
) -> Result<ToolResult, SqlError> {
    let Some(known) = connections.get(&parameters.connection) else {
        return Err(SqlError::UnknownConnection {
            name: parameters.connection,
            known: connections.keys().cloned().collect(),
        });
    };
    let connection = &known.connection;
    match parameters.operation {
        Operation::Query | Operation::Change => {
            let statement = statement(connection, &context, parameters)?;
            let result = known.run(&context.workspace, statement).await?;
            let output = result.rows.into_output(result.affected)?;
            Ok(ToolResult::success(output).with_changes(result.changes))
        }
        Operation::Schema => {
            let statement = schema::statement(connection, &parameters.connection);
            let result = known.run(&context.workspace, statement).await?;
            Ok(ToolResult::success(schema::output(connection, result.rows).into()).as_list())
        }
    }
}

fn statement(
    connection: &Connection,
    context: &ToolContext,
    parameters: Parameters,
) -> Result<Statement, SqlError> {
    let sql = parameters.sql.ok_or_else(|| {
        SqlError::Parameters("`sql` is missing: give one statement, or the operation `schema`".to_owned())
    })?;
    if sql.contains('\0') {
        return Err(SqlError::Parameters("`sql` contains a NUL character".to_owned()));
    }
    if sql.trim().is_empty() {
        return Err(SqlError::no_statement());
    }
    let read_only = match (connection.effective_access(), context.access) {
        (Access::ReadOnly | Access::Execute, _) => Some(ReadOnlyReason::Connection),
        (Access::ReadWrite, Access::ReadOnly | Access::Execute) => Some(ReadOnlyReason::Agent),
        (Access::ReadWrite, Access::ReadWrite) => match parameters.operation {
            Operation::Query | Operation::Schema => Some(ReadOnlyReason::Query),
            Operation::Change => None,
        },
    };
    if let (Some(reason), Some(keyword)) = (read_only, change_keyword(&sql)) {
        let detail = format!("`{keyword}` changes something");
        return Err(SqlError::ReadOnly { reason, detail });
    }
    let values = parameters.parameters.iter().enumerate();
    Ok(Statement {
        parameters: values
            .map(|(index, value)| Parameter::from_json(index + 1, value))
            .collect::<Result<_, _>>()?,
        connection: parameters.connection,
        sql,
        read_only,
        max_rows: connection.max_rows,
        timeout: connection.timeout,
    })
}
