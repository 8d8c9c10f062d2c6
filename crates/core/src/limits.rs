//! Every limit there is, with its default. The machines check them, and the run's [budget](crate::budget) what it is asked for.

use serde::{Deserialize, Serialize};

use crate::price::Cost;
use crate::time::Millis;

/// What bounds a run: the loop around its agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLimits {
    /// Planning iterations (PAOR-3).
    pub max_iterations: u32,
    /// Sub-tasks in parallel (PAOR-4). One that waits for a person leaves its place to another (HOST-11), so that for a while there may be
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
            approval_timeout: Some(Millis::from_secs(86_400)),
            call_timeout: Millis::from_secs(900),
            timeout: None,
            max_tokens: None,
            max_cost: None,
            max_model_calls: None,
        }
    }
}

/// Declares the limits of an agent, each once: its name, its kind, its default. All that reads, merges and compares them follows from this.
macro_rules! agent_limits {
    ($($(#[$doc:meta])+ $limit:ident: $kind:ident = $default:expr;)+) => {
        /// What bounds one agent's loop.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct AgentLimits {
            $($(#[$doc])+ pub $limit: $kind,)+
        }

        impl Default for AgentLimits {
            fn default() -> Self {
                AgentLimits { $($limit: $default,)+ }
            }
        }

        /// The limits that one source sets for an agent, such as its file or the command line; `None` leaves a limit to the next source.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct AgentLimitSettings {
            $($(#[$doc])+ pub $limit: Option<$kind>,)+
        }

        impl From<AgentLimits> for AgentLimitSettings {
            fn from(limits: AgentLimits) -> Self {
                AgentLimitSettings { $($limit: Some(limits.$limit),)+ }
            }
        }

        impl AgentLimitSettings {
            /// These settings, and where they leave a limit open, those of the next source.
            pub fn or(self, next: AgentLimitSettings) -> Self {
                AgentLimitSettings { $($limit: self.$limit.or(next.$limit),)+ }
            }

            /// The limits with these settings applied.
            pub fn unwrap_or(self, defaults: AgentLimits) -> AgentLimits {
                AgentLimits { $($limit: self.$limit.unwrap_or(defaults.$limit),)+ }
            }
        }

        impl AgentLimits {
            /// The higher of both, limit by limit.
            pub fn highest(self, other: &AgentLimits) -> AgentLimits {
                AgentLimits { $($limit: self.$limit.max(other.$limit),)+ }
            }

            /// The lower of both, limit by limit.
            pub fn lowest(self, other: &AgentLimits) -> AgentLimits {
                AgentLimits { $($limit: self.$limit.min(other.$limit),)+ }
            }

            /// The limits that are not as in `other`, by name, with their values here, for people.
            pub fn differing(&self, other: &AgentLimits) -> Vec<(&'static str, String)> {
                let mut differing = Vec::new();
                $(if self.$limit != other.$limit {
                    differing.push((stringify!($limit), self.$limit.to_string()));
                })+
                differing
            }
        }

        impl AgentLimit {
            /// Every limit of an agent.
            pub const ALL: &[AgentLimit] = &[$(AgentLimit {
                name: stringify!($limit),
                setting: AgentLimitSetting::$kind(|settings| &mut settings.$limit),
            },)+];
        }
    };
}

/// A whole number, from 1.
type Count = u32;
/// A span of time, more than nothing.
type Time = Millis;

agent_limits! {
    /// Model requests (LOOP-2).
    max_turns: Count = 10;
    /// Execution time, waiting for people apart (LOOP-5).
    timeout: Time = Millis::from_secs(300);
    /// Calls of one reply that run; those after them are answered with a failure (LOOP-10).
    max_calls_per_reply: Count = 64;
    /// Malformed replies in a row (LOOP-3).
    max_malformed: Count = 3;
    /// How often the same call may have the same result while nothing else changes, before the loop ends as stuck (LOOP-10).
    max_repeats: Count = 5;
    /// How often a conversation that nears the model's context window, or that the model finds too long, is made shorter (LOOP-11).
    max_compactions: Count = 50;
}

/// A limit of an agent, as files and the command line name it.
#[derive(Clone, Copy, Debug)]
pub struct AgentLimit {
    /// Its name: `max_turns`.
    pub name: &'static str,
    /// Where it is set.
    pub setting: AgentLimitSetting,
}

/// The place of a limit in [`AgentLimitSettings`], by the kind of its value.
#[derive(Clone, Copy, Debug)]
pub enum AgentLimitSetting {
    /// A whole number, from 1.
    Count(fn(&mut AgentLimitSettings) -> &mut Option<u32>),
    /// A span of time, more than nothing.
    Time(fn(&mut AgentLimitSettings) -> &mut Option<Millis>),
}
