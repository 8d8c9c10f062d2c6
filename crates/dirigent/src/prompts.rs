//! The prompts and tools that agents' models receive before any task (PROMPT-2).

use std::path::Path;

use dirigent_core::agent_spec::AgentSpec;
use dirigent_core::call::CallForm;
use dirigent_core::setup::RunSetup;
use dirigent_core::token_ratio::estimated_tokens;
use dirigent_core::tool::ToolSpec;

use crate::agents::PromptOptions;
use crate::blocking::blocking;
use crate::{Builder, DirigentError};

/// The prompt and the tools that an agent's model receives before any task (PROMPT-2).
#[derive(Clone, Debug, PartialEq)]
pub struct AgentPrompt {
    /// The agent's name: `lead`, `reflector` or the name of a sub-agent.
    pub agent: String,
    /// The form in which the agent's model calls tools.
    pub calls: CallForm,
    /// The system prompt.
    pub system: String,
    /// The tools that are offered natively, in order; empty for other call forms, whose system prompts describe the tools.
    pub tools: Vec<ToolSpec>,
    /// An estimate of the tokens of the system prompt and the tools.
    pub tokens: u64,
}

impl AgentPrompt {
    fn new(agent: &AgentSpec, setup: &RunSetup) -> Self {
        let calls = agent.profile.calls;
        let offered = || setup.offered_tools(agent);
        let tools = if calls.is_native() { offered() } else { Vec::new() };
        let of_tools: u64 = tools.iter().map(ToolSpec::estimated_tokens).sum();
        AgentPrompt {
            agent: agent.name.clone(),
            calls,
            tokens: estimated_tokens(&agent.system_prompt).saturating_add(of_tools),
            system: agent.system_prompt.clone(),
            tools,
        }
    }
}

impl Builder {
    /// Returns the prompts and tools that the models of all agents receive before any task: the lead, the reflector and the sub-agents,
    /// including those of the project in `workspace`. Opens no journal and asks no model.
    ///
    /// # Errors
    /// The errors of [`Builder::check`].
    pub async fn prompts(
        &self,
        workspace: Option<&Path>,
        options: PromptOptions,
    ) -> Result<Vec<AgentPrompt>, DirigentError> {
        let (builder, workspace) = (self.clone(), workspace.map(Path::to_owned));
        blocking(move || {
            let setup = builder.setup(workspace.as_deref(), options)?;
            Ok::<_, DirigentError>(
                setup
                    .all_agents()
                    .map(|agent| AgentPrompt::new(agent, &setup))
                    .collect(),
            )
        })
        .await
    }
}
