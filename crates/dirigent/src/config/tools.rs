//! `[sandbox]`, `[connections.NAME]` and `[http]`: the access of the built-in tools. `[approvals]` sets which calls need approval.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use dirigent_core::tool::Access;
use dirigent_tools::{Confinement, Connection, Connections, Database, HttpRules, Sandbox, ToolSettings};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::layer::TableOrigins;
use super::settings::ConnectionTable;
use super::value::DatabaseKind;
use super::{Config, ConfigError, Origin};

/// Default maximum number of rows that a call returns.
const MAX_ROWS: usize = 200;
/// Default timeout of a statement.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A configured database. Its address may not be set yet.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// The name in the configuration, which agents use.
    pub name: String,
    /// The kind: `sqlite`, `postgres` or `mysql`.
    pub database: String,
    /// The access of agents.
    pub access: Access,
    /// The path of an SQLite file, or the origin of a server's address; the address itself is never shown.
    pub address: String,
    /// The connection, or an error that names the variable to set.
    pub connection: Result<Connection, ConfigError>,
    /// The connection without its address, for describing the tools.
    placeholder: Connection,
}

impl Config {
    /// Returns the settings of the built-in tools.
    ///
    /// # Errors
    /// The environment variable with the address of a connection is not set, or its value is not an address for the connection's kind of
    /// database.
    pub fn tool_settings(&self) -> Result<ToolSettings, ConfigError> {
        let connections = self.connections()?.into_iter();
        let all: Result<Connections, ConfigError> = connections
            .map(|settings| Ok((settings.name, settings.connection?)))
            .collect();
        Ok(self.with_connections(all?))
    }

    /// Returns the settings of the built-in tools without the addresses of databases. The tools can be described, but not called.
    pub(crate) fn tool_settings_without_secrets(&self) -> ToolSettings {
        let connections = self.connections().unwrap_or_default().into_iter();
        let placeholders = connections.map(|settings| (settings.name, settings.placeholder));
        self.with_connections(placeholders.collect())
    }

    fn with_connections(&self, connections: Connections) -> ToolSettings {
        ToolSettings {
            sandbox: self.sandbox(),
            connections,
            http: self.http(),
        }
    }

    /// Returns what commands may access.
    pub fn sandbox(&self) -> Sandbox {
        let table = &self.shared.settings.sandbox;
        Sandbox {
            confinement: table
                .commands
                .as_ref()
                .map_or(Confinement::Required, |commands| commands.0),
            network: table.network,
            read: table.read.iter().map(|path| path.0.clone()).collect(),
            write: table.write.iter().map(|path| path.0.clone()).collect(),
            environment: table
                .environment
                .iter()
                .map(|variable| variable.0.clone())
                .collect(),
            max_memory: table.max_memory.as_ref().map(|bytes| bytes.0),
            max_file: table.max_file.as_ref().map(|bytes| bytes.0),
            max_processes: table.max_processes.map(NonZero::get),
        }
    }

    /// Returns what `http_request` may access.
    pub fn http(&self) -> HttpRules {
        let table = &self.shared.settings.http;
        let default = HttpRules::default();
        HttpRules {
            allow: table.allow.iter().map(|host| host.0.clone()).collect(),
            timeout: table
                .timeout
                .as_ref()
                .map_or(default.timeout, |timeout| timeout.0.into()),
            max_bytes: table
                .max_bytes
                .as_ref()
                .map_or(default.max_bytes, |bytes| bytes.0),
        }
    }

    /// Returns the databases, sorted by name.
    ///
    /// # Errors
    /// Invalid settings of a database. A variable that is not set is reported only in [`ConnectionSettings::connection`].
    pub fn connections(&self) -> Result<Vec<ConnectionSettings>, ConfigError> {
        let tables = self.shared.settings.connections.iter();
        tables.map(|(name, table)| self.connection(name, table)).collect()
    }

    fn connection(&self, name: &str, table: &ConnectionTable) -> Result<ConnectionSettings, ConfigError> {
        let origins = self.shared.origins.table(&["connections", name]);
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(fits) {
            return Err(ConfigError::Value {
                origin: origins.table_origin(),
                key: format!("connections.{name:?}"),
                problem: "is not a valid name for a connection: use letters, digits, - and _".to_owned(),
            });
        }
        let Some(kind) = table.database.as_ref().map(|database| database.0) else {
            return Err(origins.invalid("database", "is not set: set it to one of sqlite, postgres, mysql"));
        };
        let (address, database) = match kind {
            DatabaseKind::Sqlite => sqlite(table, &origins)?,
            DatabaseKind::Postgres | DatabaseKind::Mysql => self.server(kind, table, &origins)?,
        };
        let access = table.access.as_ref().map_or(Access::ReadOnly, |access| access.0);
        let connection = |database| Connection {
            database,
            access,
            max_rows: table
                .max_rows
                .map_or(MAX_ROWS, |rows| usize::try_from(rows.get()).unwrap_or(usize::MAX)),
            timeout: table.timeout.as_ref().map_or(TIMEOUT, |timeout| timeout.0.into()),
        };
        Ok(ConnectionSettings {
            placeholder: connection(database_at(kind, SecretString::default())),
            name: name.to_owned(),
            database: kind.name().to_owned(),
            access,
            address,
            connection: database.map(connection),
        })
    }

