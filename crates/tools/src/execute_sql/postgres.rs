//! PostgreSQL. Values are read as text, in the server's own format.
//!
//! The statement is first parsed by the extended protocol, which accepts a single statement only. It then
//! runs in the simple protocol, because only in this protocol does the driver receive values as text.
//! Parameters are passed with `PREPARE` and `EXECUTE`, as literals that PostgreSQL converts to the types of
//! the placeholders.

use futures::TryStreamExt;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sqlx::postgres::{
    PgConnectOptions, PgConnection, PgDatabaseError, PgRow, PgTypeInfo, PgTypeKind, PgValueRef,
};
use sqlx::{
    AssertSqlSafe, Column, ConnectOptions, Either, Executor, Row, Statement as _, TypeInfo, ValueRef,
};
use tracing::subscriber::NoSubscriber;

use super::changes::{self, Tables};
use super::error::SqlError;
use super::hex::to_hex;
use super::parameter::Parameter;
use super::rows::{CellEncoder, Rows, integer, real};
use super::secrets::Secrets;
use super::statement::{Statement, StatementResult};

const TABLES: &str = "SELECT CASE n.nspname WHEN 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'";
const CHANGED_ROWS: &str = "SELECT CASE schemaname WHEN 'public' THEN relname ELSE schemaname || '.' || relname END, \
    (n_tup_ins + n_tup_upd + n_tup_del)::text FROM pg_catalog.pg_stat_xact_user_tables \
    WHERE n_tup_ins + n_tup_upd + n_tup_del > 0 ORDER BY 1";

/// What to do with the rows beyond the output's limits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RemainingRows {
    /// Leave the remaining rows unread, and roll the transaction back.
    Discard,
    /// Read all rows, because a statement's changes can be committed only after its end.
    Read,
}

/// Runs a statement on a new connection. Dropping the future closes the connection, and the server then ends the statement.
pub(super) async fn run(url: &SecretString, statement: Statement) -> Result<StatementResult, SqlError> {
    // The parser logs unknown parts of the URL and of the user's password file verbatim, so logging is
    // switched off.
    let options: PgConnectOptions =
        tracing::subscriber::with_default(NoSubscriber::default(), || url.expose_secret().parse())
            .map_err(|error| SqlError::from_connect_error(&error))?;
    let options = options.application_name("dirigent").disable_statement_logging();
    let mut session = Session {
        connection: options
            .connect()
            .await
            .map_err(|error| SqlError::from_connect_error(&error))?,
        secrets: Secrets::from_url(url),
        statement,
    };
    session.execute().await
}

struct Session {
    connection: PgConnection,
    secrets: Secrets,
    statement: Statement,
}

impl Session {
    async fn execute(&mut self) -> Result<StatementResult, SqlError> {
        self.begin().await?;
        let read_only = self.statement.read_only.is_some();
        let before = if read_only {
            Tables::new()
        } else {
            self.tables().await?
        };
        let remaining_rows = if read_only || self.is_query().await? {
            RemainingRows::Discard
        } else {
            RemainingRows::Read
        };
        let (mut rows, parameters) = self.parse().await?;
        let sql = self.executable(&parameters).await?;
        let affected = self.collect(sql, remaining_rows, &mut rows).await?;
        let Some(affected) = affected else {
            // The remaining rows are unread, so the connection cannot commit.
            if !read_only {
                rows.note("the transaction was rolled back because not all rows were read");
            }
            return Ok(StatementResult {
                rows,
                affected: None,
                changes: Vec::new(),
            });
        };
        let affected = (!rows.has_columns()).then_some(affected);
        let changes = if read_only {
            Vec::new()
        } else {
            self.commit(&before).await?
        };
        Ok(StatementResult {
            rows,
            affected,
            changes,
        })
    }

    /// Begins a transaction, read-only if the statement must not change anything.
    async fn begin(&mut self) -> Result<(), SqlError> {
        let limit = self.statement.timeout.as_millis();
        // Servers that support `client_connection_check_interval` check every second whether the client is still connected. Other servers
        // end the statement only after its timeout.
        let settings = format!(
            "SET statement_timeout = {limit}; SET lock_timeout = {limit}; SET bytea_output = hex; \
             SELECT set_config(name, '1s', false) FROM pg_catalog.pg_settings WHERE name = 'client_connection_check_interval'"
        );
        self.execute_internal(settings).await?;
        let begin = match self.statement.read_only {
            // PostgreSQL refuses to change a transaction to read-write after its first query, hence the `SELECT 1`.
            Some(_) => "SET default_transaction_read_only = on; BEGIN READ ONLY; SELECT 1",
            None => "BEGIN READ WRITE",
        };
        self.execute_internal(begin.to_owned()).await
    }

