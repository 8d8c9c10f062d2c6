//! Finds the services of all sources, and loads exactly these into this process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dirigent_core::time::Timestamp;
use dirigent_core::tool::{Access, ToolSpec};
use dirigent_mcp::{McpError, ServiceConfig, ServiceName, SkippedService};
use dirigent_store::{Journal, StoreError, StoredService, StoredServiceStart};
use futures::future::{BoxFuture, join_all};
use tokio::sync::Mutex;

use super::error::ServiceError;
use super::kept::KeptStart;
use super::project::{self, ProjectServices, UntrustedServices};
use super::settings::{digest, identity};
use super::{LastStart, RegisteredService, ServiceList, ServiceOrigin, ServiceSettings, secrets};
use crate::time::now;
use crate::{Dirigent, DirigentError};

/// The services whose tools agents may have, each with the access that its tools need, as far as this is known while the service is not
/// running.
pub(crate) type ServiceAccess = Vec<(ServiceName, Access)>;

/// Returns the entry of an enabled service.
pub(crate) fn access_of(config: &ServiceConfig) -> Option<(ServiceName, Access)> {
    let access = match config.trust {
        true => Access::ReadOnly,
        false => Access::ReadWrite,
    };
    config.enabled.then(|| (config.name.clone(), access))
}

/// Returns the entries of the services in the journal. Reads the journal.
pub(crate) fn stored_access(journal: &Journal) -> Result<ServiceAccess, StoreError> {
    let stored = journal.mcp_services()?;
    Ok(stored
        .iter()
        .filter_map(|stored| access_of(&config_of(stored).ok()?))
        .collect())
}

/// Returns who may use the services for runs in a workspace, and the tools that these services listed last. Loads and starts none of them. Blocks.
pub(crate) fn listed_tools(
    journal: &Journal,
    configured: Vec<ServiceConfig>,
    workspace: Option<&Path>,
) -> Result<(ServiceAccess, Vec<ToolSpec>), StoreError> {
    let found = find(journal, configured, workspace)?;
    let kept = found.services.iter().filter_map(|service| service.kept.as_ref());
    let tools = kept.flat_map(|(kept, _)| kept.tools.specs().cloned());
    Ok((found.access(), tools.collect()))
}

/// The services that this process knows.
pub(crate) struct ServiceRegistry {
    /// The services of the configuration.
    configured: Vec<ServiceConfig>,
    loaded: Mutex<BTreeMap<ServiceName, LoadedService>>,
}

/// A service that has an actor in this process.
struct LoadedService {
    identity: String,
    digest: String,
    origin: ServiceOrigin,
    /// True if the journal marks it as stopped.
    is_stopped: bool,
    kept: KeptStart,
}

impl ServiceRegistry {
    /// The services of the configuration.
    pub(crate) fn configured(&self) -> &[ServiceConfig] {
        &self.configured
    }

    pub(crate) fn new(configured: Vec<ServiceConfig>) -> Self {
        ServiceRegistry {
            configured,
            loaded: Mutex::default(),
        }
    }
}

/// The services for runs in a workspace, as they are configured.
pub(crate) struct FoundServices {
    services: Vec<FoundService>,
    /// The path of the project's services file, which may not exist.
    project_file: Option<PathBuf>,
    untrusted: Option<UntrustedServices>,
    skipped: Vec<SkippedService>,
    /// The services whose names are in use by other services of this process.
    taken: Vec<ServiceName>,
    notes: Vec<String>,
}

struct FoundService {
    config: ServiceConfig,
    origin: ServiceOrigin,
    hides: Vec<ServiceOrigin>,
    is_stopped: bool,
    kept: Option<(KeptStart, Timestamp)>,
}

impl FoundServices {
    /// Returns true if a service with this name may be used in the workspace.
    pub(crate) fn has(&self, name: &ServiceName) -> bool {
        self.services.iter().any(|service| service.config.name == *name)
    }

    /// Checks that a resumed run calls no service of another project.
    pub(crate) fn ensure_none_is_taken(self) -> Result<(), ServiceError> {
        match &self.taken[..] {
            [] => Ok(()),
            names => Err(ServiceError::Taken {
                names: names.to_vec(),
            }),
        }
    }

    pub(crate) fn access(&self) -> ServiceAccess {
        let services = self.services.iter();
        services
            .filter_map(|service| access_of(&service.config))
            .collect()
    }

