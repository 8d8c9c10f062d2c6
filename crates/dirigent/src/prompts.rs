//! The prompts and tools that agents' models receive before any task (PROMPT-2).

use std::path::Path;

use dirigent_core::agent_spec::AgentSpec;
use dirigent_core::call::CallForm;
use dirigent_core::mode::Mode;
use dirigent_core::setup::RunSetup;
use dirigent_core::token_ratio::estimated_tokens;
use dirigent_core::tool::ToolSpec;

use crate::agents::PromptOptions;
use crate::blocking::blocking;
use crate::services::listed_tools;
use crate::stored_settings::StoredSettings;
use crate::{Builder, Dirigent, DirigentError};

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
    /// including those of the project in `workspace`. The tools of services that agents name are those that the journal has. Reads only, and
    /// asks no model.
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
            Ok::<_, DirigentError>(all_prompts(&setup))
        })
        .await
    }
}

impl Dirigent {
    /// Returns the prompts and tools that the models of all agents of a new run receive before any task, with the agents of the project in
    /// `workspace`. `system_prompt` names the lead's base prompt; `None` for the configured one or the default. The tools of services that agents name are
    /// those that the services listed last; none is started.
    ///
    /// # Errors
    /// [`SystemPromptError::NoSuchPrompt`](crate::system_prompts::SystemPromptError::NoSuchPrompt); a model that is not configured; an error of
    /// the journal.
    pub async fn prompts(
        &self,
        workspace: Option<&Path>,
        mode: Mode,
        system_prompt: Option<&str>,
    ) -> Result<Vec<AgentPrompt>, DirigentError> {
        let stored = StoredSettings {
            base_prompts: self.base_prompts(system_prompt.map(str::to_owned)).await?,
            rules: Vec::new(),
        };
        let (factory, workspace) = (self.run_spec_factory.clone(), workspace.map(Path::to_owned));
        let (configured, folder) = (self.services.configured().to_vec(), workspace.clone());
        let listed = self
            .reading(move |journal| listed_tools(journal, configured, folder.as_deref()))
            .await?;
        blocking(move || {
            let setup = factory.setup_with_services(workspace.as_deref(), mode, &stored, listed)?;
            Ok::<_, DirigentError>(all_prompts(&setup))
        })
        .await
    }
}

fn all_prompts(setup: &RunSetup) -> Vec<AgentPrompt> {
    let agents = setup.all_agents();
    agents.map(|agent| AgentPrompt::new(agent, setup)).collect()
}
