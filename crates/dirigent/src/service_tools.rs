//! The tools of MCP services in runs: which services a run needs, and which service each call goes to (MCP-2, MCP-3).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::id::RunId;
use dirigent_core::intent::{self, Intent, IntentContext, KnownService, McpTarget, classify};
use dirigent_core::spec::AskedService;
use dirigent_core::tool::ToolSpec;
use dirigent_mcp::{McpServices, ServiceInfo, ServiceState, WhyStopped, service_of, tool_prefix};
use dirigent_store::RunRecord;
use dirigent_tools::{ToolEntry, ToolRegistry, ToolSource};
use futures::future::join_all;

use crate::approval_rules::{ServiceEndpoints, endpoints_of};
use crate::blocking::blocking;
use crate::services::{FoundServices, ServiceAccess};
use crate::worktree::users_folder;
use crate::{Dirigent, DirigentError, Goal};

/// The tools of all runs: Dirigent's tools, the program's own tools, and the services' tools.
pub(crate) struct AllTools {
    pub(crate) own: ToolRegistry,
    pub(crate) mcp: McpServices,
}

impl ToolSource for AllTools {
    fn specs(&self) -> Vec<ToolSpec> {
        let mut specs = self.own.specs();
        specs.extend(self.mcp.specs());
        specs.sort_by(|one, other| one.name.cmp(&other.name));
        specs
    }

    fn get(&self, name: &str) -> Option<ToolEntry> {
        self.own.get(name).or_else(|| self.mcp.get(name))
    }
}

impl Dirigent {
    /// Returns the MCP services of this process, to start, stop and watch them. Unlike [`Dirigent::start_service`] and
    /// [`Dirigent::stop_service`], this has no effect on other processes. The services are stopped by [`Dirigent::shutdown`], or when the
    /// last clone of the returned value is dropped.
    pub fn mcp(&self) -> &McpServices {
        &self.mcp
    }

    /// Adds to the goal the tools of the services that the run's agents name, or that the goal asks for. If a service's tools are not
    /// known yet, or the goal asks for the service, it is started. A service that cannot be started is left out, and the agents work
    /// without it. `users_folder` is the project folder whose services may be used.
    pub(crate) async fn with_service_tools(
        &self,
        mut goal: Goal,
        workspace: &str,
        users_folder: &str,
    ) -> Result<Goal, DirigentError> {
        let found = self.load_services(Some(Path::new(users_folder))).await?;
        if self.mcp.is_empty() {
            return Ok(goal);
        }
        goal.own.service_access = found.access();
        goal.own.service_endpoints = Arc::new(found.endpoints());
        let (factory, folder, asked) = (
            self.run_spec_factory.clone(),
            PathBuf::from(workspace),
            goal.clone(),
        );
        let named = move || {
            let of_goal = factory.for_goal(&asked)?;
            let factory = of_goal.as_ref().unwrap_or(&factory);
            Ok::<_, DirigentError>(factory.services_of(&asked, &folder))
        };
        let mut services = blocking(named).await?;
        services.retain(|service| found.has(service));
        let learning = services.iter().map(|service| self.mcp.learn_tools(service));
        for (service, tools) in services.iter().zip(join_all(learning).await) {
            match tools {
                Ok(tools) => goal.own.service_tools.extend(tools),
                Err(error) => {
                    tracing::warn!(%service, %error, "the tools of a service are unavailable, so agents work without them")
                }
            }
        }
        goal.services = self.asked_services(&mut goal, &found).await?;
        if let Err(error) = self.keep_starts().await {
            tracing::warn!(%error, "the tool lists of services could not be saved, so the services will be started again to list their tools");
        }
        Ok(goal)
    }

    /// Loads the services of a resumed run into this process.
    pub(crate) async fn load_services_of(&self, record: &RunRecord) -> Result<(), DirigentError> {
        let (run, record) = (record.run, record.clone());
        let folder = self
            .reading(move |journal| users_folder(journal, &record))
            .await?;
        self.load_services_for(run, &folder).await.map(drop)
    }

    /// Loads the services of a run that continues, or that another run continues, into this process. Returns the digests of the programs
    /// or addresses that the run's services had when it started, and logs which services have others now: the run does not call these.
    pub(crate) async fn load_services_for(
        &self,
        run: RunId,
        users_folder: &str,
    ) -> Result<ServiceEndpoints, DirigentError> {
        let found = self.load_services(Some(Path::new(users_folder))).await?;
        let present = found.endpoints();
        found.ensure_none_is_taken()?;
        let endpoints = self
            .reading(move |journal| endpoints_of(journal, run))
            .await?;
        for (service, endpoint) in endpoints.iter() {
            if present.get(service).is_some_and(|present| present != endpoint) {
                tracing::warn!(
                    %run, service,
                    "a service has another program or address than when the run started, so the run does not call it: start a new run to use it"
                );
            }
        }
        Ok(endpoints)
    }

