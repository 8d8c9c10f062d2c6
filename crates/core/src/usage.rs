//! What a run has cost: tokens, money, calls and time, for the run, each agent and each model (HOST-10).
//!
//! It is counted from the journal's entries as a [`RunView`](crate::view::RunView) takes them, so it is the same live and
//! years later, and holds for runs that were cut off. It never decides anything: limits are for [`crate::budget`].

use serde::Serialize;

use crate::id::AgentId;
use crate::message::Usage;
use crate::time::Millis;

/// The name under which models stand whose replies do not say which one gave them.
pub const UNKNOWN_MODEL: &str = "unknown";

/// What a run has cost so far. JSON: a [`UsageTotals`]'s fields, and
/// `"active_time": …, "models": [{"model": "…", …}], "agents": [{"agent": 1, "name": "planner", …, "models": […]}]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageReport {
    /// All of it, the tool calls that its plans spelled out included.
    #[serde(flatten)]
    pub total: UsageTotals,
    /// From its start to its last journal entry, without the time in which no process carried it out, or in which it
    /// waited for nothing but people.
    pub active_time: Millis,
    /// Each model that replied, in the order of their agents and of their first replies to them.
    pub models: Vec<ModelUsage>,
    /// Each agent that started, planners and reflectors too, in the order of their start.
    pub agents: Vec<AgentUsage>,
}

/// What one agent has cost. JSON: `{"agent": 3, "name": "explore", …}` with a [`UsageTotals`]'s fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentUsage {
    /// Which.
    pub agent: AgentId,
    /// The name of what it is: `planner`, or that of a sub-agent.
    pub name: String,
    /// All of it. It has waited for its models and its tools all the time, so both times together are its whole time.
    #[serde(flatten)]
    pub totals: UsageTotals,
    /// What each of its models has had of it. The time of requests that failed or were cut off is no model's.
    pub models: Vec<ModelUsage>,
}

/// What one model has cost. JSON: `{"model": "…", …}` with a [`UsageTotals`]'s fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelUsage {
    /// Its provider's name for it, as it stood in its replies; [`UNKNOWN_MODEL`] where it did not.
    pub model: String,
    /// Its replies, the tool calls that it asked for, and how long both were waited for.
    #[serde(flatten)]
    pub totals: UsageTotals,
}

/// What was used and how long it took. JSON: a [`Usage`]'s fields, `"malformed"`, and both times in milliseconds. Agents at
/// work in parallel wait in parallel: their times together may be longer than the run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageTotals {
    /// Calls, tokens and money. The cost is left out of the JSON where no price is known.
    #[serde(flatten)]
    pub usage: Usage,
    /// Replies that could not be understood (LOOP-3). They are among the model calls, as they were paid for.
    pub malformed: u32,
    /// Waiting for models: from each request to its reply or its failure, with its retries and its wait for room in a limit.
    pub model_time: Millis,
    /// Running tools.
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
