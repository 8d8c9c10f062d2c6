//! `[sandbox]`, `[connections.NAME]` and `[http]`: what the built-in tools may reach. What must be asked is another matter: `[approvals]`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use dirigent_core::tool::Access;
use dirigent_tools::{Confinement, Connection, Connections, Database, HttpRules, Sandbox, ToolSettings};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::settings::Table;
use super::value::Value;
use super::{Config, ConfigError, Origin};

/// Rows that one call returns where nothing is said.
const MAX_ROWS: usize = 200;
/// How long a statement may take where nothing is said.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A database of the configuration, whether it can be used now or not.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// Its name in the configuration, by which agents know it.
    pub name: String,
    /// Which kind it is: `sqlite`, `postgres`, `mysql`.
    pub database: String,
    /// What may be done with it.
    pub access: Access,
    /// Where its address or its file is said: the file's path, or where the address comes from, which is not shown.
    pub address: String,
    /// It, or what has to be set before it can be used.
    pub connection: Result<Connection, ConfigError>,
    /// It without its address: enough to tell of it.
    placeholder: Connection,
}

impl Config {
    /// What the built-in tools may reach.
    ///
    /// # Errors
    /// A variable that a connection names and that is not set, or has no address of such a database in it.
    pub fn tool_settings(&self) -> Result<ToolSettings, ConfigError> {
        let connections = self.connections()?.into_iter();
        let all: Result<Connections, ConfigError> = connections
            .map(|settings| Ok((settings.name, settings.connection?)))
            .collect();
        Ok(self.with_connections(all?))
    }

    /// The same without the addresses of databases, which need not be set: enough to tell of the tools, not to call them.
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

    /// What commands may reach.
    pub fn sandbox(&self) -> Sandbox {
        let table = self.shared.settings.table(&["sandbox"]);
        let paths = |name| table.texts(name).iter().map(Into::into).collect();
        Sandbox {
            confinement: match table.text("commands") {
                Some("unconfined") => Confinement::Off,
                // `confined`, as the schema allows no other word.
                Some(_) | None => Confinement::Required,
            },
            network: table.boolean("network").unwrap_or(false),
            read: paths("read"),
            write: paths("write"),
            environment: table.texts("environment").to_vec(),
            max_memory: table.bytes("max_memory"),
            max_file: table.bytes("max_file"),
            max_processes: table.count("max_processes"),
        }
    }

    /// What `http_request` may reach.
    pub fn http(&self) -> HttpRules {
        let table = self.shared.settings.table(&["http"]);
        let default = HttpRules::default();
        HttpRules {
            allow: table.texts("allow").to_vec(),
            timeout: table
                .duration("timeout")
                .map_or(default.timeout, |span| Duration::from_millis(span.0)),
            max_bytes: table.bytes("max_bytes").unwrap_or(default.max_bytes),
        }
    }

    /// The databases, in the order of their names.
    ///
    /// # Errors
    /// What is wrong with the settings of one. A variable that is not set is told by the connection itself.
    pub fn connections(&self) -> Result<Vec<ConnectionSettings>, ConfigError> {
        let names: BTreeSet<&str> = self
            .shared
            .settings
            .iter()
            .filter_map(|(key, _)| match key.parts()[..] {
                ["connections", name, _] => Some(name),
                _ => None,
            })
            .collect();
        names.into_iter().map(|name| self.connection(name)).collect()
    }

    fn connection(&self, name: &str) -> Result<ConnectionSettings, ConfigError> {
        let table = self.shared.settings.table(&["connections", name]);
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(fits) {
            return Err(ConfigError::Value {
                origin: table.table_origin(),
                key: format!("connections.{name:?}"),
                problem: "is no name for a connection: use letters, digits, - and _".to_owned(),
            });
        }
        let Some(kind) = table.text("database") else {
            return Err(table.invalid("database", "is not set: say one of sqlite, postgres, mysql"));
        };
        let (address, database) = match kind {
            "sqlite" => sqlite(&table)?,
            kind => self.server(kind, &table)?,
        };
        let access = match table.text("access") {
            Some("read-write") => Access::ReadWrite,
            // `read-only`, as the schema allows no other word.
            Some(_) | None => Access::ReadOnly,
        };
        let connection = |database| Connection {
            database,
            access,
            max_rows: table
                .count_u32("max_rows")
                .map_or(MAX_ROWS, |rows| usize::try_from(rows).unwrap_or(usize::MAX)),
            timeout: table
                .duration("timeout")
                .map_or(TIMEOUT, |span| Duration::from_millis(span.0)),
        };
        Ok(ConnectionSettings {
            placeholder: connection(placeholder(kind)),
            name: name.to_owned(),
            database: kind.to_owned(),
            access,
            address,
            connection: database.map(connection),
        })
    }

