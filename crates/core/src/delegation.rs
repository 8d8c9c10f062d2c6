//! How one agent has another one do something (PAOR-5): the tool that it calls for it, and to whom it may.
//!
//! The tool is not one of the run's: each sub-agent whose spec names [`DELEGATE`] is offered its own, which lists those that it may
//! delegate to. A call of it is never run: the agent's machine commands
//! [`Delegate`](crate::agent::AgentCommand::Delegate), the run's machine starts the other agent, and the other one's findings are
//! the call's result, a success with `{"agent", "findings", "calls"}` or a failure with the reason; either way with what the
//! other one changed.

use serde_json::{Value, json};

use crate::call::ToolCall;
use crate::id::AgentId;
use crate::prompt::one_line;
use crate::spec::AgentSpec;
use crate::tool::{Access, Repeat, ToolResult, ToolSpec};

/// The name of the tool by which an agent has another one do something. An agent that lists it among its tools may delegate.
pub const DELEGATE: &str = "delegate";

impl AgentSpec {
    /// Whether it may have others do something.
    pub fn may_delegate(&self) -> bool {
        self.tools.iter().any(|tool| tool == DELEGATE)
    }

    /// What it can do, in a line for those who choose among agents: `tools: look, change; may change the workspace; may
    /// delegate`.
    pub fn capabilities(&self) -> String {
        let tools: Vec<&str> = self
            .tools
            .iter()
            .map(String::as_str)
            .filter(|tool| *tool != DELEGATE)
            .collect();
        let tools = match tools.as_slice() {
            [] => "no tools".to_owned(),
            tools => format!("tools: {}", tools.join(", ")),
        };
        let access = match self.access {
            Access::ReadOnly => "changes nothing",
            Access::Execute => "may run commands",
            Access::ReadWrite => "may change the workspace",
        };
        let delegates = if self.may_delegate() { "; may delegate" } else { "" };
        one_line(&format!("{tools}; {access}{delegates}"))
    }
}

/// To whom an agent of that access may delegate: those whose access is no wider, in their order. Access alone decides: another one may have
/// tools that the caller has not.
pub fn delegation_targets(access: Access, agents: &[AgentSpec]) -> impl Iterator<Item = &AgentSpec> {
    agents.iter().filter(move |agent| agent.access <= access)
}

/// The tool of an agent of that access among those agents; none where there is nobody to delegate to.
pub fn delegate_tool(access: Access, agents: &[AgentSpec]) -> Option<ToolSpec> {
    let others: Vec<&AgentSpec> = delegation_targets(access, agents).collect();
    let first = others.first()?;
    let names: Vec<&str> = others.iter().map(|agent| agent.name.as_str()).collect();
    let lines: Vec<String> = others
        .iter()
        .map(|agent| {
            let (name, description) = (one_line(&agent.name), one_line(&agent.description));
            format!("- {name}: {description} ({})", agent.capabilities())
        })
        .collect();
    let description = format!(
        "Has another agent do a part of your task, and gives you what it found. It knows nothing but `task`, so that must say \
         everything it needs. Your own time limit is paused while it works. The agents:\n{}",
        lines.join("\n")
    );
    Some(ToolSpec {
        name: DELEGATE.to_owned(),
        description,
        parameters: json!({
            "type": "object",
            "properties": {
                "agent": {"type": "string", "enum": names, "description": "Which agent."},
                "task": {"type": "string", "minLength": 1, "description": "What it is to do, and what it is to report."}
            },
            "required": ["agent", "task"],
            "additionalProperties": false
        }),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        example: json!({"agent": first.name, "task": "Find every caller of `load` in src/ and report each with file and line."}),
    })
}

/// The agent and the task that a checked call of the tool names.
pub(crate) fn delegation(call: &ToolCall) -> Option<(String, String)> {
    let text = |name| {
        call.parameters
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    Some((text("agent")?, text("task")?))
}

/// The key of a result's metadata under which the id of the agent stands that the call has started.
const STARTED_AGENT: &str = "started_agent";

/// The result that says so.
pub(crate) fn with_started_agent(mut result: ToolResult, agent: AgentId) -> ToolResult {
    result.metadata.insert(STARTED_AGENT.to_owned(), json!(agent));
    result
}

/// The agent that the call of that result has started.
pub(crate) fn started_agent(result: &ToolResult) -> Option<AgentId> {
    serde_json::from_value(result.metadata.get(STARTED_AGENT)?.clone()).ok()
}
