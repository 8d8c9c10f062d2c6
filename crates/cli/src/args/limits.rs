//! Options for limits: `--max-iterations 30` for the run, `--max-turns 80` for all agents, `--max-turns lead=80` for one agent. The options
//! are generated from the declared limits.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches};
use dirigent::{
    AgentLimitSettings, Goal, Limit, LimitSetting, LimitSettings, RunLimitSettings, RunLimits, set_limit,
};

/// The limits of the run given on the command line.
#[derive(Clone)]
pub(crate) struct RunLimitOptions(RunLimitSettings);

/// The limits of agents given on the command line, each for all agents or for one.
#[derive(Clone)]
pub(crate) struct AgentLimitOptions(Vec<AgentLimit>);

#[derive(Clone)]
struct AgentLimit {
    agent: Option<String>,
    limits: AgentLimitSettings,
}

impl RunLimitOptions {
    /// Returns true if the command line sets any limit.
    pub(crate) fn any_set(&self) -> bool {
        self.0 != RunLimitSettings::default()
    }

    /// Returns the limits from the command line. Limits that the command line does not set come from `configured`.
    pub(crate) fn with_defaults(&self, configured: RunLimits) -> RunLimits {
        self.0.clone().unwrap_or(configured)
    }
}

impl AgentLimitOptions {
    /// Sets these limits on the goal. If an option is given twice for the same agent, the later value applies.
    pub(crate) fn apply(&self, goal: Goal) -> Goal {
        self.0.iter().cloned().fold(goal, |goal, set| match set.agent {
            Some(agent) => goal.agent_limits(agent, set.limits),
            None => goal.all_agent_limits(set.limits),
        })
    }
}

impl Args for RunLimitOptions {
    fn augment_args(command: Command) -> Command {
        let mut defaults = RunLimitSettings::from(RunLimits::default());
        RunLimitSettings::ALL
            .iter()
            .fold(command, |command, limit| {
                let default = limit.value(&mut defaults);
                let help = format!(
                    "{} [default for new runs: {}]",
                    help(limit),
                    default.as_deref().unwrap_or("no limit")
                );
                command.arg(
                    option(limit.name, value_name(limit))
                        .help(help)
                        .value_parser(|text: &str| read(limit, text)),
                )
            })
            .group(
                ArgGroup::new("RunLimitOptions")
                    .args(RunLimitSettings::ALL.iter().map(|limit| limit.name))
                    .multiple(true),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        RunLimitOptions::augment_args(command)
    }
}

impl FromArgMatches for RunLimitOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let set = RunLimitSettings::ALL
            .iter()
            .filter_map(|limit| matches.get_one::<RunLimitSettings>(limit.name));
        Ok(RunLimitOptions(
            set.cloned()
                .fold(RunLimitSettings::default(), RunLimitSettings::or),
        ))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = RunLimitOptions::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for AgentLimitOptions {
    fn augment_args(command: Command) -> Command {
        AgentLimitSettings::ALL
            .iter()
            .fold(command, |command, limit| {
                let help = format!(
                    "{} A value alone applies to all agents, lead=VALUE to one; can be repeated [default: set by the configuration and the agent's file]",
                    help(limit)
                );
                let value_name = format!("[AGENT=]{}", value_name(limit));
                let option = option(&agent_id(limit), &value_name).help(help);
                command.arg(option.action(ArgAction::Append).value_parser(|text: &str| read_for_agent(limit, text)))
            })
            .group(ArgGroup::new("AgentLimitOptions").args(AgentLimitSettings::ALL.iter().map(agent_id)).multiple(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        AgentLimitOptions::augment_args(command)
    }
}

impl FromArgMatches for AgentLimitOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let set = AgentLimitSettings::ALL
            .iter()
            .filter_map(|limit| matches.get_many::<AgentLimit>(&agent_id(limit)));
        Ok(AgentLimitOptions(set.flatten().cloned().collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = AgentLimitOptions::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the id of the option for an agent's limit. The agent's `timeout` gets another name, because the run has a limit of this name,
/// too.
fn agent_id(limit: &Limit<AgentLimitSettings>) -> String {
    match limit.name {
        "timeout" => "agent_timeout".to_owned(),
        name => name.to_owned(),
    }
}

fn option(id: &str, value_name: &str) -> Arg {
    Arg::new(id.to_owned())
        .long(id.replace('_', "-"))
        .help_heading("Limits")
        .allow_negative_numbers(true)
        .value_name(value_name.to_owned())
}

fn value_name<S>(limit: &Limit<S>) -> &'static str {
    match limit.setting {
        LimitSetting::Count(_) | LimitSetting::Tokens(_) => "N",
        LimitSetting::Time(_) => "TIME",
        LimitSetting::Money(_) => "DOLLARS",
    }
}

/// A limit's help text, with examples of durations and costs.
fn help<S>(limit: &Limit<S>) -> String {
    let help = limit.help.trim();
    match limit.setting {
        LimitSetting::Count(_) | LimitSetting::Tokens(_) => help.to_owned(),
        LimitSetting::Time(_) => format!("{help} Examples: 90s, 10m, 2h."),
        LimitSetting::Money(_) => format!("{help} Example: 0.50."),
    }
}

/// Parses an option's value into settings with only this limit set.
fn read<S: LimitSettings>(limit: &Limit<S>, text: &str) -> Result<S, String> {
    let mut settings = S::default();
    set_limit(limit, &mut settings, text)?;
    Ok(settings)
}

fn read_for_agent(limit: &Limit<AgentLimitSettings>, text: &str) -> Result<AgentLimit, String> {
    let (agent, value) = match text.split_once('=') {
        Some((agent, _)) if agent.trim().is_empty() => {
            return Err("the name of the agent is missing before `=`".to_owned());
        }
        Some((agent, value)) => (Some(agent.trim().to_owned()), value.trim()),
        None => (None, text),
    };
    let limits = read(limit, value)?;
    Ok(AgentLimit { agent, limits })
}
