//! Who there is: the planner, the reflector and the sub-agents, defined by what they are told and allowed.

use dirigent_core::delegate::delegate_tool;
use dirigent_core::limits::AgentLimits;
use dirigent_core::prompt::{self, roles};
use dirigent_core::spec::{AgentSpec, AnswerForm, ModelProfile};
use dirigent_core::tool::{Access, ToolSpec};

use crate::DirigentError;

/// An agent as its author defines it.
#[derive(Clone, Debug)]
pub struct AgentDefinition {
    name: String,
    description: String,
    role: String,
    tools: Vec<String>,
    access: Access,
    model: Option<String>,
    limits: AgentLimits,
    answer: AnswerForm,
}

impl AgentDefinition {
    /// A sub-agent that may use no tools. `description` tells the planner what it is good for, `role` tells the agent what it
    /// is; tools, the calling convention and when to finish are added to its prompt.
    pub fn new(name: impl Into<String>, description: impl Into<String>, role: impl Into<String>) -> Self {
        AgentDefinition {
            name: name.into(),
            description: description.into(),
            role: role.into(),
            tools: Vec::new(),
            access: Access::ReadOnly,
            model: None,
            limits: AgentLimits::default(),
            answer: AnswerForm::Text,
        }
    }

    /// The tools it may call, by name. With [`DELEGATE`](dirigent_core::delegate::DELEGATE) among them it may have the run's other
    /// sub-agents, and others of its own kind, do parts of its task, as long as their access is no wider than its own (PAOR-5). Their time
    /// is part of its own.
    pub fn tools<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.tools = tools.into_iter().map(Into::into).collect();
        self
    }

    /// What those tools may do: [`Access::ReadOnly`] if not said.
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Which model it asks, if not the default. With a configuration one that it has, by its name there, or `provider/name`; the
    /// configuration's `[roles]` may say otherwise for an agent of this name.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Its limits.
    pub fn limits(mut self, limits: AgentLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which model its author gave it.
    pub(crate) fn own_model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// What it ends with.
    pub(crate) fn answer(&self) -> AnswerForm {
        self.answer
    }

    /// What other agents, which may delegate to it, are told of it.
    pub(crate) fn outline(&self) -> AgentSpec {
        AgentSpec {
            name: self.name.clone(),
            description: self.description.clone(),
            system_prompt: String::new(),
            tools: self.tools.clone(),
            access: self.access,
            model: None,
            asks: None,
            profile: ModelProfile::default(),
            limits: self.limits.clone(),
            answer: self.answer,
        }
    }

    /// What a run has of it, asking that model, of which that is known. `agents` are those that it may delegate to, if it may.
    pub(crate) fn spec(
        &self,
        tools: &[ToolSpec],
        agents: &[AgentSpec],
        model: Option<String>,
        profile: ModelProfile,
    ) -> Result<AgentSpec, DirigentError> {
        // A sub-agent alone may delegate; a tool of that name is the user's own.
        let delegate = match self.answer {
            AnswerForm::Text => delegate_tool(self.access, agents),
            AnswerForm::Plan | AnswerForm::Reflection => None,
        };
        let mut offered = Vec::new();
        for name in &self.tools {
            match tools.iter().chain(&delegate).find(|tool| tool.name == *name) {
                Some(tool) => offered.push(tool),
                None => {
                    let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
                    let reason = format!("there is no tool `{name}`; there are {}", known.join(", "));
                    return Err(DirigentError::Agent {
                        name: self.name.clone(),
                        reason,
                    });
                }
            }
        }
        Ok(AgentSpec {
            system_prompt: prompt::system_prompt(&self.role, &offered, self.answer, profile.calls),
            model,
            profile,
            ..self.outline()
        })
    }
}

const LOOKING: [&str; 4] = ["file_operations", "read_output", "rename_symbol", "search"];

pub(crate) fn planner() -> AgentDefinition {
    let definition = AgentDefinition::new("planner", "Makes the plan.", roles::PLANNER).tools(LOOKING);
    AgentDefinition {
        answer: AnswerForm::Plan,
        ..definition
    }
}

pub(crate) fn reflector() -> AgentDefinition {
    let definition =
        AgentDefinition::new("reflector", "Judges the round.", roles::REFLECTOR).tools(["read_output"]);
    AgentDefinition {
        answer: AnswerForm::Reflection,
        ..definition
    }
}

/// The sub-agents that come with Dirigent.
pub(crate) fn built_in() -> Vec<AgentDefinition> {
    vec![
        AgentDefinition::new(
            "explore",
            "Searches and reads the workspace and reports findings with file and line. Never changes anything.",
            roles::EXPLORE,
        )
        .tools(LOOKING),
        AgentDefinition::new("implement", "Changes files to carry out one task, and says what it changed.", roles::IMPLEMENT)
            .tools(["execute_command", "file_operations", "read_output", "rename_symbol", "search"])
            .access(Access::ReadWrite)
            .limits(AgentLimits { max_turns: 200, ..AgentLimits::default() }),
        AgentDefinition::new(
            "verify",
            "Looks for what would show a claim about the workspace wrong, such as leftovers. Never changes anything; commands are \
             run as calls.",
            roles::VERIFY,
        )
        .tools(LOOKING),
    ]
}
