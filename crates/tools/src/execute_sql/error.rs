//! Why a statement was not run or did not succeed, in words that a model can act on and that tell it no secrets.

use std::time::Duration;

use dirigent_core::tool::{ToolResult, code};

use super::secrets::Secrets;
use crate::workspace::FileError;

/// Who may only look.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReadOnlyReason {
    /// Whoever uses the connection.
    Connection,
    /// The agent, and others may do more.
    Agent,
}

/// Why there is no result: one variant for each thing that the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub(super) enum SqlError {
    #[error("{0}")]
    Parameters(String),
    #[error("there is no connection `{name}`; there are: {}", .known.join(", "))]
    UnknownConnection { name: String, known: Vec<String> },
    #[error("the database file of `{connection}` does not exist{}", not_created_hint(*.read_only))]
    FileNotFound {
        connection: String,
        read_only: Option<ReadOnlyReason>,
    },
    #[error("the database file: {0}")]
    File(FileError),
    /// With what the database calls it.
    #[error("{}: {detail}; nothing was changed", read_only_message(*.reason))]
    ReadOnly { reason: ReadOnlyReason, detail: String },
    #[error("{0}; nothing was run")]
    Refused(String),
    #[error("{0}")]
    Database(String),
    #[error(
        "one row alone is more than can be shown: select fewer columns, or parts of them, as with substr"
    )]
    RowTooBig,
    #[error(
        "it took longer than {} s and was ended: its transaction is rolled back, unless it was already being committed, so look before you repeat \
         what changes something; narrow what only looks with WHERE and LIMIT",
        .limit.as_secs_f64()
    )]
    TimedOut { limit: Duration },
    #[error(
        "{} other statements were still running on this connection after {} s, so that it never ran; call again later",
        super::MAX_CONCURRENT_STATEMENTS,
        .limit.as_secs_f64()
    )]
    QueueTimedOut { limit: Duration },
    #[error("{0}")]
    ResourceLimit(&'static str),
    #[error("SQLite could not be confined to the database's folder, so that nothing was run: {0}")]
    SandboxUnavailable(String),
    #[error("no thread could be started for it, so that it never ran: {0}")]
    ThreadSpawnFailed(String),
    #[error("the tool itself broke down: whether the statement was executed is unknown")]
    BrokeDown,
    #[error("cancelled: its transaction is rolled back, unless it was already being committed")]
    Cancelled,
    #[error("{0}; the operator must look into it")]
    Unreachable(String),
}

fn not_created_hint(read_only: Option<ReadOnlyReason>) -> &'static str {
    match read_only {
        Some(_) => ", and it is not made, as nothing may be changed here",
        None => "",
    }
}

fn read_only_message(reason: ReadOnlyReason) -> &'static str {
    match reason {
        ReadOnlyReason::Connection => "this connection is read-only",
        ReadOnlyReason::Agent => "this agent may only look",
    }
}

impl SqlError {
    /// No statement, or a comment alone.
    pub(super) fn no_statement() -> Self {
        SqlError::Parameters("`sql` has no statement in it".to_owned())
    }

    /// More than one statement.
    pub(super) fn multiple_statements() -> Self {
        SqlError::Parameters(
            "`sql` has several statements in it: call once for each; nothing was run".to_owned(),
        )
    }

    /// Another number of values than of placeholders.
    pub(super) fn placeholder_count(placeholders: usize, given: usize) -> Self {
        SqlError::Parameters(format!(
            "the statement has {placeholders} placeholders and `parameters` has {given} values; nothing was run"
        ))
    }

    /// What an error of the driver means that came before there was a connection. A server's own words name users and hosts, so they are
    /// not told.
    pub(super) fn from_connect_error(error: &sqlx::Error) -> Self {
        let why = match error {
            sqlx::Error::Io(error) => format!(
                "the server of this connection cannot be reached ({})",
                error.kind()
            ),
            sqlx::Error::Tls(_) => "the connection to the server could not be made secure".to_owned(),
            sqlx::Error::Database(_) => "the server of this connection does not let Dirigent in".to_owned(),
            sqlx::Error::Configuration(_) => "the URL of this connection cannot be used".to_owned(),
            _ => "the server of this connection does not answer as a database".to_owned(),
        };
        SqlError::Unreachable(why)
    }

    /// What an error of the driver means that is none of the database's own.
    pub(super) fn from_driver_error(error: &sqlx::Error, secrets: &Secrets) -> Self {
        match error {
            sqlx::Error::Io(error) => SqlError::Unreachable(format!(
                "the connection to the server was lost ({}), and whether the statement was executed is unknown",
                error.kind()
            )),
            error => SqlError::Database(secrets.redact(&error.to_string())),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            SqlError::Parameters(_) => code::BAD_PARAMETERS,
            SqlError::UnknownConnection { .. } | SqlError::FileNotFound { .. } => "not_found",
            SqlError::File(error) => error.code(),
            SqlError::ReadOnly { .. } => code::ACCESS_DENIED,
            SqlError::Refused(_) => code::REFUSED,
            SqlError::Database(_) => "database",
            SqlError::RowTooBig | SqlError::ResourceLimit(_) => "too_big",
            SqlError::TimedOut { .. } | SqlError::QueueTimedOut { .. } => code::TIMED_OUT,
            SqlError::SandboxUnavailable(_) => "no_sandbox",
            SqlError::ThreadSpawnFailed(_) => "denied",
            SqlError::BrokeDown => code::BROKE_DOWN,
            SqlError::Cancelled => code::CANCELLED,
            SqlError::Unreachable(_) => "unreachable",
        }
    }

    /// What the model is told.
    pub(super) fn into_result(self) -> ToolResult {
        ToolResult::failure(self.to_string()).with_code(self.code())
    }
}
