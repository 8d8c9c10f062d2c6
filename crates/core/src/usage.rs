//! What a run has used: tokens, cost, calls and time, for the run, each agent and each model (HOST-10).
//!
//! Computed from journal entries by a [`RunView`](crate::view::RunView), so it is the same live and later, also for runs that were cut off.
//! It decides nothing: limits are in [`crate::budget`].

use serde::Serialize;

use crate::id::AgentId;
use crate::message::Usage;
use crate::time::Millis;

/// The model name for replies that do not name their model.
pub const UNKNOWN_MODEL: &str = "unknown";

/// What a run has used so far. JSON: the fields of [`UsageTotals`], and
/// `"active_time": …, "models": [{"model": "…", …}], "agents": [{"agent": 1, "name": "planner", …, "models": […]}]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageReport {
    /// The run's totals, including tool calls that plans spell out.
    #[serde(flatten)]
    pub total: UsageTotals,
    /// Time from the start to the last journal entry, without the times in which no process owned the run or all outstanding work waited
    /// for people.
    pub active_time: Millis,
    /// Each model that replied, in the order of the agents and of their first replies.
    pub models: Vec<ModelUsage>,
    /// Each agent that started, planners and reflectors included, in order.
    pub agents: Vec<AgentUsage>,
}

/// What an agent has used. JSON: `{"agent": 3, "name": "explore", …}` with the fields of [`UsageTotals`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentUsage {
    /// The agent's id.
    pub agent: AgentId,
    /// `planner`, `reflector`, or the name of a sub-agent.
    pub name: String,
    /// The agent's totals. Model time and tool time together are its whole time.
    #[serde(flatten)]
    pub totals: UsageTotals,
    /// What each of its models has used. Requests that failed or were cut off count for no model.
    pub models: Vec<ModelUsage>,
}

/// What a model has used. JSON: `{"model": "…", …}` with the fields of [`UsageTotals`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelUsage {
    /// The provider's name for the model, from its replies; [`UNKNOWN_MODEL`] if they do not name it.
    pub model: String,
    /// Its replies and the tool calls they asked for, with the time of both.
    #[serde(flatten)]
    pub totals: UsageTotals,
}

/// Amounts and times. JSON: the fields of [`Usage`], `"malformed"`, and both times in milliseconds. Agents work in parallel, so their times
/// together may exceed the time of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageTotals {
    /// Calls, tokens and cost. The JSON has no cost if no price is known.
    #[serde(flatten)]
    pub usage: Usage,
    /// Malformed replies (LOOP-3), which are paid for and count as model calls.
    pub malformed: u32,
    /// Time from each model request to its reply or failure, including retries and waiting for rate limits.
    pub model_time: Millis,
    /// Time spent running tools.
    pub tool_time: Millis,
}

impl std::ops::AddAssign for UsageTotals {
    fn add_assign(&mut self, other: UsageTotals) {
        self.usage += other.usage;
        self.malformed = self.malformed.saturating_add(other.malformed);
        self.model_time += other.model_time;
        self.tool_time += other.tool_time;
    }
}