    /// Returns the digest of the program or the address of each service, by its name.
    pub(crate) fn endpoints(&self) -> BTreeMap<String, String> {
        let services = self.services.iter().map(|service| &service.config);
        services
            .map(|config| (config.name.to_string(), config.endpoint_digest()))
            .collect()
    }

    /// Adds a service, unless a source with higher precedence has one with this name.
    fn add(&mut self, config: ServiceConfig, origin: ServiceOrigin) {
        let taken = self
            .services
            .iter_mut()
            .find(|other| other.config.name == config.name);
        match taken {
            Some(other) => other.hides.push(origin),
            None => self.services.push(FoundService {
                config,
                origin,
                hides: Vec::new(),
                is_stopped: false,
                kept: None,
            }),
        }
    }
}

/// Reads the services of all sources. Reads the journal and the disk.
fn find(
    journal: &Journal,
    configured: Vec<ServiceConfig>,
    workspace: Option<&Path>,
) -> Result<FoundServices, StoreError> {
    let project = match workspace {
        Some(workspace) => project::read(workspace, &journal.trusted_files()?),
        None => ProjectServices::default(),
    };
    let mut found = FoundServices {
        services: Vec::new(),
        project_file: workspace.map(project::file_in),
        untrusted: project.untrusted,
        skipped: project.skipped,
        taken: Vec::new(),
        notes: project.notes,
    };
    for config in configured {
        found.add(config, ServiceOrigin::Configuration);
    }
    for stored in journal.mcp_services()? {
        let (version, at) = (stored.version, stored.at);
        match config_of(&stored) {
            Ok(config) => found.add(config, ServiceOrigin::Store { version, at }),
            Err(reason) => found.skipped.push(SkippedService {
                name: stored.name,
                reason,
            }),
        }
    }
    if let Some(path) = project.path {
        for config in project.configs {
            found.add(config, ServiceOrigin::Project(path.clone()));
        }
    }
    let stopped: BTreeSet<String> = journal.stopped_mcp_services()?.into_iter().collect();
    let mut starts = journal.mcp_starts()?;
    for service in &mut found.services {
        service.is_stopped = stopped.contains(service.config.name.as_str());
        service.kept = take_kept(&mut starts, &service.config);
    }
    found
        .services
        .sort_by(|one, other| one.config.name.cmp(&other.config.name));
    Ok(found)
}

/// Returns the services for runs in a workspace, each with the digest of its program or address. Reads the journal and the disk.
pub(crate) fn endpoints(
    journal: &Journal,
    configured: Vec<ServiceConfig>,
    workspace: &Path,
) -> Result<BTreeMap<String, String>, StoreError> {
    let found = find(journal, configured, Some(workspace))?;
    Ok(found.endpoints())
}

fn config_of(stored: &StoredService) -> Result<ServiceConfig, String> {
    let settings: ServiceSettings = serde_json::from_str(&stored.config).map_err(|error| {
        format!("its stored settings cannot be read: {error}; remove it, and add it again")
    })?;
    let name = ServiceName::new(&stored.name).map_err(|error| error.to_string())?;
    settings.config(name).map_err(|error| error.to_string())
}

/// Removes and returns the result of the latest start with this configuration. An unreadable result counts as missing, so the service is
/// started again to learn its tools.
fn take_kept(starts: &mut Vec<StoredServiceStart>, config: &ServiceConfig) -> Option<(KeptStart, Timestamp)> {
    let digest = digest(config);
    let place = starts
        .iter()
        .position(|start| start.name == config.name.as_str() && start.digest == digest)?;
    let start = starts.swap_remove(place);
    Some((serde_json::from_str(&start.result).ok()?, start.at))
}

impl Dirigent {
    /// Reads the services for runs in a workspace, and loads exactly these into this process, in addition to the services of other
    /// projects. Starts none of them.
    pub(crate) async fn load_services(
        &self,
        workspace: Option<&Path>,
    ) -> Result<FoundServices, DirigentError> {
        let (configured, workspace) = (self.services.configured.clone(), workspace.map(Path::to_owned));
        let find = move |journal: &Journal| find(journal, configured, workspace.as_deref());
        // The lock is taken first, so that no older state replaces a newer one.
        let mut loaded = self.services.loaded.lock().await;
        let mut found = self.reading(find).await?;
        let mut ends = Vec::new();
        let reconciled = self.reconcile(&mut loaded, &mut found, &mut ends).await;
        // Others need not wait for services that end slowly.
        drop(loaded);
        join_all(ends).await;
        reconciled?;
        Ok(found)
    }

