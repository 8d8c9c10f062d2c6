//! The tools of MCP services in runs: which services a run needs, and which service each call goes to (MCP-2, MCP-3).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::id::RunId;
use dirigent_core::intent::{self, Intent, IntentContext, KnownService, McpTarget, classify};
use dirigent_core::spec::{AskedService, ServiceEndpoints};
use dirigent_core::tool::ToolSpec;
use dirigent_mcp::{
    McpServices, ServiceInfo, ServiceName, ServiceState, WhyStopped, service_of, tool_prefix,
};
use dirigent_store::RunRecord;
use dirigent_tools::{ToolEntry, ToolRegistry, ToolSource};
use futures::future::join_all;

use crate::blocking::blocking;
use crate::first_spec::{endpoints_of, first_spec};
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
        let earlier = self.services_of_earlier_turns(&mut goal, &found).await?;
        goal.services.extend(earlier);
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
        let endpoints = self.reading(move |journal| endpoints_of(journal, run)).await?;
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
                    is_from_earlier_turn: false,
                }),
            }
        }
        Ok(asked)
    }

    /// Returns the services that earlier turns of the conversation asked for and this goal does not, and adds their tools to the run's tools.
    /// Starts none whose tools are known. If the tools of one have changed since the last turn, the lead reads them again (MCP-2).
    async fn services_of_earlier_turns(
        &self,
        goal: &mut Goal,
        found: &FoundServices,
    ) -> Result<Vec<AskedService>, DirigentError> {
        let earlier = goal.turn.as_ref().and_then(|turn| turn.earlier.as_ref());
        let Some(last_run) = earlier.map(|earlier| earlier.last_run) else {
            return Ok(Vec::new());
        };
        let last = self.reading(move |journal| first_spec(journal, last_run)).await?;
        let Some(last) = last else { return Ok(Vec::new()) };
        let mut told = Vec::new();
        for service in last.services.iter().filter(|service| service.problem.is_none()) {
            let Ok(name) = ServiceName::new(&service.name) else {
                continue;
            };
            if !found.has(&name) || goal.services.iter().any(|asked| asked.name == service.name) {
                continue;
            }
            // Without its tools, the lead's call is an error that says so.
            let Ok(mut tools) = self.mcp.learn_tools(&name).await else {
                continue;
            };
            let before = last.setup.tools.iter();
            let mut before: Vec<&ToolSpec> = before
                .filter(|tool| service_of(&tool.name).as_ref() == Some(&name))
                .collect();
            goal.add_service_tools(tools.clone());
            // If the user asked for some of the tools only, the lead does not know the others.
            if service.tools.len() < before.len() {
                before.retain(|tool| service.tools.contains(&tool.name));
                tools.retain(|tool| service.tools.contains(&tool.name));
            }
            told.push(AskedService {
                tools: tools.iter().map(|tool| tool.name.clone()).collect(),
                is_from_earlier_turn: has_same_tools(&before, &tools),
                ..service.clone()
            });
        }
        Ok(told)
    }

    /// Returns a service that the goal asks for, with one of its tools or all of them.
    async fn asked_service(&self, goal: &mut Goal, name: &str, tool: Option<&str>) -> AskedService {
        let mut asked = AskedService {
            name: name.to_owned(),
            description: String::new(),
            tools: Vec::new(),
            problem: None,
            is_from_earlier_turn: false,
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
        // Users name a tool either by its full name, as agents do, or by the service's own name for it.
        let is_asked = |spec: &&ToolSpec| {
            let names = [Some(spec.name.as_str()), spec.name.strip_prefix(&prefix)];
            tool.is_none_or(|tool| names.contains(&Some(tool)))
        };
        asked.tools = tools
            .iter()
            .filter(is_asked)
            .map(|spec| spec.name.clone())
            .collect();
        // The run has the others as well, so that they do not seem to be new.
        goal.add_service_tools(tools);
        asked
    }

    /// Returns the enabled services, in the form that the classification of messages needs.
    pub(crate) fn known_services(&self, found: &FoundServices) -> Vec<KnownService> {
        let services = self.mcp.list().into_iter();
        let enabled = services.filter(|service| service.enabled && found.has(&service.name));
        enabled.map(known_service).collect()
    }
}

impl Goal {
    /// Adds tools of services to the run's tools, unless the run has them already.
    fn add_service_tools(&mut self, tools: impl IntoIterator<Item = ToolSpec>) {
        let known = &mut self.own.service_tools;
        for tool in tools {
            if known.iter().all(|other| other.name != tool.name) {
                known.push(tool);
            }
        }
    }
}

/// Returns true if a service has these tools with the same parameters and descriptions as before. The descriptions in a run also mention
/// rules, after the service's own words.
fn has_same_tools(before: &[&ToolSpec], now: &[ToolSpec]) -> bool {
    let is_same = |tool: &ToolSpec| {
        let before = before.iter().find(|before| before.name == tool.name);
        before.is_some_and(|before| {
            before.parameters == tool.parameters && before.description.starts_with(&tool.description)
        })
    };
    before.len() == now.len() && now.iter().all(is_same)
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
