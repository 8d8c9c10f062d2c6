//! All limits of runs and agents, with their defaults. The machines enforce them; the [budget](crate::budget) enforces tokens, cost and model calls.

use serde::{Deserialize, Serialize};

use crate::price::Cost;
use crate::time::Millis;

/// The limits of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLimits {
    /// Maximum number of planning iterations (PAOR-3).
    pub max_iterations: u32,
    /// Maximum number of sub-tasks in parallel (PAOR-4). A sub-task that waits for a person yields its place to another (HOST-11), so the
    /// limit can be exceeded for a while when waiting sub-tasks continue.
    pub max_parallel: u32,
    /// Maximum number of sub-tasks in one plan.
    pub max_subtasks: u32,
    /// Maximum number of sub-agents over the whole run, not counting planners and reflectors (PAOR-5).
    pub max_agents: u32,
    /// Maximum depth of agents (PAOR-5): 1 allows only the agents of the plan, 2 also the agents that those delegate to, and so on.
    pub max_depth: u32,
    /// How long a call waits for an approval before it counts as not approved (APPROVE-3); `None` for no limit. Time during which no process
    /// owns the run does not count.
    pub approval_timeout: Option<Millis>,
    /// Maximum duration of one tool call in a sub-task's sequence; a longer call fails (PAOR-7).
    pub call_timeout: Millis,
    /// Maximum duration of the run; `None` for no limit.
    pub timeout: Option<Millis>,
    /// Maximum number of tokens sent and received over the whole run; `None` for no limit (HOST-6).
    pub max_tokens: Option<u64>,
    /// Maximum cost of the whole run, in nano-dollars; `None` for no limit (HOST-6). Models without a known price do not count.
    pub max_cost: Option<Cost>,
    /// Maximum number of model requests over the whole run; `None` for no limit (HOST-6).
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

/// Declares each limit of an agent once: name, type and default. Generates the code that reads, merges and compares the limits.
macro_rules! agent_limits {
    ($($(#[$doc:meta])+ $limit:ident: $kind:ident = $default:expr;)+) => {
        /// The limits of one agent.
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
            /// Fills the limits that are not set here from the next source.
            pub fn or(self, next: AgentLimitSettings) -> Self {
                AgentLimitSettings { $($limit: self.$limit.or(next.$limit),)+ }
            }

            /// Fills the limits that are not set here with defaults.
            pub fn unwrap_or(self, defaults: AgentLimits) -> AgentLimits {
                AgentLimits { $($limit: self.$limit.unwrap_or(defaults.$limit),)+ }
            }
        }

        impl AgentLimits {
            /// The higher value of each limit.
            pub fn highest(self, other: &AgentLimits) -> AgentLimits {
                AgentLimits { $($limit: self.$limit.max(other.$limit),)+ }
            }

            /// The lower value of each limit.
            pub fn lowest(self, other: &AgentLimits) -> AgentLimits {
                AgentLimits { $($limit: self.$limit.min(other.$limit),)+ }
            }

            /// The limits that differ from `other`: names, and values formatted for people.
            pub fn differing(&self, other: &AgentLimits) -> Vec<(&'static str, String)> {
                let mut differing = Vec::new();
                $(if self.$limit != other.$limit {
                    differing.push((stringify!($limit), self.$limit.to_string()));
                })+
                differing
            }
        }

        impl AgentLimit {
            /// All limits of an agent.
            pub const ALL: &[AgentLimit] = &[$(AgentLimit {
                name: stringify!($limit),
                setting: AgentLimitSetting::$kind(|settings| &mut settings.$limit),
            },)+];
        }
    };
}

/// A whole number of at least 1.
type Count = u32;
/// A positive duration.
type Time = Millis;

agent_limits! {
    /// Maximum number of model requests (LOOP-2).
    max_turns: Count = 10;
    /// Maximum execution time, not counting time spent waiting for people (LOOP-5).
    timeout: Time = Millis::from_secs(300);
    /// Maximum number of calls in one reply that run; further calls fail (LOOP-10).
    max_calls_per_reply: Count = 64;
    /// Maximum number of consecutive malformed replies (LOOP-3).
    max_malformed: Count = 3;
    /// How often the same call may return the same result before the agent ends as stuck (LOOP-10).
    max_repeats: Count = 5;
    /// How often a conversation may be compacted when it nears the model's context window or is too long for the model (LOOP-11).
    max_compactions: Count = 50;
}

/// A limit of an agent, for code that reads limits by name.
#[derive(Clone, Copy, Debug)]
pub struct AgentLimit {
    /// The name in files and on the command line, such as `max_turns`.
    pub name: &'static str,
    /// The field that holds the limit.
    pub setting: AgentLimitSetting,
}

/// Accessor of a limit's field in [`AgentLimitSettings`], by the type of the value.
#[derive(Clone, Copy, Debug)]
pub enum AgentLimitSetting {
    /// A whole number of at least 1.
    Count(fn(&mut AgentLimitSettings) -> &mut Option<u32>),
    /// A positive duration.
    Time(fn(&mut AgentLimitSettings) -> &mut Option<Millis>),
}