    /// Returns the services that the goal asks for (MCP-3), and adds their tools to the run's tools.
    async fn asked_services(
        &self,
        goal: &mut Goal,
        found: &FoundServices,
    ) -> Result<Vec<AskedService>, DirigentError> {
        let services = self.known_services(found);
        let own_tools = self.run_spec_factory.tool_names();
        let context = IntentContext {
            services: &services,
            own_tools: &own_tools,
            ..IntentContext::default()
        };
        let Intent::Mcp(intent) = classify(&goal.checked_text()?, &context).intent else {
            return Ok(Vec::new());
        };
        let mut asked = Vec::new();
        for target in &intent.targets {
            match target {
                McpTarget::Tool { name, service, .. } => {
                    asked.push(self.asked_service(goal, service, Some(name)).await);
                }
                McpTarget::Service { name, .. } => asked.push(self.asked_service(goal, name, None).await),
                McpTarget::OwnTool { .. } => {}
                McpTarget::Unknown { name } => asked.push(AskedService {
                    name: name.clone(),
                    description: String::new(),
                    tools: Vec::new(),
                    problem: Some("there is no such tool or service".to_owned()),
                }),
            }
        }
        Ok(asked)
    }

    /// Returns a service that the goal asks for, with one of its tools or all of them.
    async fn asked_service(&self, goal: &mut Goal, name: &str, tool: Option<&str>) -> AskedService {
        let mut asked = AskedService {
            name: name.to_owned(),
            description: String::new(),
            tools: Vec::new(),
            problem: None,
        };
        let learned = match self.mcp.service(name) {
            Ok(service) => {
                let tools = self.mcp.running_tools(&service.name).await;
                asked.description = service.description;
                tools.map(|tools| (tool_prefix(&service.name), tools))
            }
            Err(error) => Err(error),
        };
        let (prefix, tools) = match learned {
            Ok(learned) => learned,
            Err(error) => {
                asked.problem = Some(error.to_string());
                return asked;
            }
        };
        for spec in tools {
            // Users name a tool either by its full name, as agents do, or by the service's own name for it.
            let names = [Some(spec.name.as_str()), spec.name.strip_prefix(&prefix)];
            if tool.is_none_or(|tool| names.contains(&Some(tool))) {
                asked.tools.push(spec.name.clone());
            }
            let known = &mut goal.own.service_tools;
            if known.iter().all(|other| other.name != spec.name) {
                known.push(spec);
            }
        }
        asked
    }

    /// Returns the enabled services, in the form that the classification of messages needs.
    pub(crate) fn known_services(&self, found: &FoundServices) -> Vec<KnownService> {
        let services = self.mcp.list().into_iter();
        let enabled = services.filter(|service| service.enabled && found.has(&service.name));
        enabled.map(known_service).collect()
    }
}

/// Converts a service for the classification of messages. Users name a tool as agents do, or by the service's own name for it.
fn known_service(service: ServiceInfo) -> KnownService {
    let prefix = tool_prefix(&service.name);
    let short = service.tools.iter().filter_map(|tool| tool.strip_prefix(&prefix));
    KnownService {
        tools: short
            .map(str::to_owned)
            .chain(service.tools.iter().cloned())
            .collect(),
        name: service.name.to_string(),
        trigger_keywords: service.trigger_keywords,
        state: match service.state {
            ServiceState::Running => intent::ServiceState::Running,
            ServiceState::Starting | ServiceState::Stopped(WhyStopped::NotNeeded) => {
                intent::ServiceState::Idle
            }
            ServiceState::Stopped(WhyStopped::ByUser | WhyStopped::Removed) => intent::ServiceState::Stopped,
            ServiceState::Error { .. } => intent::ServiceState::Failed,
        },
    }
}

/// Returns the tools of services among the tools of a recorded run, so that a replay needs no service.
pub(crate) fn recorded_service_tools(tools: &[ToolSpec]) -> Vec<ToolSpec> {
    let of_services = tools.iter().filter(|tool| service_of(&tool.name).is_some());
    of_services.cloned().collect()
}

/// Returns the services that these tools belong to. A service with a read-only tool was trusted.
pub(crate) fn recorded_services(tools: &[ToolSpec]) -> ServiceAccess {
    let mut services = BTreeMap::new();
    for tool in tools {
        if let Some(service) = service_of(&tool.name) {
            let access = services.entry(service).or_insert(tool.access);
            *access = tool.access.min(*access);
        }
    }
    services.into_iter().collect()
}
