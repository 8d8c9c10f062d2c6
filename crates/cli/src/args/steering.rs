//! Arguments of the commands that steer a run from another terminal.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use dirigent::approval_rules::CallPattern;
use dirigent::events::{AgentId, EffectId, Scope};

use super::text;

pub(crate) const APPROVE_HELP: &str = "\
Without CALL, all pending calls and questions are shown in full, and nothing is decided. With CALL alone, the call is approved as it
is shown.

Examples:
  dirigent approve 01234567                              # show pending calls
  dirigent approve 01234567 a3.7                         # approve
  dirigent approve 01234567 a3.7 --edit '{\"command\": [\"cargo\", \"check\"]}'
  dirigent approve 01234567 a3.7 --reject \"not on this machine\"
  dirigent approve 01234567 a3.7 --guide \"use cargo check instead\"
  dirigent approve 01234567 a3.7 --always \"execute_command(command: cargo test *)\" --within folder

--reject ends the work of the call's agent. With --guide the call does not run, and the agent continues with your guidance. --always saves a
rule, as `always` in the dialog does; `dirigent approvals` lists and removes rules.";

pub(crate) const ANSWER_HELP: &str = "\
Without QUESTION, the only open question is answered. `dirigent approve RUN` and `dirigent show RUN` list the open questions.

Examples:
  dirigent answer last \"the second one\"
  dirigent answer last 2                       # the second choice
  dirigent answer 01234567 a3.7 \"src/utils\"   # one of several questions";

#[derive(Args)]
pub(crate) struct GuideCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    pub(crate) run: String,
    /// Your guidance
    #[arg(value_name = "TEXT", value_parser = text)]
    pub(crate) guidance: String,
    /// Stop the current work and plan again at once
    #[arg(long, conflicts_with = "agent")]
    pub(crate) now: bool,
    /// Send the guidance to a single agent, such as a3
    #[arg(long, value_name = "AGENT", value_parser = agent)]
    pub(crate) agent: Option<AgentId>,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ApproveCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    pub(crate) run: String,
    /// The call to decide on, such as a3.7
    pub(crate) call: Option<EffectId>,
    /// Approve the call with these parameters instead
    #[arg(long, value_name = "JSON", requires = "call", conflicts_with_all = ["reject", "guide"])]
    pub(crate) edit: Option<Parameters>,
    /// Reject the call, and end its agent's work
    #[arg(long, value_name = "REASON", num_args = 0..=1, requires = "call", conflicts_with = "guide")]
    pub(crate) reject: Option<Option<String>>,
    /// Reject the call, and tell its agent what to do instead
    #[arg(long, value_name = "TEXT", requires = "call", value_parser = text)]
    pub(crate) guide: Option<String>,
    /// Approve the call, and calls like it from now on, such as "execute_command(command: cargo test *)"; without CALL, `approve` suggests
    /// such patterns for each call
    #[arg(long, value_name = "CALLS", requires = "call", conflicts_with_all = ["edit", "reject", "guide"])]
    pub(crate) always: Option<CallPattern>,
    /// Where such calls are allowed
    #[arg(
        long,
        value_name = "WHERE",
        value_enum,
        default_value = "run",
        requires = "always"
    )]
    pub(crate) within: RuleWithin,
    /// Print the pending requests, or the result of the decision, as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where a rule that allows calls holds.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum RuleWithin {
    /// In this run
    Run,
    /// In this run's conversation
    Conversation,
    /// In all runs in its folder
    Folder,
    /// In all runs
    Everywhere,
}

/// A call's parameters, given as JSON.
#[derive(Clone)]
pub(crate) struct Parameters(pub(crate) serde_json::Value);

impl FromStr for Parameters {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        serde_json::from_str(text)
            .map(Parameters)
            .map_err(|error| format!("not JSON: {error}"))
    }
}

fn agent(text: &str) -> Result<AgentId, String> {
    match text.parse() {
        Ok(Scope::Agent(agent)) => Ok(agent),
        Ok(Scope::Run) | Err(_) => Err("not an agent id; an agent id looks like a3".to_owned()),
    }
}

#[derive(Args)]
pub(crate) struct AnswerCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    pub(crate) run: String,
    /// Your answer, or the number of a choice. If several questions are open, put the id of one before it, such as `a3.7`
    #[arg(value_name = "[QUESTION] TEXT", value_parser = text, num_args = 1.., required = true, allow_negative_numbers = true)]
    pub(crate) words: Vec<String>,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct CancelCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    pub(crate) run: String,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
