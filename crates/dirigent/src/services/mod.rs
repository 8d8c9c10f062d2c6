//! The registry of MCP services (MCP-1): those of the configuration, those that the user has added, and those of a project's `.mcp.json`.
//!
//! Added services are in the journal, as are the marks of services that the user has stopped and the tools that each service last listed. Where
//! several places have a service of the same name, the configuration comes first, then the journal, then the project. A project's file
//! counts only as long as it has the content that the user has trusted.
//!
//! Services run within this process. One that nobody needs isn't started.
//!
//! ```
//! use dirigent::Dirigent;
//! use dirigent::services::ServiceSettings;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), dirigent::DirigentError> {
//! # let folder = tempfile::tempdir().unwrap();
//! let dirigent = Dirigent::builder().journal(folder.path().join("journal.db")).build().await?;
//! let settings = ServiceSettings {
//!     command: Some("/no/such/program".to_owned()),
//!     ..ServiceSettings::default()
//! };
//! // The service is started once to learn its tools. One that cannot be started is added nevertheless.
//! let added = dirigent.add_service("files", settings).await?;
//! assert!(added.last_start.is_some_and(|start| start.error.is_some()));
//! assert_eq!(dirigent.services(None).await?.services.len(), 1);
//! # Ok(())
//! # }
//! ```

mod error;
mod kept;
mod project;
mod registry;
mod secrets;
mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use dirigent_core::text::{first_sentence, visible_line};
use dirigent_core::time::Timestamp;
use dirigent_mcp::{
    InvalidService, ServiceConfig, ServiceName, ServiceState, SkippedService, ToolList, WhyStopped,
};
use dirigent_store::{StopMark, TrustedFile};
use futures::future::join_all;
use serde_json::json;

use crate::config::{Config, ConfigError};
use crate::time::now;
use crate::{Dirigent, DirigentError};

pub use error::ServiceError;
pub use project::UntrustedServices;
pub(crate) use registry::{
    FoundServices, ServiceAccess, ServiceRegistry, access_of, endpoints, stored_access,
};
pub use settings::ServiceSettings;

/// Where a service is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceOrigin {
    /// In the configuration, as `[mcp.NAME]`.
    Configuration,
    /// In the journal.
    Store {
        /// The number of the settings, from 1; each update adds 1.
        version: u32,
        /// When this version was written.
        at: Timestamp,
    },
    /// In a project's file, which the user has trusted.
    Project(PathBuf),
}

impl fmt::Display for ServiceOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceOrigin::Configuration => f.write_str("the configuration"),
            ServiceOrigin::Store { .. } => f.write_str("the services that you added"),
            ServiceOrigin::Project(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A service of the registry.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisteredService {
    /// The name.
    pub name: ServiceName,
    /// The settings, without values that may be secrets.
    pub settings: ServiceSettings,
    /// Where the service is configured.
    pub origin: ServiceOrigin,
    /// The other places that have a service of this name, which is not used.
    pub hides: Vec<ServiceOrigin>,
    /// The state in this process. A service that the user has stopped stays stopped in later processes too.
    pub state: ServiceState,
    /// The tools, as the service last listed them in any process.
    pub tools: ToolList,
    /// The result of the latest start in any process; `None` if the service was not started with these settings.
    pub last_start: Option<LastStart>,
}

impl RegisteredService {
    /// Returns the names under which agents call the service's tools, each with one sentence about it, in the service's words.
    pub fn tool_summaries(&self) -> impl Iterator<Item = (&str, String)> {
        let prefix = format!("[MCP service {}] ", self.name);
        self.tools.specs().map(move |tool| {
            let description = tool
                .description
                .strip_prefix(&prefix)
                .unwrap_or(&tool.description);
            (tool.name.as_str(), visible_line(first_sentence(description)))
        })
    }
}

/// The result of a service's latest start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastStart {
    /// When this result was first seen.
    pub at: Timestamp,
    /// Why the service could not be started, or ended too often; `None` if it ran.
    pub error: Option<String>,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
    /// The tools whose description, parameters or annotations have changed since they were first listed, each with the time of the latest change. Such a tool may
    /// do something else than before.
    pub changed: BTreeMap<String, Timestamp>,
}

