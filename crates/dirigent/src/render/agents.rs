//! Agents as JSON, the same in every interface.

use serde_json::{Value, json};

use crate::agents::{AgentSource, Agents, ListedAgent};

/// The sub-agents that plans can use, and the agent files that are refused.
pub fn agents(agents: &Agents) -> Value {
    let listed: Vec<Value> = agents.agents.iter().map(agent).collect();
    let refused: Vec<Value> = agents
        .refused
        .iter()
        .map(|refused| {
            json!({
                "source": kind(&refused.source),
                "file": refused.source.file(),
                "line": refused.line,
                "reason": refused.reason,
            })
        })
        .collect();
    json!({"agents": listed, "refused": refused})
}

/// A sub-agent with its tools and limits.
pub fn agent(agent: &ListedAgent) -> Value {
    json!({
        "name": agent.name,
        "source": kind(&agent.source),
        "file": agent.source.file(),
        "description": agent.description,
        "tools": agent.tools,
        "access": agent.access.to_string(),
        "model": agent.model,
        "limits": agent.limits,
        "notes": agent.notes,
    })
}

fn kind(source: &AgentSource) -> &'static str {
    match source {
        AgentSource::Shipped => "shipped",
        AgentSource::Program => "program",
        AgentSource::User(_) => "user",
        AgentSource::Project(_) => "project",
    }
}