    /// Returns the origin of a server's address, and the database at that address.
    fn server(
        &self,
        kind: DatabaseKind,
        table: &ConnectionTable,
        origins: &TableOrigins<'_>,
    ) -> Result<(String, Result<Database, ConfigError>), ConfigError> {
        if table.path.is_some() {
            let problem = format!(
                "applies only with `database = \"sqlite\"`: set the address of the {} database with `url_env` or `url`",
                kind.name()
            );
            return Err(origins.invalid("path", problem));
        }
        match (&table.url, &table.url_env) {
            (Some(_), Some(_)) => Err(origins.invalid("url", "and `url_env` can't both be set: remove one")),
            (Some(url), None) => {
                check_address(kind, &url.0).map_err(|problem| origins.invalid("url", problem))?;
                let origin = origins.origin("url");
                Ok((
                    format!("set, from {origin}"),
                    Ok(database_at(kind, url.0.clone())),
                ))
            }
            (None, Some(variable)) => match self.shared.sources.variable(&variable.0) {
                Some(url) => {
                    let url = SecretString::from(url);
                    check_address(kind, &url).map_err(|problem| ConfigError::Value {
                        origin: Origin::Variable(variable.0.clone()),
                        key: variable.0.clone(),
                        problem,
                    })?;
                    Ok((format!("set, from {}", variable.0), Ok(database_at(kind, url))))
                }
                None => {
                    let problem = format!("names {}, which is not set: set it", variable.0);
                    let missing = origins.invalid("url_env", problem);
                    Ok((format!("not set: set {}", variable.0), Err(missing)))
                }
            },
            (None, None) => {
                let problem = "is not set: set it to the name of the variable that holds the address, or set `url` in a file that only you can read";
                Err(origins.invalid("url_env", problem))
            }
        }
    }
}

fn database_at(kind: DatabaseKind, url: SecretString) -> Database {
    match kind {
        DatabaseKind::Sqlite => Database::Sqlite { path: PathBuf::new() },
        DatabaseKind::Postgres => Database::Postgres { url },
        DatabaseKind::Mysql => Database::Mysql { url },
    }
}

fn sqlite(
    table: &ConnectionTable,
    origins: &TableOrigins<'_>,
) -> Result<(String, Result<Database, ConfigError>), ConfigError> {
    if let Some(name) = origins.names().find(|name| ["url", "url_env"].contains(name)) {
        return Err(origins.invalid(
            name,
            "does not apply to database \"sqlite\": set the file with `path`",
        ));
    }
    let Some(path) = &table.path else {
        return Err(origins.invalid(
            "path",
            "is not set: set it to a file in the workspace, such as \"data/app.db\"",
        ));
    };
    let database = Database::Sqlite {
        path: path.0.clone().into(),
    };
    Ok((path.0.clone(), Ok(database)))
}

/// Checks the address of a database. The error does not contain any part of the address.
fn check_address(kind: DatabaseKind, url: &SecretString) -> Result<(), String> {
    let (schemes, expected) = match kind {
        DatabaseKind::Mysql => (
            ["mysql", "mariadb"],
            "must look like mysql://user:password@host:3306/database",
        ),
        DatabaseKind::Postgres | DatabaseKind::Sqlite => (
            ["postgres", "postgresql"],
            "must look like postgres://user:password@host:5432/database",
        ),
    };
    let url = Url::parse(url.expose_secret()).map_err(|_| format!("is not an address: it {expected}"))?;
    if !schemes.contains(&url.scheme()) {
        return Err(format!(
            "is not an address of this kind of database: it {expected}"
        ));
    }
    // The query may name a socket instead of a host.
    let has_socket = url
        .query_pairs()
        .any(|(name, _)| name == "host" || name == "socket");
    if url.host_str().is_none_or(str::is_empty) && !has_socket {
        return Err(format!("has no host: it {expected}"));
    }
    Ok(())
}