/// All services for runs in a workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceList {
    /// The services, by name.
    pub services: Vec<RegisteredService>,
    /// The project's file with services, if the user has not trusted its present content.
    pub untrusted: Option<UntrustedServices>,
    /// The services that cannot be used.
    pub skipped: Vec<SkippedService>,
    /// What was changed or left out where a project's file was read, one sentence each.
    pub notes: Vec<String>,
}

impl ServiceList {
    /// Returns the service of a name.
    ///
    /// # Errors
    /// [`ServiceError::NoSuchService`].
    pub fn find(&self, name: &str) -> Result<&RegisteredService, ServiceError> {
        let found = self.services.iter().find(|service| service.name.as_str() == name);
        found.ok_or_else(|| self.no_such_service(name))
    }

    fn no_such_service(&self, name: &str) -> ServiceError {
        let known = self.services.iter().map(|service| service.name.to_string());
        ServiceError::NoSuchService {
            name: name.to_owned(),
            known: known.collect(),
        }
    }
}

/// Lists the services of a configuration alone. Starts none, and needs no journal.
///
/// # Errors
/// The first setting that cannot be used.
pub fn configured_services(config: &Config) -> Result<ServiceList, ConfigError> {
    let registered = |config: ServiceConfig| RegisteredService {
        settings: secrets::hide(ServiceSettings::from(&config)),
        name: config.name,
        origin: ServiceOrigin::Configuration,
        hides: Vec::new(),
        state: ServiceState::Stopped(WhyStopped::NotNeeded),
        tools: ToolList::default(),
        last_start: None,
    };
    Ok(ServiceList {
        services: config.services()?.into_iter().map(registered).collect(),
        ..ServiceList::default()
    })
}

/// The services that an import has added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportedServices {
    /// The added services, each started once if it is enabled.
    pub added: Vec<RegisteredService>,
    /// The services that were not added, or that this process cannot use.
    pub skipped: Vec<SkippedService>,
    /// What was changed or left out, one sentence each.
    pub notes: Vec<String>,
}

