//! The usage of a run: tokens, cost, calls and time, for the run, each agent and each model (HOST-10).
//!
//! A [`RunView`](crate::view::RunView) computes the usage from journal entries, so the result does not depend on when it is computed, and
//! is available for interrupted runs, too. This module enforces no limits: see [`crate::budget`].

use serde::Serialize;

use crate::id::AgentId;
use crate::message::Usage;
use crate::time::Millis;

/// The model name for replies that do not name a model.
pub const UNKNOWN_MODEL: &str = "unknown";

/// The usage of a run so far. JSON: the fields of [`UsageTotals`], and
/// `"active_time": …, "models": [{"model": "…", …}], "agents": [{"agent": 1, "name": "lead", …, "models": […]}]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageReport {
    /// The run's totals, including the tool calls of plans.
    #[serde(flatten)]
    pub total: UsageTotals,
    /// Time from the start to the last journal entry, without the times in which no process owned the run or all outstanding work waited
    /// for the user.
    pub active_time: Millis,
    /// The usage of each model that replied, ordered by agent and then by the model's first reply.
    pub models: Vec<ModelUsage>,
    /// The usage of each agent that started, including leads and reflectors, in the order of their ids.
    pub agents: Vec<AgentUsage>,
}

/// The usage of an agent. JSON: `{"agent": 3, "name": "explore", …}` with the fields of [`UsageTotals`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentUsage {
    /// The agent's id.
    pub agent: AgentId,
    /// The name: `lead`, `reflector`, or the name of a sub-agent.
    pub name: String,
    /// The agent's totals.
    #[serde(flatten)]
    pub totals: UsageTotals,
    /// The usage of each of the agent's models. Requests that failed or were interrupted are not attributed to a model.
    pub models: Vec<ModelUsage>,
}

/// The usage of a model. JSON: `{"model": "…", …}` with the fields of [`UsageTotals`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelUsage {
    /// The provider's name for the model, from its replies; [`UNKNOWN_MODEL`] if they do not name it.
    pub model: String,
    /// Totals of the model's replies and of the tool calls that these replies requested, including the time of both.
    #[serde(flatten)]
    pub totals: UsageTotals,
}

/// Amounts and times. JSON: the fields of [`Usage`], `"malformed"`, and both times in milliseconds. The times of agents that work in
/// parallel can add up to more than the duration of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageTotals {
    /// Calls, tokens and cost. JSON omits a cost of zero, for example if the price is unknown.
    #[serde(flatten)]
    pub usage: Usage,
    /// Number of malformed replies (LOOP-3). They are billed and count as model calls.
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

impl std::ops::Sub for UsageTotals {
    type Output = UsageTotals;

    /// Subtracts each amount and time, saturating at zero.
    fn sub(self, part: UsageTotals) -> UsageTotals {
        UsageTotals {
            usage: self.usage - part.usage,
            malformed: self.malformed.saturating_sub(part.malformed),
            model_time: Millis(self.model_time.0.saturating_sub(part.model_time.0)),
            tool_time: Millis(self.tool_time.0.saturating_sub(part.tool_time.0)),
        }
    }
}

impl UsageReport {
    /// Returns what was used after an earlier report of the same run. Models and agents that used nothing since then are left out.
    pub fn since(self, earlier: &UsageReport) -> UsageReport {
        UsageReport {
            total: self.total - earlier.total,
            active_time: Millis(self.active_time.0.saturating_sub(earlier.active_time.0)),
            models: models_since(self.models, &earlier.models),
            agents: self
                .agents
                .into_iter()
                .filter_map(|agent| agent_since(agent, &earlier.agents))
                .collect(),
        }
    }
}

fn agent_since(agent: AgentUsage, earlier: &[AgentUsage]) -> Option<AgentUsage> {
    let Some(known) = earlier.iter().find(|known| known.agent == agent.agent) else {
        return Some(agent);
    };
    let totals = agent.totals - known.totals;
    (totals != UsageTotals::default()).then(|| AgentUsage {
        totals,
        models: models_since(agent.models, &known.models),
        ..agent
    })
}

fn models_since(models: Vec<ModelUsage>, earlier: &[ModelUsage]) -> Vec<ModelUsage> {
    let since = models.into_iter().map(|model| {
        let known = earlier.iter().find(|known| known.model == model.model);
        let totals = known.map_or(model.totals, |known| model.totals - known.totals);
        ModelUsage { totals, ..model }
    });
    since
        .filter(|model| model.totals != UsageTotals::default())
        .collect()
}
