//! Delegation: a sub-agent has another agent do part of its task (PAOR-5).
//!
//! The `delegate` tool is not one of the run's tools: each sub-agent whose spec names [`DELEGATE`] is offered its own, which lists the
//! agents that it may delegate to. Its calls are not executed like other calls. The agent's machine commands
//! [`Delegate`](crate::agent::AgentCommand::Delegate), the run's machine starts the other agent, and that agent's findings become the result
//! of the call: a success with `{"agent", "findings", "calls"}` or a failure with the reason, and in both cases the changes it made.

use serde_json::{Value, json};

use crate::id::AgentId;
use crate::message::ToolCall;
use crate::spec::{AgentSpec, DELEGATE};
use crate::text::one_line;
use crate::tool::{Access, Repeat, ToolResult, ToolSpec};

/// The agents that an agent with this access may delegate to: those with the same or less access. Tools do not matter; a target may have
/// tools that the caller lacks.
pub fn delegation_targets(access: Access, agents: &[AgentSpec]) -> impl Iterator<Item = &AgentSpec> {
    agents.iter().filter(move |agent| agent.access <= access)
}

/// The `delegate` tool for an agent with this access; `None` if there is no agent to delegate to.
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

/// The agent and the task in a checked call of the `delegate` tool.
pub(crate) fn delegation(call: &ToolCall) -> Option<(String, String)> {
    let text = |name| {
        call.parameters
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    Some((text("agent")?, text("task")?))
}

/// The metadata key of a result for the id of the agent that the call started.
const STARTED_AGENT: &str = "started_agent";

/// Adds the id of the started agent to the result's metadata.
pub(crate) fn with_started_agent(mut result: ToolResult, agent: AgentId) -> ToolResult {
    result.metadata.insert(STARTED_AGENT.to_owned(), json!(agent));
    result
}

/// The agent that the call with this result started.
pub(crate) fn started_agent(result: &ToolResult) -> Option<AgentId> {
    serde_json::from_value(result.metadata.get(STARTED_AGENT)?.clone()).ok()
}
