//! Every limit there is, with its default. The machines check them, and the run's [budget](crate::budget) what it is asked for.

use serde::{Deserialize, Serialize};

use crate::price::Cost;
use crate::time::Millis;

/// What bounds a run: the loop around its agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunLimits {
    /// Planning rounds (PAOR-3).
    pub max_iterations: u32,
    /// Sub-tasks side by side (PAOR-4). One that waits for a person leaves its place to another (HOST-11), so that for a while there may be
    /// more, once those that waited go on.
    pub max_parallel: u32,
    /// Sub-tasks in one plan.
    pub max_subtasks: u32,
    /// Sub-agents over the whole run, planners and reflectors apart (PAOR-5).
    pub max_agents: u32,
    /// How deep agents may delegate: 1 for those of the plan alone, 2 for those that these start, and so on (PAOR-5).
    pub max_depth: u32,
    /// How long a call waits for an approval before it counts as not approved (APPROVE-3); `None` for as long as it takes. The time that
    /// no process carries the run out does not count.
    pub approval_timeout: Option<Millis>,
    /// How long one tool call of a sub-task's sequence may take before it is observed as failed (PAOR-7).
    pub call_timeout: Millis,
    /// How long the run may take; `None` for as long as it takes.
    pub timeout: Option<Millis>,
    /// Tokens over the whole run, sent and received; `None` for no limit (HOST-6).
    pub max_tokens: Option<u64>,
    /// Money over the whole run, in nano-dollars; `None` for no limit (HOST-6). What a model without a price uses does not count.
    pub max_cost: Option<Cost>,
    /// Model requests over the whole run; `None` for no limit (HOST-6).
    pub max_model_calls: Option<u32>,
}

impl Default for RunLimits {
    fn default() -> Self {
        RunLimits {
            max_iterations: 15,
            max_parallel: 4,
            max_subtasks: 1_000,
            max_agents: 100,
            max_depth: 3,
            approval_timeout: Some(Millis::seconds(86_400)),
            call_timeout: Millis::seconds(900),
            timeout: None,
            max_tokens: None,
            max_cost: None,
            max_model_calls: None,
        }
    }
}

/// What bounds one agent's loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentLimits {
    /// Model requests (LOOP-2).
    pub max_turns: u32,
    /// Execution time, waiting for people apart (LOOP-5).
    pub timeout: Millis,
    /// Malformed replies in a row (LOOP-3).
    pub max_malformed: u32,
    /// How often the same call may have the same result while nothing else changes, before the loop ends as stuck (LOOP-10);
    /// `None` for no limit, as in journals from before there was one.
    #[serde(default)]
    pub max_repeats: Option<u32>,
    /// How often a conversation that nears the model's context window, or that the model finds too long, is made shorter (LOOP-11);
    /// 0 for never, as in journals from before it was.
    #[serde(default)]
    pub max_compactions: u32,
}

impl Default for AgentLimits {
    fn default() -> Self {
        AgentLimits {
            max_turns: 10,
            timeout: Millis::seconds(300),
            max_malformed: 3,
            max_repeats: Some(5),
            max_compactions: 50,
        }
    }
}
