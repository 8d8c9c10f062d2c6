//! The brief of an agent: its role and task.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, EffectId};

/// The first input of an agent: its role and task. The agent's spec is not included: it is in the run's spec, under the agent's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentBrief {
    /// The agent's id within the run.
    pub agent: AgentId,
    /// The agent's role.
    pub role: AgentRole,
    /// The task: the first user message of the conversation.
    pub task: String,
    /// For a planner, the number of sub-agents that its plan may start; `None` for other agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_left: Option<u32>,
    /// For a planner, the number of guidance entries in its task. A plan refers to them by number, counted from 1 (PAOR-8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<u32>,
    /// Depth of delegation: 0 for planner and reflector, 1 for a sub-agent of the plan, and 1 more than its caller for a delegated agent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The `delegate` call that started the agent; `None` if the run started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<EffectId>,
    /// For a reflector, the paths of all files that the run has changed, which the reflection must list (PAOR-10); `None` if unknown.
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
    /// The planner, which makes the plan.
    Planner,
    /// The reflector, which evaluates an iteration.
    Reflector,
    /// A sub-agent with this name, which works on a sub-task or a delegated task.
    Sub(String),
}

impl AgentRole {
    /// The agent's name: `planner`, `reflector`, or the sub-agent's own name.
    pub fn name(&self) -> &str {
        match self {
            AgentRole::Planner => "planner",
            AgentRole::Reflector => "reflector",
            AgentRole::Sub(name) => name,
        }
    }
}
