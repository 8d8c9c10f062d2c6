//! All limits of runs and agents, with their defaults. The state machines enforce all limits except the limits on tokens, cost and model calls,
//! which the [budget](crate::budget) enforces.
//!
//! The macro `limits!` declares each limit once. The configuration, agent files and the command line access a limit by its name and kind.

use serde::{Deserialize, Serialize};

use crate::price::Cost;
use crate::time::Millis;

/// Declares limits, each with its help text, kind, type and default.
macro_rules! limits {
    (
        $(#[$about:meta])+ $limits:ident, $settings:ident {
            $($(#[doc = $help:literal])+ $limit:ident: $kind:ident as $held:ty = $default:expr;)+
        }
    ) => {
        $(#[$about])+
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $limits {
            $($(#[doc = $help])+ pub $limit: $held,)+
        }

        impl Default for $limits {
            fn default() -> Self {
                $limits { $($limit: $default,)+ }
            }
        }

        #[doc = concat!("The [`", stringify!($limits), "`] that one source (such as a file or the command line) sets.")]
        /// A field is `None` if the source does not set that limit. The limit then comes from the source with the next lower precedence.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $settings {
            $($(#[doc = $help])+ pub $limit: Option<$kind>,)+
        }

        impl From<$limits> for $settings {
            fn from(limits: $limits) -> Self {
                $settings { $($limit: limits.$limit.into(),)+ }
            }
        }

        impl $settings {
            /// Returns these settings, with missing ones taken from the next source.
            pub fn or(self, next: $settings) -> Self {
                $settings { $($limit: self.$limit.or(next.$limit),)+ }
            }

            /// Returns the higher setting of each limit, or the only setting if one is missing.
            pub fn highest(self, other: $settings) -> Self {
                $settings { $($limit: self.$limit.max(other.$limit),)+ }
            }

            /// Returns the lower setting of each limit, or the only setting if one is missing.
            pub fn lowest(self, other: $settings) -> Self {
                $settings { $($limit: self.$limit.into_iter().chain(other.$limit).min(),)+ }
            }

            /// Returns the limits with these settings, and with `defaults` for missing ones.
            pub fn unwrap_or(self, defaults: $limits) -> $limits {
                $limits { $($limit: self.$limit.map_or(defaults.$limit, Into::into),)+ }
            }
        }

        impl LimitSettings for $settings {
            const ALL: &'static [Limit<$settings>] = &[$(Limit {
                name: stringify!($limit),
                help: concat!($($help),+),
                setting: LimitSetting::$kind(|settings| &mut settings.$limit),
            },)+];
        }

        impl $limits {
            /// Returns the limits that differ from `other`, as names and formatted values.
            pub fn differing(&self, other: &$limits) -> Vec<(&'static str, String)> {
                let (mut own, mut other): ($settings, $settings) = (self.clone().into(), other.clone().into());
                $settings::ALL
                    .iter()
                    .filter_map(|limit| {
                        let value = limit.value(&mut own);
                        (value != limit.value(&mut other)).then(|| (limit.name, value.unwrap_or_default()))
                    })
                    .collect()
            }
        }
    };
}

/// A whole number of at least 1.
type Count = u32;
/// A number of tokens, at least 1.
type Tokens = u64;
/// A positive duration.
type Time = Millis;
/// A positive amount of money.
type Money = Cost;

limits! {
    /// The limits of a run.
    RunLimits, RunLimitSettings {
        /// Maximum number of planning iterations.
        max_iterations: Count as u32 = 15;
        /// Maximum number of parallel sub-tasks. A sub-task that waits for the user does not count towards this maximum.
        max_parallel: Count as u32 = 4;
        /// Maximum number of sub-tasks in one plan.
        max_subtasks: Count as u32 = 1_000;
        /// Maximum number of sub-agents that the run may start.
        max_agents: Count as u32 = 100;
        /// Maximum depth of sub-agents: 1 allows only the plan's agents, 2 also agents that they delegate to.
        max_depth: Count as u32 = 3;
        /// Maximum time that a call waits for approval, or an agent's question for an answer. Then the agent continues without it.
        approval_timeout: Time as Option<Millis> = Some(Millis::from_secs(86_400));
        /// Maximum duration of one tool call of a plan.
        call_timeout: Time as Millis = Millis::from_secs(900);
        /// Maximum duration of the run.
        timeout: Time as Option<Millis> = None;
        /// Maximum number of tokens, sent and received. Requests are checked against an estimate before they are sent, so the run can
        /// exceed the limit by the estimation error of each request in progress.
        max_tokens: Tokens as Option<u64> = None;
        /// Maximum cost in US dollars. Models without a known price do not count.
        max_cost: Money as Option<Cost> = None;
        /// Maximum number of model requests.
        max_model_calls: Count as Option<u32> = None;
    }
}

limits! {
    /// The limits of one agent.
    AgentLimits, AgentLimitSettings {
        /// Maximum number of model requests of an agent.
        max_turns: Count as u32 = 10;
        /// Maximum working time of an agent. Time spent waiting for the user or for other agents does not count.
        timeout: Time as Millis = Millis::from_secs(300);
        /// Maximum number of calls that are executed per reply. Further calls are answered with an error.
        max_calls_per_reply: Count as u32 = 64;
        /// Maximum number of malformed replies in a row.
        max_malformed: Count as u32 = 3;
        /// Maximum number of times that the same call may return the same result, while nothing else changes, before the agent ends as
        /// stuck.
        max_repeats: Count as u32 = 5;
        /// Maximum number of times that an agent's conversation is compacted.
        max_compactions: Count as u32 = 50;
    }
}

/// Access to the settings of all limits by name and kind.
pub trait LimitSettings: Clone + Default + 'static {
    /// All limits.
    const ALL: &'static [Limit<Self>];
}

/// The description of a limit, for code that accesses limits by name.
#[derive(Clone, Copy, Debug)]
pub struct Limit<S: 'static> {
    /// The name in files and on the command line, such as `max_turns`.
    pub name: &'static str,
    /// The help text.
    pub help: &'static str,
    /// Accessor of the limit's field in the settings.
    pub setting: LimitSetting<S>,
}

/// Accessor of a limit's field in the settings, by the kind of value.
#[derive(Clone, Copy, Debug)]
pub enum LimitSetting<S: 'static> {
    /// A whole number of at least 1.
    Count(fn(&mut S) -> &mut Option<u32>),
    /// A number of tokens, at least 1.
    Tokens(fn(&mut S) -> &mut Option<u64>),
    /// A positive duration.
    Time(fn(&mut S) -> &mut Option<Millis>),
    /// A positive amount of money.
    Money(fn(&mut S) -> &mut Option<Cost>),
}

impl<S> Limit<S> {
    /// Formats the value of this limit in `settings` for display; `None` if it is not set.
    pub fn value(&self, settings: &mut S) -> Option<String> {
        match self.setting {
            LimitSetting::Count(setting) => setting(settings).map(|count| count.to_string()),
            LimitSetting::Tokens(setting) => setting(settings).map(|tokens| tokens.to_string()),
            LimitSetting::Time(setting) => setting(settings).map(|time| time.to_string()),
            LimitSetting::Money(setting) => setting(settings).map(|cost| cost.to_string()),
        }
    }
}
