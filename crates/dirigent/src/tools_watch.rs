//! Tells runs how the tools of their services change while they are under way (MCP-2).

use std::collections::BTreeMap;
use std::sync::Arc;

use dirigent_core::id::RunId;
use dirigent_core::policy::Policy;
use dirigent_core::spec::{RunSpec, ServiceEndpoints};
use dirigent_core::steering::Steering;
use dirigent_core::tool::ToolSpec;
use dirigent_core::tools_change::ToolsChange;
use dirigent_mcp::{McpServices, ServiceEvent, ServiceName, ServiceState, service_of};
use dirigent_runtime::RunHandle;
use tokio::sync::broadcast::error::RecvError;

use crate::agents::described;
use crate::{Dirigent, DirigentError};

/// The tools of services that a run knows.
#[derive(Default)]
pub(crate) struct KnownTools {
    services: BTreeMap<ServiceName, Vec<ToolSpec>>,
    /// The digest of each service's program or address when the run started.
    endpoints: ServiceEndpoints,
    /// The only tools that the run's workflow allows; `None` for no restriction.
    allowed: Option<Vec<String>>,
    /// The rules of the run, which its tools' descriptions mention.
    policy: Policy,
}

impl KnownTools {
    /// `tools` are the run's tools as it knows them.
    pub(crate) fn new(spec: &RunSpec, tools: &[ToolSpec]) -> Self {
        let mut services: BTreeMap<ServiceName, Vec<ToolSpec>> = BTreeMap::new();
        for tool in tools.iter().filter(|tool| tool.category.is_called_by_name()) {
            if let Some(service) = service_of(&tool.name) {
                services.entry(service).or_default().push(tool.clone());
            }
        }
        let mut policy = spec.setup.policy.clone();
        // Descriptions do not depend on the calls that the user always allows.
        let configured = policy.rules.len().saturating_sub(spec.setup.approval_rules);
        policy.rules.truncate(configured);
        KnownTools {
            services,
            endpoints: spec.service_endpoints.clone(),
            allowed: spec.workflow.as_ref().and_then(|workflow| workflow.tools.clone()),
            policy,
        }
    }

    /// Compares the run's tools of a service with the present ones. `None` if they are the same, if the run has no tools of the service, as
    /// long as the service has not listed any, or if it has another program or address now: the run does not use it any more.
    fn update(&mut self, mcp: &McpServices, service: &ServiceName) -> Option<ToolsChange> {
        let known = self.services.get_mut(service)?;
        let endpoint = mcp.endpoint_digest(service.as_str()).ok()?;
        if self
            .endpoints
            .get(service.as_str())
            .is_some_and(|known| *known != endpoint)
        {
            return None;
        }
        let listed = mcp.tools(service.as_str()).ok()?;
        let is_running = mcp.service(service.as_str()).ok()?.state == ServiceState::Running;
        if listed.is_empty() && !is_running {
            return None;
        }
        let allowed = self.allowed.as_ref();
        let is_allowed = |tool: &&ToolSpec| allowed.is_none_or(|allowed| allowed.contains(&tool.name));
        let present = listed.specs().filter(is_allowed);
        let present: Vec<ToolSpec> = present.map(|tool| described(tool, &self.policy)).collect();
        let change = ToolsChange::between(service.as_str(), known, &present);
        *known = present;
        change
    }

    /// Tells the run about each change of these tools, until the services or the run end.
    async fn follow(mut self, mcp: McpServices, handle: RunHandle) {
        let mut events = mcp.watch();
        let all: Vec<ServiceName> = self.services.keys().cloned().collect();
        // The services may have changed their tools before they were watched.
        let mut changed = all.clone();
        loop {
            for service in std::mem::take(&mut changed) {
                if let Some(change) = self.update(&mcp, &service) {
                    let change = Arc::new(change);
                    // Fails only if the run ends at this moment.
                    let _ = handle.steer(Steering::ChangeTools { change }).await;
                }
            }
            match events.recv().await {
                Ok(ServiceEvent::ToolsChanged { service, .. } | ServiceEvent::State { service, .. }) => {
                    changed.push(service);
                }
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => changed.clone_from(&all),
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Watches the services in the background until the run ends.
    pub(crate) fn watch(self, mcp: McpServices, handle: RunHandle) {
        if self.services.is_empty() {
            return;
        }
        tokio::spawn(async move {
            let following = self.follow(mcp, handle.clone());
            tokio::select! {
                _ = handle.outcome() => {}
                () = following => {}
            }
        });
    }
}

impl Dirigent {
    /// Returns the services' tools that a run of the journal knows.
    pub(crate) async fn known_tools_of(&self, run: RunId) -> Result<KnownTools, DirigentError> {
        if self.mcp.is_empty() {
            return Ok(KnownTools::default());
        }
        let (view, _) = self.read(run).await?;
        Ok(KnownTools::new(view.run().spec(), view.run().tools()))
    }
}
