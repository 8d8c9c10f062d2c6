//! The tools of MCP services in runs: which services a run needs, and where its calls go (MCP-2).

use std::path::PathBuf;

use dirigent_core::tool::ToolSpec;
use dirigent_mcp::{McpServices, service_of};
use dirigent_tools::{ToolEntry, ToolRegistry, ToolSource};
use futures::future::join_all;

use crate::blocking::blocking;
use crate::{Dirigent, DirigentError, Goal};

/// The tools of all runs: Dirigent's and the program's own, and those of the services.
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
    /// Returns the MCP services of the configuration, to start, stop and watch them. They end with [`Dirigent::shutdown`], or with the last clone
    /// of this.
    pub fn mcp(&self) -> &McpServices {
        &self.mcp
    }

    /// Adds to the goal the tools of the services that the run's agents name. A service whose tools are not known yet is started; one that
    /// cannot be started is left out, and the agents work without it.
    pub(crate) async fn with_service_tools(
        &self,
        mut goal: Goal,
        workspace: &str,
    ) -> Result<Goal, DirigentError> {
        if self.mcp.is_empty() {
            return Ok(goal);
        }
        let (factory, folder, asked) = (
            self.run_spec_factory.clone(),
            PathBuf::from(workspace),
            goal.clone(),
        );
        let services = blocking(move || Ok::<_, DirigentError>(factory.services_of(&asked, &folder))).await?;
        let learning = services.iter().map(|service| self.mcp.learn_tools(service));
        for (service, tools) in services.iter().zip(join_all(learning).await) {
            match tools {
                Ok(tools) => goal.own.service_tools.extend(tools),
                Err(error) => tracing::warn!(%service, %error, "agents work without the tools of a service"),
            }
        }
        Ok(goal)
    }
}

/// Returns the tools of services among the tools of a recorded run, so that a replay needs no service.
pub(crate) fn recorded_service_tools(tools: &[ToolSpec]) -> Vec<ToolSpec> {
    let of_services = tools.iter().filter(|tool| service_of(&tool.name).is_some());
    of_services.cloned().collect()
}