    /// Adds, replaces, stops and removes services of this process, so that they are the found ones. `ends` are the ends of the services that it stops.
    async fn reconcile(
        &self,
        loaded: &mut BTreeMap<ServiceName, LoadedService>,
        found: &mut FoundServices,
        ends: &mut Vec<BoxFuture<'static, ()>>,
    ) -> Result<(), McpError> {
        let gone = loaded.iter().filter(|(name, service)| match &service.origin {
            ServiceOrigin::Project(path) => found.project_file.as_ref() == Some(path) && !found.has(name),
            ServiceOrigin::Configuration | ServiceOrigin::Store { .. } => !found.has(name),
        });
        let gone: Vec<ServiceName> = gone.map(|(name, _)| name.clone()).collect();
        for name in gone {
            loaded.remove(&name);
            ends.extend(self.forget(&name)?);
        }
        let (mut usable, mut skipped) = (Vec::new(), Vec::new());
        for service in found.services.drain(..) {
            match self.reconcile_one(loaded, &service, ends).await {
                Ok(()) => usable.push(service),
                Err(ReconcileError::Taken(by)) => {
                    found.taken.push(service.config.name.clone());
                    skipped.push(SkippedService {
                        name: service.config.name.to_string(),
                        reason: format!(
                            "this process already has a service with this name, for {by}: rename one of them"
                        ),
                    });
                }
                Err(ReconcileError::Mcp(error)) => return Err(error),
            }
        }
        found.services = usable;
        found.skipped.extend(skipped);
        Ok(())
    }

    async fn reconcile_one(
        &self,
        loaded: &mut BTreeMap<ServiceName, LoadedService>,
        service: &FoundService,
        ends: &mut Vec<BoxFuture<'static, ()>>,
    ) -> Result<(), ReconcileError> {
        let name = &service.config.name;
        let identity = identity(&service.config);
        match loaded.get_mut(name) {
            Some(known) if is_other_project(&known.origin, &service.origin) => {
                return Err(ReconcileError::Taken(known.origin.to_string()));
            }
            Some(known) if known.identity == identity && (service.is_stopped || !known.is_stopped) => {
                known.origin = service.origin.clone();
                if service.is_stopped && !known.is_stopped {
                    known.is_stopped = true;
                    ends.push(self.mcp.begin_stop(name.as_str())?);
                }
                return Ok(());
            }
            Some(_) => {
                loaded.remove(name);
                ends.extend(self.forget(name)?);
            }
            None => {}
        }
        let kept = service
            .kept
            .as_ref()
            .map(|(kept, _)| kept.clone())
            .unwrap_or_default();
        let added = self.mcp.add(service.config.clone(), kept.tools.clone()).await;
        added.map_err(|error| match error {
            McpError::Twice { .. } => ReconcileError::Taken("the program that embeds Dirigent".to_owned()),
            error => ReconcileError::Mcp(error),
        })?;
        if service.is_stopped {
            // It does not run, so this does not wait.
            self.mcp.stop(name.as_str()).await?;
        }
        let known = LoadedService {
            identity,
            digest: digest(&service.config),
            origin: service.origin.clone(),
            is_stopped: service.is_stopped,
            kept,
        };
        loaded.insert(name.clone(), known);
        Ok(())
    }

