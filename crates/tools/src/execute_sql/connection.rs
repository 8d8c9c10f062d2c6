//! The configured databases, and the execution of statements on them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dirigent_core::tool::Access;
use secrecy::SecretString;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::error::{ReadOnlyReason, SqlError};
use super::statement::{Statement, StatementResult};
use super::{mysql, postgres, sqlite};

/// Maximum number of statements that one configured connection runs in parallel. Further statements wait.
const MAX_CONCURRENT_STATEMENTS: usize = 4;

/// The databases that agents can use, by name.
pub type Connections = BTreeMap<String, Connection>;

/// A database that agents can use, with access and limits.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Kind and location of the database.
    pub database: Database,
    /// Permitted access: [`Access::ReadOnly`] or [`Access::ReadWrite`]. [`Access::Execute`] has the same
    /// effect as read-only access.
    pub access: Access,
    /// Maximum number of rows that one call returns.
    pub max_rows: usize,
    /// Timeout of one statement, including the time to connect.
    pub timeout: Duration,
}

impl Connection {
    /// Checks the connection by running a read-only statement in the same way as for an agent. The path of a SQLite file is relative to
    /// `workspace`.
    ///
    /// # Errors
    ///
    /// A message for people, without the server's address, that says why the connection cannot be used.
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
            (Err(SqlError::Unreachable(reason)), _) => Err(reason),
            (Err(SqlError::TimedOut { limit }), _) => {
                Err(format!("it did not respond within {} s", limit.as_secs_f64()))
            }
            (Err(error), _) => Err(error.to_string()),
        }
    }

    /// Returns the access of statements. [`Access::Execute`] has no meaning for a database, and is treated as
    /// read-only access.
    pub(super) fn effective_access(&self) -> Access {
        match self.access {
            Access::ReadOnly | Access::Execute => Access::ReadOnly,
            Access::ReadWrite => Access::ReadWrite,
        }
    }

    /// Runs a statement once a permit is free. The timeout includes the wait.
    async fn run(
        &self,
        workspace: &Path,
        statement: Statement,
        permits: &Arc<Semaphore>,
    ) -> Result<StatementResult, SqlError> {
        let limit = self.timeout;
        let deadline = Instant::now() + limit;
        let permit = timeout_at(deadline, Arc::clone(permits).acquire_owned()).await;
        // The semaphore is never closed, so a timeout is the only possible failure.
        let Ok(Ok(permit)) = permit else {
            return Err(SqlError::QueueTimedOut {
                limit,
                running: MAX_CONCURRENT_STATEMENTS,
            });
        };
        let work = async {
            match &self.database {
                Database::Sqlite { path } => sqlite::run(path, workspace.to_owned(), statement, permit).await,
                Database::Postgres { url } => postgres::run(url, statement).await,
                Database::Mysql { url } => mysql::run(url, statement).await,
            }
        };
        // After the timeout the future is dropped, which ends the statement.
        match timeout_at(deadline, work).await {
            Ok(result) => result,
            Err(_) => Err(SqlError::TimedOut { limit }),
        }
    }
}

/// Result of a successful [`Connection::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionCheck {
    /// The database answers.
    Connected,
    /// The SQLite file does not exist yet. The first statement that is allowed to write creates the file.
    FileNotCreated,
}

/// Kind and location of a database.
#[derive(Clone, Debug)]
pub enum Database {
    /// A SQLite file.
    Sqlite {
        /// Path relative to the workspace.
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
    /// Returns the database's name for descriptions.
    pub fn name(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } => "SQLite",
            Database::Postgres { .. } => "PostgreSQL",
            Database::Mysql { .. } => "MySQL or MariaDB",
        }
    }

    /// Returns the syntax of a statement's first placeholder.
    pub(super) fn placeholder(&self) -> &'static str {
        match self {
            Database::Sqlite { .. } | Database::Mysql { .. } => "?",
            Database::Postgres { .. } => "$1",
        }
    }
}

/// A connection with the permits that limit the number of parallel statements.
pub(super) struct LimitedConnection {
    pub(super) connection: Connection,
    permits: Arc<Semaphore>,
}

impl LimitedConnection {
    pub(super) fn new(connection: &Connection) -> Self {
        LimitedConnection {
            connection: connection.clone(),
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT_STATEMENTS)),
        }
    }

    /// Runs a statement once a permit is free.
    pub(super) async fn run(
        &self,
        workspace: &Path,
        statement: Statement,
    ) -> Result<StatementResult, SqlError> {
        self.connection.run(workspace, statement, &self.permits).await
    }
}