    /// Returns true if PostgreSQL accepts the statement for a cursor. It accepts only queries that contain no INSERT, UPDATE or DELETE.
    async fn is_query(&mut self) -> Result<bool, SqlError> {
        self.execute_internal("SAVEPOINT dirigent".to_owned()).await?;
        let cursor = format!("DECLARE dirigent CURSOR FOR {}", self.statement.sql);
        let parsed = (&mut self.connection)
            .prepare(sqlx::SqlSafeStr::into_sql_str(AssertSqlSafe(cursor)))
            .await;
        let is_query = match parsed {
            Ok(_) => true,
            Err(sqlx::Error::Database(_)) => false,
            Err(error) => return Err(self.map_error(&error)),
        };
        self.execute_internal("ROLLBACK TO SAVEPOINT dirigent; RELEASE SAVEPOINT dirigent".to_owned())
            .await?;
        Ok(is_query)
    }

    /// Parses the statement on the server, which rejects several statements. Returns a result with the statement's columns and no rows, and
    /// the types of the placeholders.
    async fn parse(&mut self) -> Result<(Rows, Vec<PgTypeInfo>), SqlError> {
        let sql = sqlx::SqlSafeStr::into_sql_str(AssertSqlSafe(self.statement.sql.clone()));
        let parsed = match (&mut self.connection).prepare(sql).await {
            Ok(parsed) => parsed,
            Err(error) if is_multiple_statements(&error) => return Err(SqlError::multiple_statements()),
            Err(error) => return Err(self.map_error(&error)),
        };
        let types = match parsed.parameters() {
            Some(Either::Left(types)) => types.to_vec(),
            Some(Either::Right(_)) | None => Vec::new(),
        };
        let given = self.statement.parameters.len();
        if types.len() != given {
            return Err(SqlError::placeholder_count(types.len(), given));
        }
        let mut rows = Rows::new(self.statement.max_rows);
        let columns: Vec<(&str, String)> = parsed
            .columns()
            .iter()
            .map(|column| (column.name(), column.type_info().name().to_ascii_lowercase()))
            .collect();
        rows.set_columns(columns.iter().map(|(name, kind)| (*name, Some(kind.as_str()))));
        Ok((rows, types))
    }

    /// Returns the text to execute: the statement itself or, if it has parameters, an `EXECUTE` of it.
    async fn executable(&mut self, types: &[PgTypeInfo]) -> Result<String, SqlError> {
        if types.is_empty() {
            return Ok(self.statement.sql.clone());
        }
        // The text contains no second statement, because `parse` has accepted it.
        self.execute_internal(format!("PREPARE dirigent AS {}", self.statement.sql))
            .await?;
        let values = self.statement.parameters.iter().zip(types);
        let values: Vec<String> = values.map(|(value, kind)| literal(value, kind)).collect();
        Ok(format!("EXECUTE dirigent ({})", values.join(", ")))
    }

