//! How one agent has another one do something (PAOR-5): the tool that it calls for it, and to whom it may.
//!
//! The tool is not one of the run's: each sub-agent whose spec names [`DELEGATE`] is offered its own, which lists those that it may
//! delegate to. A call of it is never run: the agent's machine commands
//! [`Delegate`](crate::agent::AgentCommand::Delegate), the run's machine starts the other agent, and the other one's findings are
//! the call's result, a success with `{"agent", "findings", "calls"}` or a failure with the reason; either way with what the
//! other one changed.

use serde_json::{Value, json};

use crate::id::AgentId;
use crate::message::ToolCall;
use crate::spec::{AgentSpec, DELEGATE};
use crate::text::one_line;
use crate::tool::{Access, Repeat, ToolResult, ToolSpec};

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