impl Dirigent {
    /// Lists all services: those of the configuration, those that were added, and those of the project in `workspace`. Starts none.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn services(&self, workspace: Option<&Path>) -> Result<ServiceList, DirigentError> {
        let found = self.load_services(workspace).await?;
        Ok(self.list_services(found))
    }

    /// Adds a service, and starts it once to learn its tools, unless it is disabled. A service that cannot be started is added nevertheless:
    /// [`RegisteredService::last_start`] has the error.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`], [`ServiceError::Secret`], [`ServiceError::Exists`]; an error of the journal.
    pub async fn add_service(
        &self,
        name: &str,
        settings: ServiceSettings,
    ) -> Result<RegisteredService, DirigentError> {
        let config = checked(name, &settings)?;
        self.save_new(&config).await?;
        self.learn(&config.name).await
    }

    /// Replaces the settings of an added service, and starts it once to learn its tools, unless it is disabled or stopped.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`], [`ServiceError::Secret`], [`ServiceError::NoSuchService`], [`ServiceError::NotStored`]; an error of the journal.
    pub async fn update_service(
        &self,
        name: &str,
        settings: ServiceSettings,
    ) -> Result<RegisteredService, DirigentError> {
        self.stored_service(name).await?;
        let config = checked(name, &settings)?;
        let (stored, json) = (name.to_owned(), as_json(&config));
        let update =
            move |journal: &dirigent_store::Journal| journal.update_mcp_service(&stored, &json, now());
        if self.reading(update).await?.is_none() {
            // Another process has removed it since.
            return Err(self.services(None).await?.no_such_service(name).into());
        }
        self.learn(&config.name).await
    }

    /// Removes an added service. It is stopped if it runs in this process.
    ///
    /// # Errors
    /// [`ServiceError::NoSuchService`], [`ServiceError::NotStored`]; an error of the journal.
    pub async fn remove_service(&self, name: &str) -> Result<(), DirigentError> {
        let stored = name.to_owned();
        let is_configured = |config: &ServiceConfig| config.name.as_str() == name;
        let mark = match self.services.configured().iter().any(is_configured) {
            true => StopMark::Keep,
            false => StopMark::Delete,
        };
        let delete = move |journal: &dirigent_store::Journal| journal.delete_mcp_service(&stored, mark);
        // The service may be hidden by one of the configuration, or have settings that cannot be read.
        if !self.reading(delete).await? {
            self.stored_service(name).await?;
            return Err(self.services(None).await?.no_such_service(name).into());
        }
        self.load_services(None).await.map(drop)
    }

    /// Starts a service in this process, even if the user has stopped it, and waits until it runs. From now on, runs of all processes may start it again.
    ///
    /// # Errors
    /// [`ServiceError::NoSuchService`]; [`McpError::Disabled`](dirigent_mcp::McpError::Disabled) and [`McpError::Failed`](dirigent_mcp::McpError::Failed); an
    /// error of the journal.
    pub async fn start_service(
        &self,
        name: &str,
        workspace: Option<&Path>,
    ) -> Result<RegisteredService, DirigentError> {
        self.set_stopped(name, workspace, None).await?;
        let started = self.mcp.start(name).await;
        self.keep_starts().await?;
        started?;
        Ok(self.services(workspace).await?.find(name)?.clone())
    }

    /// Stops a service in this process, and marks it, so that no run of any process starts it again before [`Dirigent::start_service`]. Runs of
    /// other processes that use it go on.
    ///
    /// # Errors
    /// [`ServiceError::NoSuchService`]; an error of the journal.
    pub async fn stop_service(
        &self,
        name: &str,
        workspace: Option<&Path>,
    ) -> Result<RegisteredService, DirigentError> {
        self.keep_starts().await?;
        self.set_stopped(name, workspace, Some(now())).await?;
        Ok(self.services(workspace).await?.find(name)?.clone())
    }

    /// Adds the services of a JSON text in the formats of other clients: `mcpServers` of Claude Desktop, Claude Code and Cursor, and `servers` of VS Code. Each
    /// is added as by [`Dirigent::add_service`]; one that cannot be added, or not be used by this process, is in [`ImportedServices::skipped`].
    ///
    /// # Errors
    /// [`ServiceError::Import`] if the text as a whole cannot be read; an error of the journal.
    pub async fn import_services(&self, text: &str) -> Result<ImportedServices, DirigentError> {
        let import = dirigent_mcp::import(text).map_err(ServiceError::from)?;
        let mut imported = ImportedServices {
            skipped: import.skipped,
            notes: import.notes,
            ..ImportedServices::default()
        };
        let mut names = Vec::new();
        for config in import.services {
            let settings = ServiceSettings::from(&config);
            let saved = match checked(config.name.as_str(), &settings) {
                Ok(config) => self.save_new(&config).await,
                Err(error) => Err(error.into()),
            };
            match saved {
                Ok(()) => names.push(config.name),
                // The others are added nevertheless, also if the journal could not be written.
                Err(error) => imported.skipped.push(SkippedService {
                    name: config.name.to_string(),
                    reason: error.to_string(),
                }),
            }
        }
        self.load_services(None).await?;
        let learning = names.iter().map(|name| self.learn(name));
        for (name, learned) in names.iter().zip(join_all(learning).await) {
            match learned {
                Ok(service) => imported.added.push(service),
                Err(error) => imported.skipped.push(SkippedService {
                    name: name.to_string(),
                    reason: format!("it is saved, but cannot be used here: {error}"),
                }),
            }
        }
        Ok(imported)
    }

    /// Trusts a project's file with services with its present content, and starts each of its services once to learn its tools. After a
    /// change, the file must be trusted again.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn trust_services(&self, file: &UntrustedServices) -> Result<ServiceList, DirigentError> {
        let trusted = TrustedFile {
            path: file.path.to_string_lossy().into_owned(),
            digest: file.digest.clone(),
            at: now(),
        };
        self.reading(move |journal| journal.trust_file(trusted)).await?;
        let workspace = file.path.parent();
        let services = self.services(workspace).await?.services;
        let of_file = services
            .iter()
            .filter(|service| service.origin == ServiceOrigin::Project(file.path.clone()));
        let starting = of_file.map(|service| self.mcp.learn_tools(&service.name));
        // The list has the errors.
        join_all(starting).await;
        self.keep_starts().await?;
        self.services(workspace).await
    }

    /// Saves a service under a name that no other service has, apart from a project's.
    async fn save_new(&self, config: &ServiceConfig) -> Result<(), DirigentError> {
        let exists = |list: &ServiceList| match list.find(config.name.as_str()) {
            Ok(service) => Err(ServiceError::Exists {
                name: config.name.clone(),
                origin: service.origin.clone(),
            }),
            Err(_) => Ok(()),
        };
        exists(&self.services(None).await?)?;
        let (name, json) = (config.name.to_string(), as_json(config));
        let added = self
            .reading(move |journal| journal.add_mcp_service(&name, &json, now()))
            .await?;
        if !added {
            // Another process has added it since, or the service in the journal cannot be read.
            return Err(ServiceError::Exists {
                name: config.name.clone(),
                origin: ServiceOrigin::Store {
                    version: 1,
                    at: now(),
                },
            }
            .into());
        }
        Ok(())
    }

    /// Starts a service once, if it is enabled and the user has not stopped it, and keeps its tools.
    async fn learn(&self, name: &ServiceName) -> Result<RegisteredService, DirigentError> {
        self.load_services(None).await?;
        if self.mcp.service(name.as_str())?.state != ServiceState::Stopped(WhyStopped::ByUser) {
            // The service in the list has the error.
            let _ = self.mcp.start(name.as_str()).await;
        }
        self.keep_starts().await?;
        Ok(self.services(None).await?.find(name.as_str())?.clone())
    }

    /// Returns a service of the journal.
    async fn stored_service(&self, name: &str) -> Result<RegisteredService, DirigentError> {
        let service = self.services(None).await?.find(name)?.clone();
        match service.origin {
            ServiceOrigin::Store { .. } => Ok(service),
            ServiceOrigin::Configuration | ServiceOrigin::Project(_) => Err(ServiceError::NotStored {
                name: service.name,
                origin: service.origin,
            }
            .into()),
        }
    }

    async fn set_stopped(
        &self,
        name: &str,
        workspace: Option<&Path>,
        stopped: Option<Timestamp>,
    ) -> Result<(), DirigentError> {
        self.services(workspace).await?.find(name)?;
        let stored = name.to_owned();
        self.reading(move |journal| journal.set_mcp_service_stopped(&stored, stopped))
            .await?;
        self.load_services(workspace).await.map(drop)
    }
}

/// Checks the settings of a service that is to be stored.
fn checked(name: &str, settings: &ServiceSettings) -> Result<ServiceConfig, ServiceError> {
    let invalid = |problem: InvalidService| ServiceError::Invalid {
        name: name.escape_debug().to_string(),
        problem,
    };
    let name = ServiceName::new(name).map_err(invalid)?;
    if let Some((setting, secret)) = secrets::find(settings) {
        return Err(ServiceError::Secret {
            name,
            setting,
            secret,
        });
    }
    settings.config(name).map_err(invalid)
}

fn as_json(config: &ServiceConfig) -> String {
    json!(ServiceSettings::from(config)).to_string()
}