    /// Reads the rows. Returns the number of affected rows, or `None` if the rest of the result was not read.
    async fn collect(
        &mut self,
        sql: String,
        remaining_rows: RemainingRows,
        rows: &mut Rows,
    ) -> Result<Option<u64>, SqlError> {
        let mut row_stream = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_many(&mut self.connection);
        let mut affected = 0;
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
                Some(Either::Left(done)) => affected += done.rows_affected(),
                Some(Either::Right(row)) => {
                    let full = rows.push(|cells| encode_row(cells, &row))?.is_break();
                    if full && remaining_rows == RemainingRows::Discard {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Commits, and returns the changes.
    async fn commit(&mut self, before: &Tables) -> Result<Vec<dirigent_core::tool::StateChange>, SqlError> {
        let name = self.statement.connection.clone();
        let mut all = Vec::new();
        let wrote = self
            .texts("SELECT pg_catalog.txid_current_if_assigned()::text")
            .await?;
        if wrote.first().is_some_and(|row| row[0].is_some()) {
            all = changes::table_changes(&name, before, &self.tables().await?);
            for row in self.texts(CHANGED_ROWS).await? {
                let count = row[1].as_deref().and_then(|count| count.parse().ok());
                all.extend(changes::row_changes(&name, row[0].clone(), count.unwrap_or(0)));
            }
        }
        self.execute_internal("COMMIT".to_owned()).await?;
        Ok(all)
    }

    async fn tables(&mut self) -> Result<Tables, SqlError> {
        let rows = self.texts(TABLES).await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| row.into_iter().next()?)
            .collect())
    }

    /// Runs an internal query and returns its rows as text.
    async fn texts(&mut self, sql: &'static str) -> Result<Vec<Vec<Option<String>>>, SqlError> {
        let rows = sqlx::raw_sql(sql).fetch_all(&mut self.connection).await;
        let rows = rows.map_err(|error| self.map_error(&error))?;
        let text = |row: &PgRow, at| Some(row.try_get_raw(at).ok()?.as_str().ok()?.to_owned());
        Ok(rows
            .iter()
            .map(|row| (0..row.len()).map(|at| text(row, at)).collect())
            .collect())
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
        let mut text = database_error.message().to_owned();
        if let Some(database_error) = database_error.try_downcast_ref::<PgDatabaseError>() {
            for (name, more) in [
                ("detail", database_error.detail()),
                ("hint", database_error.hint()),
            ] {
                if let Some(more) = more {
                    text = format!("{text}; {name}: {more}");
                }
            }
        }
        let text = self.secrets.redact(&text);
        match (database_error.code().as_deref(), self.statement.read_only) {
            (Some("25006"), Some(reason)) => SqlError::ReadOnly { reason, detail: text },
            (Some("57014"), _) => SqlError::TimedOut {
                limit: self.statement.timeout,
            },
            _ => SqlError::Database(text),
        }
    }
}

/// Returns true if the server reports several statements. The error has the code of a syntax error and a localized message, so only the
/// name of the server's routine identifies it.
fn is_multiple_statements(error: &sqlx::Error) -> bool {
    let database_error = error
        .as_database_error()
        .and_then(|database_error| database_error.try_downcast_ref::<PgDatabaseError>());
    database_error.is_some_and(|database_error| {
        database_error.code() == "42601" && database_error.routine() == Some("exec_parse_message")
    })
}

/// Formats a value as a literal, which PostgreSQL converts to the type of its placeholder.
fn literal(value: &Parameter, kind: &PgTypeInfo) -> String {
    let text = match value {
        Parameter::Null => return "NULL".to_owned(),
        Parameter::Bool(value) => value.to_string(),
        Parameter::Integer(value) => value.to_string(),
        Parameter::Unsigned(value) => value.to_string(),
        Parameter::Real(value) => value.to_string(),
        Parameter::Text(value) => value.clone(),
        Parameter::Bytes(value) => format!("\\x{}", to_hex(value)),
        Parameter::Json(Value::Array(items)) if matches!(kind.kind(), PgTypeKind::Array(_)) => array(items),
        Parameter::Json(value) => value.to_string(),
    };
    // In an `E''` literal, a backslash means the same under all settings of the server.
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Formats a list as a PostgreSQL array.
fn array(items: &[Value]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let items: Vec<String> = items
        .iter()
        .map(|item| match item {
            Value::Null => "NULL".to_owned(),
            Value::Bool(_) | Value::Number(_) => item.to_string(),
            Value::String(text) => quoted(text),
            Value::Array(items) => array(items),
            Value::Object(_) => quoted(&item.to_string()),
        })
        .collect();
    format!("{{{}}}", items.join(","))
}

fn encode_row(cells: &mut CellEncoder, row: &PgRow) -> Result<Vec<Value>, SqlError> {
    let broken = || SqlError::Database("the server sent a row that cannot be read".to_owned());
    (0..row.len())
        .map(|at| encode_cell(cells, &row.try_get_raw(at).map_err(|_| broken())?).ok_or_else(broken))
        .collect()
}

fn encode_cell(cells: &mut CellEncoder, value: &PgValueRef<'_>) -> Option<Value> {
    if value.is_null() {
        return Some(Value::Null);
    }
    let text = value.as_str().ok()?;
    Some(match value.type_info().name() {
        "BOOL" => Value::from(text == "t"),
        "INT2" | "INT4" | "INT8" | "OID" => integer(text.parse().ok()?),
        "FLOAT4" | "FLOAT8" => real(text.parse().ok()?),
        "BYTEA" => cells.hex(text.strip_prefix("\\x")?),
        _ => cells.text(text),
    })
}