    /// Removes a service of this process, if it still has it, and returns its end.
    fn forget(&self, name: &ServiceName) -> Result<Option<BoxFuture<'static, ()>>, McpError> {
        match self.mcp.begin_remove(name.as_str()) {
            Ok(end) => Ok(Some(end)),
            Err(McpError::UnknownService { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the results of starts in this process to the journal, unless they are already there. When this returns, the results that other tasks
    /// were writing are stored, too.
    pub(crate) async fn keep_starts(&self) -> Result<(), DirigentError> {
        // Locked until everything is stored: what is noted here counts as stored for other tasks.
        let mut loaded = self.services.loaded.lock().await;
        let at = now();
        let mut newer = Vec::new();
        for (name, service) in loaded.iter() {
            if let Some(kept) = service.kept.newer(&self.mcp, name, at) {
                newer.push((name.clone(), kept));
            }
        }
        self.store_starts(&mut loaded, newer, at).await
    }

    /// Removes the marks of a service's tools that have changed, because the user has seen the changes.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn acknowledge_tool_changes(&self, service: &RegisteredService) -> Result<(), DirigentError> {
        let Some(start) = service
            .last_start
            .as_ref()
            .filter(|start| !start.changed.is_empty())
        else {
            return Ok(());
        };
        let mut loaded = self.services.loaded.lock().await;
        let kept = loaded.get(&service.name).map(|known| known.kept.clone());
        // A change that came after those that the user has seen keeps its mark.
        let Some(mut kept) = kept else { return Ok(()) };
        kept.changed
            .retain(|tool, at| start.changed.get(tool) != Some(at));
        self.store_starts(&mut loaded, vec![(service.name.clone(), kept)], start.at)
            .await
    }

    async fn store_starts(
        &self,
        loaded: &mut BTreeMap<ServiceName, LoadedService>,
        newer: Vec<(ServiceName, KeptStart)>,
        at: Timestamp,
    ) -> Result<(), DirigentError> {
        let starts: Vec<StoredServiceStart> = newer
            .iter()
            .filter_map(|(name, kept)| {
                Some(StoredServiceStart {
                    name: name.to_string(),
                    digest: loaded.get(name)?.digest.clone(),
                    result: serde_json::json!(kept).to_string(),
                    at,
                })
            })
            .collect();
        if starts.is_empty() {
            return Ok(());
        }
        self.reading(move |journal| {
            starts
                .into_iter()
                .try_for_each(|start| journal.record_mcp_start(start))
        })
        .await?;
        for (name, kept) in newer {
            if let Some(service) = loaded.get_mut(&name) {
                service.kept = kept;
            }
        }
        Ok(())
    }

    /// Stops all services of this process, and stores the results of their starts. If storing fails, the error is only logged: the
    /// services are started again when their tools are needed.
    pub async fn end_services(&self) {
        if let Err(error) = self.keep_starts().await {
            tracing::warn!(%error, "the tool lists of services could not be saved, so the services will be started again to list their tools");
        }
        self.mcp.shutdown().await;
    }

    /// Returns the found services with their states.
    pub(super) fn list_services(&self, found: FoundServices) -> ServiceList {
        let services = found.services.into_iter().filter_map(|service| {
            let name = service.config.name.clone();
            // Another task may have removed the service in the meantime.
            let info = self.mcp.service(name.as_str()).ok()?;
            Some(RegisteredService {
                tools: self.mcp.tools(name.as_str()).ok()?,
                settings: shown_settings(&service),
                origin: service.origin,
                hides: service.hides,
                state: info.state,
                last_start: service.kept.map(|(kept, at)| LastStart {
                    at,
                    error: kept.error,
                    stderr: kept.stderr,
                    changed: kept.changed,
                }),
                name,
            })
        });
        ServiceList {
            services: services.collect(),
            untrusted: found.untrusted,
            skipped: found.skipped,
            notes: found.notes,
        }
    }
}

/// Why a service cannot be used in this process.
enum ReconcileError {
    /// A service of another project's file, or of the program, already has this name.
    Taken(String),
    Mcp(McpError),
}

impl From<McpError> for ReconcileError {
    fn from(error: McpError) -> Self {
        ReconcileError::Mcp(error)
    }
}

fn is_other_project(one: &ServiceOrigin, other: &ServiceOrigin) -> bool {
    match (one, other) {
        (ServiceOrigin::Project(one), ServiceOrigin::Project(other)) => one != other,
        (
            ServiceOrigin::Configuration | ServiceOrigin::Store { .. } | ServiceOrigin::Project(_),
            ServiceOrigin::Configuration | ServiceOrigin::Store { .. } | ServiceOrigin::Project(_),
        ) => false,
    }
}

/// Returns the settings without secrets. Settings in the journal contain no secrets anyway.
fn shown_settings(service: &FoundService) -> ServiceSettings {
    let settings = ServiceSettings::from(&service.config);
    match service.origin {
        ServiceOrigin::Store { .. } => settings,
        ServiceOrigin::Configuration | ServiceOrigin::Project(_) => secrets::hide(settings),
    }
}
