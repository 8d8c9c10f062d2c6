//! What an agent of a run is started with.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, EffectId};

/// What an agent is started with; its spec is found by name in the run's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentBrief {
    /// Its id in the run.
    pub agent: AgentId,
    /// What it is to the run.
    pub role: AgentRole,
    /// Its first user message.
    pub task: String,
    /// Sub-agents that a plan may still start; only a planner needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_left: Option<u32>,
    /// How many pieces of guidance it was given, which its plan names by their numbers from 1 on (PAOR-8); only a planner needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<u32>,
    /// How deep it is: 0 for planner and reflector, 1 for a plan's sub-agent, one more than its caller's for one that was delegated to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The call by which another agent had it started; none for those that the run started by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<EffectId>,
    /// The files that the run has changed, which a judgement must name (PAOR-10); only a reflector needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<String>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What an agent is to the run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    /// Makes the plan.
    Planner,
    /// Judges the iteration.
    Reflector,
    /// Works on a sub-task; the name is that of a sub-agent.
    Sub(String),
}
