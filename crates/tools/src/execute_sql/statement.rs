//! A statement to run, and its result.

use std::time::Duration;

use dirigent_core::tool::StateChange;

use super::error::ReadOnlyReason;
use super::parameter::Parameter;
use super::rows::Rows;

/// A statement to run.
pub(super) struct Statement {
    /// Name of the connection to run the statement on.
    pub(super) connection: String,
    pub(super) sql: String,
    pub(super) parameters: Vec<Parameter>,
    /// Reason why the statement must not change anything. `None` if changes are allowed.
    pub(super) read_only: Option<ReadOnlyReason>,
    pub(super) max_rows: usize,
    pub(super) timeout: Duration,
}

/// Result of a statement.
pub(super) struct StatementResult {
    pub(super) rows: Rows,
    /// Number of rows changed. `None` if the database does not report it.
    pub(super) affected: Option<u64>,
    pub(super) changes: Vec<StateChange>,
}
