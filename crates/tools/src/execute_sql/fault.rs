//! Why a statement was not run or did not succeed, in words that a model can act on and that tell it no secrets.

use std::time::Duration;

use dirigent_core::tool::{ToolResult, code};

use super::secrets::Secrets;
use crate::workspace::FileFault;

/// Who may only look.
#[derive(Clone, Copy, Debug)]
pub(super) enum Looker {
    /// Whoever uses the connection.
    Connection,
    /// The agent, and others may do more.
    Agent,
}

/// Why there is no result: one variant for each thing that the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Parameters(String),
    #[error("there is no connection `{name}`; there are: {}", .known.join(", "))]
    NoConnection { name: String, known: Vec<String> },
    #[error("the database file of `{connection}` does not exist{}", creates(*.looks_only))]
    NoFile {
        connection: String,
        looks_only: Option<Looker>,
    },
    #[error("the database file: {0}")]
    File(FileFault),
    /// With what the database calls it.
    #[error("{}: {what}; nothing was changed", only_looks(*.who))]
    OnlyLooks { who: Looker, what: String },
    #[error("{0}; nothing was run")]
    Refused(String),
    #[error("{0}")]
    Database(String),
    #[error(
        "one row alone is more than can be shown: select fewer columns, or parts of them, as with substr"
    )]
    TooBig,
    #[error(
        "it took longer than {} s and was ended: its transaction is undone, unless it was just being kept, so look before you repeat \
         what changes something; narrow what only looks with WHERE and LIMIT",
        .limit.as_secs_f64()
    )]
    TimedOut { limit: Duration },
    #[error(
        "{} other statements were still running on this connection after {} s, so that it never ran; call again later",
        super::AT_ONCE,
        .limit.as_secs_f64()
    )]
    Crowded { limit: Duration },
    #[error("{0}")]
    TooMuch(&'static str),
    #[error("SQLite could not be confined to the database's folder, so that nothing was run: {0}")]
    NoSandbox(String),
    #[error("no thread could be started for it, so that it never ran: {0}")]
    NoThread(String),
    #[error("the tool itself broke down: whether the statement was carried out is unknown")]
    BrokeDown,
    #[error("cancelled: its transaction is undone, unless it was just being kept")]
    Cancelled,
    #[error("{0}; the operator must look into it")]
    Unreachable(String),
}

fn creates(looks_only: Option<Looker>) -> &'static str {
    match looks_only {
        Some(_) => ", and it is not made, as nothing may be changed here",
        None => "",
    }
}

fn only_looks(who: Looker) -> &'static str {
    match who {
        Looker::Connection => "this connection is read-only",
        Looker::Agent => "this agent may only look",
    }
}

impl Fault {
    /// No statement, or a comment alone.
    pub(super) fn nothing_to_run() -> Self {
        Fault::Parameters("`sql` has no statement in it".to_owned())
    }

    /// More than one statement.
    pub(super) fn several() -> Self {
        Fault::Parameters(
            "`sql` has several statements in it: call once for each; nothing was run".to_owned(),
        )
    }

    /// Another number of values than of placeholders.
    pub(super) fn count(placeholders: usize, given: usize) -> Self {
        Fault::Parameters(format!(
            "the statement has {placeholders} placeholders and `parameters` has {given} values; nothing was run"
        ))
    }

    /// What an error of the driver means that came before there was a connection. A server's own words name users and hosts, so they are
    /// not told.
    pub(super) fn connecting(error: &sqlx::Error) -> Self {
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
        Fault::Unreachable(why)
    }

    /// What an error of the driver means that is none of the database's own.
    pub(super) fn lost(error: &sqlx::Error, secrets: &Secrets) -> Self {
        match error {
            sqlx::Error::Io(error) => Fault::Unreachable(format!(
                "the connection to the server was lost ({}), and whether the statement was carried out is unknown",
                error.kind()
            )),
            error => Fault::Database(secrets.left_out(&error.to_string())),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Fault::Parameters(_) => code::BAD_PARAMETERS,
            Fault::NoConnection { .. } | Fault::NoFile { .. } => "not_found",
            Fault::File(fault) => fault.code(),
            Fault::OnlyLooks { .. } => code::ACCESS_DENIED,
            Fault::Refused(_) => code::REFUSED,
            Fault::Database(_) => "database",
            Fault::TooBig | Fault::TooMuch(_) => "too_big",
            Fault::TimedOut { .. } | Fault::Crowded { .. } => code::TIMED_OUT,
            Fault::NoSandbox(_) => "no_sandbox",
            Fault::NoThread(_) => "denied",
            Fault::BrokeDown => code::BROKE_DOWN,
            Fault::Cancelled => code::CANCELLED,
            Fault::Unreachable(_) => "unreachable",
        }
    }

    /// What the model is told.
    pub(super) fn into_result(self) -> ToolResult {
        ToolResult::failure(self.to_string()).with_code(self.code())
    }
}
