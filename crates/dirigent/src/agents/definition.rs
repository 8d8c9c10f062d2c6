//! The definition of an agent, and its conversion to a run's [`AgentSpec`].

use std::borrow::Cow;

use dirigent_core::agent_spec::{AgentSpec, AnswerForm, BasePrompt, DELEGATE, ModelProfile};
use dirigent_core::delegation::delegate_tool;
use dirigent_core::limits::{AgentLimitSettings, AgentLimits};
use dirigent_core::loop_tools::{CALL_TOOL, DESCRIBE_TOOL, loop_tools, service_tools};
use dirigent_core::mode::Mode;
use dirigent_core::prompt::{self, READ_OUTPUT, roles};
use dirigent_core::time::Millis;
use dirigent_core::tool::{Access, ToolSpec};
use dirigent_mcp::service_of;

use crate::DirigentError;
use crate::known_tools::{KnownTools, OPTIONAL_TOOLS, stands_for, tools_beyond_access};

/// The name, description, role, tools, access, model and limits of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentDefinition {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) role: String,
    pub(super) tools: Vec<String>,
    pub(super) access: Access,
    pub(super) model: Option<String>,
    /// The limits that the definition itself sets.
    pub(super) limits: AgentLimitSettings,
    /// The limits that apply if no other source sets them.
    pub(super) default_limits: AgentLimits,
    pub(super) answer: AnswerForm,
}

/// The model, limits and other data that an agent gets for a run, in addition to its definition.
pub(super) struct AgentSettings {
    pub(super) model: AgentModel,
    pub(super) limits: AgentLimits,
    pub(super) base_prompt: Option<BasePrompt>,
}

/// The model of an agent.
#[derive(Default)]
pub(super) struct AgentModel {
    pub(super) name: Option<String>,
    /// The provider, name and address of the model; `None` without a configuration.
    pub(super) asks: Option<String>,
    pub(super) profile: ModelProfile,
}

impl AgentDefinition {
    /// Creates a sub-agent without tools and with read access. `description` tells the lead what the agent is good for. `role` is the
    /// beginning of the agent's system prompt, before a description of the tools, the calling convention and instructions about when to
    /// finish.
    pub fn new(name: impl Into<String>, description: impl Into<String>, role: impl Into<String>) -> Self {
        AgentDefinition {
            name: name.into(),
            description: description.into(),
            role: role.into(),
            tools: Vec::new(),
            access: Access::ReadOnly,
            model: None,
            limits: AgentLimitSettings::default(),
            default_limits: AgentLimits::default(),
            answer: AnswerForm::Text,
        }
    }

    /// Sets the tools that the agent may call, by name. With [`DELEGATE`](dirigent_core::agent_spec::DELEGATE), it may delegate parts of its task
    /// to sub-agents of the run that have at most its own access, including further agents with the same definition (PAOR-5). Its time
    /// limit is paused while they work.
    pub fn tools<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.tools = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the access of the agent, which limits what its tools may do; the default is [`Access::ReadOnly`].
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Sets the model that the agent asks instead of the default model. With a configuration, this is a reference to one of its models or
    /// `provider/name`, and `[roles]` takes precedence for an agent of this name.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets all limits ([`AgentLimits`]) or some of them ([`AgentLimitSettings`]). The other limits come from `[limits.agents]` of the
    /// configuration or, if it does not set them, from the defaults. [`Goal::agent_limits`](crate::Goal::agent_limits) and `[limits.NAME]`
    /// take precedence over the limits of this definition.
    pub fn limits(self, limits: impl Into<AgentLimitSettings>) -> Self {
        AgentDefinition {
            limits: limits.into(),
            ..self
        }
    }

    pub(super) fn with_model(self, model: Option<String>) -> Self {
        AgentDefinition { model, ..self }
    }

    pub(super) fn default_limits(self, default_limits: AgentLimits) -> Self {
        AgentDefinition {
            default_limits,
            ..self
        }
    }

    /// Returns the name by which plans choose the agent.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the role, which is the beginning of the agent's system prompt.
    pub fn role(&self) -> &str {
        &self.role
    }

    /// Returns the model that the definition sets.
    pub(crate) fn own_model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns the form of the agent's final answer.
    pub(crate) fn answer(&self) -> AnswerForm {
        self.answer
    }

    /// Returns the first tool that needs more access than the agent has, with the access that it needs.
    pub(crate) fn first_tool_beyond_access(&self, known: &KnownTools) -> Option<(&str, Access)> {
        tools_beyond_access(self.access, &self.tools, known).next()
    }

    /// Removes the optional tools that do not exist in this configuration.
    pub(super) fn without_missing_tools(mut self, known: &KnownTools) -> Self {
        self.tools
            .retain(|tool| known.contains_key(tool) || !OPTIONAL_TOOLS.contains(&tool.as_str()));
        self
    }

    /// Removes the tools that need more access than the agent has, because it could never call them. Also returns a note for display.
    pub(super) fn without_inaccessible_tools(mut self, known: &KnownTools) -> (Self, Vec<String>) {
        let left_out: Vec<String> = tools_beyond_access(self.access, &self.tools, known)
            .map(|(tool, _)| tool.to_owned())
            .collect();
        if left_out.is_empty() {
            return (self, Vec::new());
        }
        self.tools.retain(|tool| !left_out.contains(tool));
        let note = format!(
            "tools left out, because they need more than {} access: {}",
            self.access,
            left_out.join(", ")
        );
        (self, vec![note])
    }

    /// Returns the part of the agent's spec that other agents need in order to delegate to it.
    pub(super) fn stub(&self) -> AgentSpec {
        AgentSpec {
            name: self.name.clone(),
            description: self.description.clone(),
            system_prompt: String::new(),
            base_prompt: None,
            deepest_prompt: None,
            tools: self.tools.clone(),
            access: self.access,
            model: None,
            asks: None,
            profile: ModelProfile::default(),
            limits: AgentLimits::default(),
            answer: self.answer,
        }
    }

