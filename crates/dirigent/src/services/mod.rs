//! The registry of MCP services (MCP-1). Services come from the configuration, from the journal, to which the user adds them, and from a
//! project's `.mcp.json`.
//!
//! The journal stores added services, which services the user has stopped, and the tools that each service last listed. If several
//! sources define a service of the same name, the configuration takes precedence, then the journal, then the project. A project's file is
//! used only while its content is what the user has trusted.
//!
//! Each process starts its own services. A service that nothing needs is not started.
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
    FoundServices, ServiceAccess, ServiceRegistry, access_of, endpoints, listed_tools, stored_access,
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
    /// The other sources that define a service of this name. Their definitions are not used.
    pub hides: Vec<ServiceOrigin>,
    /// The state in this process. A service that the user has stopped also stays stopped in later processes.
    pub state: ServiceState,
    /// The tools that the service listed most recently, in any process.
    pub tools: ToolList,
    /// The result of the latest start in any process; `None` if the service was not started with these settings.
    pub last_start: Option<LastStart>,
}

impl RegisteredService {
    /// Returns the state in a word: `disabled`, `stopped` (by the user), `not started` (no run has needed it), `starting`, `running` or `error`.
    pub fn state_name(&self) -> &'static str {
        let has_failed = self
            .last_start
            .as_ref()
            .is_some_and(|start| start.error.is_some());
        match &self.state {
            _ if !self.settings.enabled => "disabled",
            ServiceState::Stopped(WhyStopped::ByUser | WhyStopped::Removed) => "stopped",
            ServiceState::Starting => "starting",
            ServiceState::Running => "running",
            ServiceState::Error { .. } => "error",
            ServiceState::Stopped(WhyStopped::NotNeeded) if has_failed => "error",
            ServiceState::Stopped(WhyStopped::NotNeeded) => "not started",
        }
    }

    /// Returns the names under which agents call the service's tools, each with a one-sentence description by the service.
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
    /// When this result was first observed.
    pub at: Timestamp,
    /// Why the service could not be started, or ended too often; `None` if it started successfully.
    pub error: Option<String>,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
    /// The tools whose description, parameters or annotations have changed since they were first listed, each with the time of the latest
    /// change. Such a tool may now do something else.
    pub changed: BTreeMap<String, Timestamp>,
}

/// All services for runs in a workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceList {
    /// The services, by name.
    pub services: Vec<RegisteredService>,
    /// The project's services file, if the user has not yet trusted its current content.
    pub untrusted: Option<UntrustedServices>,
    /// The services that cannot be used.
    pub skipped: Vec<SkippedService>,
    /// Notes about entries of the project's file that were changed or left out, one sentence each.
    pub notes: Vec<String>,
}

impl ServiceList {
    /// Returns the service with this name.
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
    /// Notes about entries that were changed or left out, one sentence each.
    pub notes: Vec<String>,
}

impl Dirigent {
    /// Lists the services of the configuration, the added services, and the services of the project in `workspace`. Starts none of them.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn services(&self, workspace: Option<&Path>) -> Result<ServiceList, DirigentError> {
        let found = self.load_services(workspace).await?;
        Ok(self.list_services(found))
    }

    /// Adds a service, and starts it once to learn its tools, unless it is disabled. A service that cannot be started is still added;
    /// [`RegisteredService::last_start`] contains the error.
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
            // Another process has removed the service in the meantime.
            return Err(self.services(None).await?.no_such_service(name).into());
        }
        self.learn(&config.name).await
    }

    /// Removes an added service. If it is running in this process, it is stopped.
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

    /// Starts a service in this process, even if the user has stopped it, and waits until it is ready. From then on, runs in any process
    /// may start it again.
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

    /// Stops a service in this process and marks it as stopped: no run in any process starts it again until [`Dirigent::start_service`]
    /// is called. Runs in other processes that are already using it are not affected.
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
    /// In their settings, `${workspaceFolder}` stands for `workspace`.
    ///
    /// # Errors
    /// [`ServiceError::Import`] if the text as a whole cannot be read; an error of the journal.
    pub async fn import_services(
        &self,
        text: &str,
        workspace: &Path,
    ) -> Result<ImportedServices, DirigentError> {
        let workspace = std::path::absolute(workspace).unwrap_or_else(|_| workspace.to_owned());
        let import = dirigent_mcp::import(text, &workspace).map_err(ServiceError::from)?;
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

    /// Trusts the current content of a project's services file, and starts each of its services once to learn their tools. If the file
    /// changes, it must be trusted again.
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
        // The returned list contains the errors.
        join_all(starting).await;
        self.keep_starts().await?;
        self.services(workspace).await
    }

    /// Withdraws the trust in the services file of the project in `workspace`: no run uses its services from now on. Runs of other processes
    /// that are already using them are not affected. Returns the file's path, or `None` if it was not trusted.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn withdraw_services_trust(&self, workspace: &Path) -> Result<Option<PathBuf>, DirigentError> {
        let path = project::file_in(workspace);
        let shown = path.to_string_lossy().into_owned();
        let was_trusted = self
            .reading(move |journal| journal.withdraw_trust(&shown))
            .await?;
        self.load_services(Some(workspace)).await?;
        Ok(was_trusted.then_some(path))
    }

    /// Saves a service under a name that no other service has, except a project's service.
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
            // Another process has added the service in the meantime, or the service in the journal cannot be read.
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

    /// Starts a service once, if it is enabled and the user has not stopped it, and stores its tools.
    async fn learn(&self, name: &ServiceName) -> Result<RegisteredService, DirigentError> {
        self.load_services(None).await?;
        if self.mcp.service(name.as_str())?.state != ServiceState::Stopped(WhyStopped::ByUser) {
            // The service in the returned list contains the error.
            let _ = self.mcp.start(name.as_str()).await;
        }
        self.keep_starts().await?;
        Ok(self.services(None).await?.find(name.as_str())?.clone())
    }

    /// Returns a service that is stored in the journal.
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
