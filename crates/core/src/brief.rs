//! The role and the task of an agent.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, EffectId};

/// The first input of an agent: its role and task. The run's spec has the agent's own spec, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentBrief {
    /// The agent's id in the run.
    pub agent: AgentId,
    /// The agent's role.
    pub role: AgentRole,
    /// The first user message of the conversation.
    pub task: String,
    /// For a planner, the number of sub-agents that its plan may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_left: Option<u32>,
    /// For a planner, the number of guidance entries it is given; a plan refers to them by number, from 1 (PAOR-8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<u32>,
    /// Depth of delegation: 0 for planner and reflector, 1 for a sub-agent of the plan, and 1 more than the caller's for a delegate.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The delegating call that started the agent; `None` if the run started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<EffectId>,
    /// For a reflector, the paths that the run has changed, which the reflection must name (PAOR-10); `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<String>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The role of an agent in its run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    /// Makes the plan.
    Planner,
    /// Judges the iteration.
    Reflector,
    /// Works on a sub-task or a delegated task, as the sub-agent of this name.
    Sub(String),
}

impl AgentRole {
    /// The agent's name: `planner`, `reflector`, or that of the sub-agent.
    pub fn name(&self) -> &str {
        match self {
            AgentRole::Planner => "planner",
            AgentRole::Reflector => "reflector",
            AgentRole::Sub(name) => name,
        }
    }
}