    /// A database that has an address, with where that comes from.
    fn server(
        &self,
        kind: &str,
        table: &Table<'_>,
    ) -> Result<(String, Result<Database, ConfigError>), ConfigError> {
        if table.value("path").is_some() {
            let problem =
                format!("is for database \"sqlite\" alone: say where {kind} is by `url_env`, or `url`");
            return Err(table.invalid("path", problem));
        }
        let with = |url| match kind {
            "mysql" => Database::Mysql { url },
            // `postgres`, as the schema allows no other word.
            _ => Database::Postgres { url },
        };
        match (table.value("url"), table.text("url_env")) {
            (Some(_), Some(_)) => Err(table.invalid("url", "and `url_env` can't both be set: leave one out")),
            (Some(Value::Secret(url)), None) => {
                check_address(kind, url).map_err(|problem| table.invalid("url", problem))?;
                let origin = table
                    .origin("url")
                    .cloned()
                    .unwrap_or_else(|| table.table_origin());
                Ok((format!("set, from {origin}"), Ok(with(url.clone()))))
            }
            (None, Some(variable)) => match self.shared.sources.variable(variable) {
                Some(url) => {
                    let url = SecretString::from(url);
                    check_address(kind, &url).map_err(|problem| ConfigError::Value {
                        origin: Origin::Variable(variable.to_owned()),
                        key: variable.to_owned(),
                        problem,
                    })?;
                    Ok((format!("set, from {variable}"), Ok(with(url))))
                }
                None => {
                    let missing =
                        table.invalid("url_env", format!("names {variable}, which is not set: set it"));
                    Ok((format!("not set: set {variable}"), Err(missing)))
                }
            },
            (Some(_) | None, None) => {
                let problem = "is not set: name the variable that holds the address, or say it as `url` in a file that only you can read";
                Err(table.invalid("url_env", problem))
            }
        }
    }
}

/// Such a database, anywhere.
fn placeholder(kind: &str) -> Database {
    let url = SecretString::default();
    match kind {
        "sqlite" => Database::Sqlite { path: PathBuf::new() },
        "mysql" => Database::Mysql { url },
        // `postgres`, as the schema allows no other word.
        _ => Database::Postgres { url },
    }
}

fn sqlite(table: &Table<'_>) -> Result<(String, Result<Database, ConfigError>), ConfigError> {
    if let Some(name) = ["url", "url_env"]
        .into_iter()
        .find(|name| table.value(name).is_some())
    {
        return Err(table.invalid(
            name,
            "is not for database \"sqlite\": say where the file is by `path`",
        ));
    }
    let Some(path) = table.text("path") else {
        return Err(table.invalid(
            "path",
            "is not set: say where the file is in the folder that is worked in, such as \"data/app.db\"",
        ));
    };
    Ok((path.to_owned(), Ok(Database::Sqlite { path: path.into() })))
}

/// Whether it is the address of such a database; what is wrong with it, without any of it.
fn check_address(kind: &str, url: &SecretString) -> Result<(), String> {
    let (schemes, wanted) = match kind {
        "mysql" => (
            ["mysql", "mariadb"],
            "must look like mysql://user:password@host:3306/database",
        ),
        _ => (
            ["postgres", "postgresql"],
            "must look like postgres://user:password@host:5432/database",
        ),
    };
    let url = Url::parse(url.expose_secret()).map_err(|_| format!("is not an address: it {wanted}"))?;
    if !schemes.contains(&url.scheme()) {
        return Err(format!("is the address of something else: it {wanted}"));
    }
    // A socket's path may stand in the query instead.
    let names_place = url
        .query_pairs()
        .any(|(name, _)| name == "host" || name == "socket");
    if url.host_str().is_none_or(str::is_empty) && !names_place {
        return Err(format!("names no host: it {wanted}"));
    }
    Ok(())
}
