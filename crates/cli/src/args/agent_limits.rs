//! The options that limit agents: `--max-turns 80` for every agent, `--max-turns planner=80` for one.

use std::fmt::Display;
use std::str::FromStr;

use clap::Args;
use dirigent::{AgentLimitSettings, Goal};

use super::DurationArg;

#[derive(Args)]
pub(crate) struct AgentLimitOptions {
    /// Model turns that each agent may take, or one agent by its name, such as planner=80; can be given several times [default: 60 for planner,
    /// reflector and the agents that ship, or what your configuration and the agent's file say]
    #[arg(long, value_name = "[AGENT=]N")]
    max_turns: Vec<ForAgent<Turns>>,
    /// How long each agent may work, or one agent by its name, such as planner=1h; can be given several times [default: 30m for planner and
    /// reflector, 20m for the agents that ship, or what your configuration and the agent's file say]
    #[arg(long, value_name = "[AGENT=]TIME")]
    agent_timeout: Vec<ForAgent<DurationArg>>,
}

impl AgentLimitOptions {
    /// The goal with these limits of its agents. Of two for the same agent the later counts.
    pub(crate) fn apply(&self, goal: Goal) -> Goal {
        let turns = self.max_turns.iter().map(|said| {
            let limits = AgentLimitSettings {
                max_turns: Some(said.value.0),
                ..AgentLimitSettings::default()
            };
            (&said.agent, limits)
        });
        let timeouts = self.agent_timeout.iter().map(|said| {
            let limits = AgentLimitSettings {
                timeout: Some(said.value.0),
                ..AgentLimitSettings::default()
            };
            (&said.agent, limits)
        });
        turns
            .chain(timeouts)
            .fold(goal, |goal, (agent, limits)| match agent {
                Some(agent) => goal.agent_limits(agent, limits),
                None => goal.all_agent_limits(limits),
            })
    }
}

/// A value for every agent, or for the one whose name stands before it.
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
                return Err("an agent's name is missing before `=`".to_owned());
            }
            Some((agent, value)) => (Some(agent.trim().to_owned()), value.trim()),
            None => (None, text),
        };
        let value = value.parse().map_err(|error: T::Err| error.to_string())?;
        Ok(ForAgent { agent, value })
    }
}

/// A number of turns.
#[derive(Clone, Copy)]
struct Turns(u32);

impl FromStr for Turns {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(turns) if turns > 0 => Ok(Turns(turns)),
            Ok(_) | Err(_) => Err("write a whole number from 1, such as 80, or planner=80 for one agent"),
        }
    }
}
