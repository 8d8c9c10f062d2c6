//! The brief of an agent: its role and task. Also the continuation of a lead: the message that the run sends when it
//! needs the lead again.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, EffectId};

/// The first input of an agent: its role and task. The agent's spec is not included: it is in the run's spec, under the agent's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentBrief {
    /// The agent's id within the run.
    pub agent: AgentId,
    /// The agent's role.
    pub role: AgentRole,
    /// The task: the first user message of the conversation, after the information about the project that all agents receive.
    pub task: String,
    /// For a lead, the number of sub-agents that its first plan may start; `None` for other agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_left: Option<u32>,
    /// For a lead, the number of guidance entries in its task. A plan refers to them by number, counted from 1 (PAOR-8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<u32>,
    /// Depth of delegation: 0 for lead and reflector, 1 for a sub-agent of the plan, and 1 more than its caller for a delegated agent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The `delegate` call that started the agent; `None` if the run started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<EffectId>,
}

/// The run's message to the lead when it needs the lead again: after a plan was executed, after the lead's answer was judged, or after the
/// run was resumed (LEAD-1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    /// The number of the continuation, counted from 1.
    pub number: u32,
    /// The next message of the conversation: the result of the open `submit_plan` call, or a user message.
    pub message: String,
    /// The number of sub-agents that the next plan may start.
    pub agents_left: u32,
    /// The number of guidance entries given to the lead so far, including those of this message (PAOR-8).
    pub guidance: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The role of an agent in its run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    /// The lead, the main agent of the run (LEAD-1).
    Lead,
    /// The reflector, which evaluates an iteration.
    Reflector,
    /// A sub-agent with this name, which works on a sub-task or a delegated task.
    Sub(String),
}

impl AgentRole {
    /// The agent's name: `lead`, `reflector`, or the sub-agent's own name.
    pub fn name(&self) -> &str {
        match self {
            AgentRole::Lead => "lead",
            AgentRole::Reflector => "reflector",
            AgentRole::Sub(name) => name,
        }
    }
}
