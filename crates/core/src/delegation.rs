//! Delegation: a sub-agent assigns part of its task to another agent (PAOR-5).
//!
//! The `delegate` tool is not one of the run's tools. Each sub-agent whose spec lists [`DELEGATE`] is offered a separate version of the
//! tool, which lists the agents to which that sub-agent may delegate. Calls of this tool are not executed like other tool calls: the
//! agent's state machine returns the command [`Delegate`](crate::agent::AgentCommand::Delegate), the run's machine starts the other agent, and
//! the findings of that agent become the result of the call. The result is a success with `{"agent", "findings", "calls"}` or a failure
//! with the reason, and in both cases contains the changes that the agent made.

use serde_json::{Value, json};

use crate::agent_spec::{AgentSpec, DELEGATE};
use crate::id::AgentId;
use crate::message::ToolCall;
use crate::text::one_line;
use crate::tool::{Access, Repeat, ToolCategory, ToolResult, ToolSpec};

/// Returns the agents to which an agent with this access may delegate: agents with the same or less access. Tools are not compared, so the
/// other agent may have tools that the caller lacks.
pub fn delegation_targets(access: Access, agents: &[AgentSpec]) -> impl Iterator<Item = &AgentSpec> {
    agents.iter().filter(move |agent| agent.access <= access)
}

/// Creates the `delegate` tool for an agent with this access and these tools; `None` if there is no agent to delegate to.
pub fn delegate_tool(access: Access, tools: &[String], agents: &[AgentSpec]) -> Option<ToolSpec> {
    let others: Vec<&AgentSpec> = delegation_targets(access, agents).collect();
    let first = others.first()?;
    let names: Vec<&str> = others.iter().map(|agent| agent.name.as_str()).collect();
    let lines: Vec<String> = others
        .iter()
        .map(|agent| {
            let (name, description) = (one_line(&agent.name), one_line(&agent.description));
            format!("- {name}: {description} ({})", agent.capabilities(tools))
        })
        .collect();
    let description = format!(
        "Assigns a part of your task to another agent and returns its findings. It sees only its task, the run's goal and the user's guidance. The agents:\n{}",
        lines.join("\n")
    );
    Some(ToolSpec {
        category: ToolCategory::Agents,
        changes_where: None,
        read_only: None,
        name: DELEGATE.to_owned(),
        description,
        parameters: json!({
            "type": "object",
            "properties": {
                "agent": {"type": "string", "enum": names},
                "task": {"type": "string", "minLength": 1, "description": "What to do, and what to report."}
            },
            "required": ["agent", "task"],
            "additionalProperties": false
        }),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: json!({"agent": first.name, "task": "Find every caller of `load` in src/ and report each with file and line."}),
    })
}

/// Returns the agent and the task of a validated `delegate` call.
pub(crate) fn delegation(call: &ToolCall) -> Option<(String, String)> {
    let text = |name| {
        call.parameters
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    Some((text("agent")?, text("task")?))
}

/// Returns the text in the output of a `delegate` call: the agent's findings, or its last text if it failed.
pub(crate) fn findings_text(output: &Value) -> Option<&str> {
    let findings = output.get("findings").or_else(|| output.get("findings_so_far"));
    findings.and_then(Value::as_str)
}

/// The metadata key under which the result of a delegation contains the id of the started agent.
const STARTED_AGENT: &str = "started_agent";

/// Adds the id of the started agent to the result's metadata.
pub(crate) fn with_started_agent(mut result: ToolResult, agent: AgentId) -> ToolResult {
    result.metadata.insert(STARTED_AGENT.to_owned(), json!(agent));
    result
}

/// Returns the id of the agent that was started by the call with this result.
pub(crate) fn started_agent(result: &ToolResult) -> Option<AgentId> {
    serde_json::from_value(result.metadata.get(STARTED_AGENT)?.clone()).ok()
}
