//! The `execute_sql` tool: one statement for a database that the configuration names.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use dirigent_core::tool::Access;
use secrecy::SecretString;

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
    /// How long one statement may take.
    pub timeout: Duration,
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