    /// Builds the agent's spec for a run. `agents` are the agents of the run, to which the agent may delegate.
    pub(super) fn spec(
        &self,
        tools: &[ToolSpec],
        agents: &[AgentSpec],
        settings: AgentSettings,
    ) -> Result<AgentSpec, DirigentError> {
        let AgentSettings {
            model:
                AgentModel {
                    name: model,
                    asks,
                    profile,
                },
            limits,
            base_prompt,
        } = settings;
        let delegate = delegate_tool(self.access, &self.tools, agents);
        let loop_tools = loop_tools(self.answer);
        let service_tools = service_tools();
        let mut offered = Vec::new();
        for name in &self.tools {
            if service_of(name).is_some() {
                offered.extend(self.tools_of_service(name, tools));
                continue;
            }
            let known = tools.iter().chain(&delegate).chain(&service_tools);
            match known.into_iter().find(|tool| tool.name == *name) {
                Some(tool) => offered.push(tool),
                None => {
                    let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                    let reason = format!("there is no tool `{name}`; available: {}", known.join(", "));
                    return Err(DirigentError::Agent {
                        name: self.name.clone(),
                        reason,
                    });
                }
            }
        }
        offered.extend(&loop_tools);
        offered.sort_by_key(|tool| (tool.category, tool.name.as_str()));
        let role = match &base_prompt {
            Some(base) => Cow::Owned(format!("{}\n\n{}", base.text.trim_end(), self.role)),
            None => Cow::Borrowed(self.role.as_str()),
        };
        let prompted = |tools: &[&ToolSpec]| {
            let forms: Vec<_> = tools
                .iter()
                .map(|tool| tool.offered_to(self.access, self.answer))
                .collect();
            let forms: Vec<&ToolSpec> = forms.iter().map(AsRef::as_ref).collect();
            prompt::system_prompt(&role, &forms, self.answer, profile.calls, &limits)
        };
        let delegates = |tool: &&ToolSpec| {
            delegate
                .as_ref()
                .is_some_and(|delegate| std::ptr::eq(*tool, delegate))
        };
        let others: Vec<&ToolSpec> = offered.iter().copied().filter(|tool| !delegates(tool)).collect();
        Ok(AgentSpec {
            system_prompt: prompted(&offered),
            deepest_prompt: (others.len() < offered.len()).then(|| prompted(&others)),
            base_prompt,
            model,
            asks,
            profile,
            limits,
            tools: offered.iter().map(|tool| tool.name.clone()).collect(),
            ..self.stub()
        })
    }
}

impl AgentDefinition {
    /// If `calls_services` is true, adds the tools for calling services' tools (MCP-4).
    pub(super) fn with_service_calls(mut self, calls_services: bool) -> Self {
        if calls_services {
            self.tools.extend([CALL_TOOL, DESCRIBE_TOOL].map(str::to_owned));
        }
        self
    }

    /// Removes all tools except delegation and the tool that rereads earlier outputs.
    pub(super) fn with_delegation_only(mut self) -> Self {
        self.tools
            .retain(|tool| [DELEGATE, READ_OUTPUT].contains(&tool.as_str()));
        self
    }

    /// Returns the service's tools that match a name or pattern, except those that need more access than the agent has. Empty if the
    /// service is not running (MCP-2).
    fn tools_of_service<'a>(&self, name: &str, tools: &'a [ToolSpec]) -> Vec<&'a ToolSpec> {
        let fits = |tool: &&ToolSpec| stands_for(name, &tool.name) && tool.access <= self.access;
        tools.iter().filter(fits).collect()
    }
}

/// The default limits of the lead and the reflector.
fn lead_limits() -> AgentLimits {
    AgentLimits {
        max_turns: 60,
        timeout: Millis::from_secs(30 * 60),
        ..AgentLimits::default()
    }
}

/// Returns the lead for runs in this mode: with delegation (LEAD-2), and with those of `tools` that its access allows, except services'
/// tools.
pub(crate) fn lead(tools: &[ToolSpec], mode: Mode) -> AgentDefinition {
    let tools = tools.iter().filter(|tool| !tool.category.is_called_by_name());
    let tools = tools.map(|tool| tool.name.as_str());
    let access = match mode {
        Mode::Auto => Access::ReadWrite,
        Mode::Plan | Mode::ApprovedPlan => Access::ReadOnly,
    };
    let definition = AgentDefinition::new("lead", "Answers, acts, delegates or plans.", roles::lead(mode))
        .tools(tools.filter(|tool| *tool != DELEGATE).chain([DELEGATE]))
        .access(access)
        .default_limits(lead_limits());
    AgentDefinition {
        answer: AnswerForm::Plan,
        ..definition
    }
}

/// The tools with which the reflector inspects the result.
const REFLECTOR_TOOLS: [&str; 6] = [
    "file_operations",
    "find_definition",
    "git",
    "list_symbols",
    READ_OUTPUT,
    "search",
];

/// Returns the reflector. It has read access only, and only the tools in [`REFLECTOR_TOOLS`].
pub(crate) fn reflector(tools: &[ToolSpec]) -> AgentDefinition {
    let tools = tools.iter().map(|tool| tool.name.as_str());
    let definition = AgentDefinition::new("reflector", "Judges the iteration.", roles::REFLECTOR)
        .tools(tools.filter(|tool| REFLECTOR_TOOLS.contains(tool)))
        .access(Access::ReadOnly)
        .default_limits(lead_limits());
    AgentDefinition {
        answer: AnswerForm::Reflection,
        ..definition
    }
}
