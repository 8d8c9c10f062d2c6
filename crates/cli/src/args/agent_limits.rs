//! Options for the limits of agents: `--max-turns 80` for all, `--max-turns planner=80` for one.

use std::fmt::Display;
use std::str::FromStr;

use clap::Args;
use dirigent::{AgentLimitSettings, Goal};

use super::DurationArg;

#[derive(Args)]
pub(crate) struct AgentLimitOptions {
    /// Maximum number of model turns of each agent, or of one, as in planner=80; can be repeated [default: 60 for the planner, the
    /// reflector and the shipped agents; your configuration and agent files can change it]
    #[arg(long, value_name = "[AGENT=]N")]
    max_turns: Vec<ForAgent<Turns>>,
    /// Maximum duration of each agent, or of one, as in planner=1h; can be repeated [default: 30m for the planner and the reflector, 20m
    /// for the shipped agents; your configuration and agent files can change it]
    #[arg(long, value_name = "[AGENT=]TIME")]
    agent_timeout: Vec<ForAgent<DurationArg>>,
}

impl AgentLimitOptions {
    /// Sets these limits for the goal. Of two limits for the same agent, the later wins.
    pub(crate) fn apply(&self, goal: Goal) -> Goal {
        let turns = self.max_turns.iter().map(|option| {
            let limits = AgentLimitSettings {
                max_turns: Some(option.value.0),
                ..AgentLimitSettings::default()
            };
            (&option.agent, limits)
        });
        let timeouts = self.agent_timeout.iter().map(|option| {
            let limits = AgentLimitSettings {
                timeout: Some(option.value.0),
                ..AgentLimitSettings::default()
            };
            (&option.agent, limits)
        });
        turns
            .chain(timeouts)
            .fold(goal, |goal, (agent, limits)| match agent {
                Some(agent) => goal.agent_limits(agent, limits),
                None => goal.all_agent_limits(limits),
            })
    }
}

/// A value for all agents, or for one: `VALUE` or `AGENT=VALUE`.
#[derive(Clone)]
struct ForAgent<T> {
    agent: Option<String>,
    value: T,
}

impl<T: FromStr<Err: Display>> FromStr for ForAgent<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (agent, value) = match text.split_once('=') {
            Some((agent, _)) if agent.trim().is_empty() => {
                return Err("the name of the agent is missing before `=`".to_owned());
            }
            Some((agent, value)) => (Some(agent.trim().to_owned()), value.trim()),
            None => (None, text),
        };
        let value = value.parse().map_err(|error: T::Err| error.to_string())?;
        Ok(ForAgent { agent, value })
    }
}

/// A positive number of turns.
#[derive(Clone, Copy)]
struct Turns(u32);

impl FromStr for Turns {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(turns) if turns > 0 => Ok(Turns(turns)),
            Ok(_) | Err(_) => Err("must be a whole number from 1, such as 80, or planner=80 for one agent"),
        }
    }
}
