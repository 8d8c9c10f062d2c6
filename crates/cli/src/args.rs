//! What can be said on the command line.

mod limits;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use dirigent::core::id::{AgentId, EffectId, Scope};

use crate::exit;
pub(crate) use limits::{AgentLimitOptions, RunLimitOptions};

/// Pursues goals with a team of agents: plans, acts, observes, reflects.
#[derive(Parser)]
#[command(name = "dirigent", version, after_help = exit::HELP, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// The journal of runs [default: dirigent/journal.db in your data folder]
    #[arg(long, global = true, value_name = "FILE", env = "DIRIGENT_DB")]
    pub(crate) db: Option<PathBuf>,
    /// A configuration laid over your own, dirigent/dirigent.toml in your configuration folder [env: DIRIGENT_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Pursue a goal in a folder
    #[command(after_long_help = RUN_HELP)]
    Run(RunCommand),
    /// Copy a sample project to a temporary folder and pursue a real goal in it
    Demo(DemoCommand),
    /// Go on with a run that was interrupted, waits for an answer, or ended at a limit
    #[command(after_long_help = RESUME_HELP)]
    Resume(ResumeCommand),
    /// Say something to a run that is under way: its next plan takes it into account
    Guide(GuideCommand),
    /// Show the calls that wait for your approval, or decide about one
    #[command(after_long_help = APPROVE_HELP)]
    Approve(ApproveCommand),
    /// Answer a run's question
    Answer(AnswerCommand),
    /// Watch a run that another process owns; Ctrl-C stops watching, not the run
    Watch(WatchCommand),
    /// End a run that another process owns
    Cancel(CancelCommand),
    /// Start a new run that shares a run's past up to one of its entries
    Fork(ForkCommand),
    /// List the runs of the journal, newest first
    Runs(RunsCommand),
    /// Show a run: its summary, every step or its plan
    Show(ShowCommand),
    /// Show what a run changed in files, as a diff that `git apply` takes
    Diff(DiffCommand),
    /// Put files back as they were before a run, or at one of its entries; what changed since is left alone
    #[command(after_long_help = UNDO_HELP)]
    Undo(UndoCommand),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// List the models that the configured servers offer
    Models(ModelsCommand),
    /// List the sub-agents, where each comes from, and the files that are refused
    Agents(AgentsCommand),
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show what is set and from where, and test whether the models that runs ask and the databases can be reached
    Check(CheckCommand),
}

#[derive(Args)]
pub(crate) struct CheckCommand {
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    /// Connect to nothing
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print it all as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ModelsCommand {
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    /// Print one model a line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct AgentsCommand {
    /// The project whose own agents are among them
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Print it all as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which model is the default.
#[derive(Args, Clone)]
pub(crate) struct ModelChoice {
    /// The model: offline, a name of [models.NAME], or provider/name, such as openai/gpt-4.1-mini [env: DIRIGENT_MODEL]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
}

const RUN_HELP: &str = "\
Examples:
  dirigent run \"Find all usages of function parse_amount and rename it to parse_money\"
  dirigent run \"replace 'colour' with 'color' in docs/\" --workspace ~/site --diff
  dirigent run \"run the tests\" --json
  dirigent run \"run the tests\" --record tests.jsonl
  dirigent run --replay tests.jsonl

Without a model of yours, the offline model answers: it renames symbols, finds usages, replaces text, runs checks, and counts
and lists things, and says so when a goal is beyond it. Choose another with --model, DIRIGENT_MODEL or [model] in dirigent.toml, and
look at what is set with `dirigent config check`.

While it goes on in your terminal, type guidance and Enter: its next plan takes it into account. A line that begins with `!` is taken at once.
What needs your approval is asked there, too. From another terminal there are `dirigent guide`, `approve`, `answer`, `watch` and `cancel`.

Ctrl-C cancels the run and waits until everything it started has ended; a second Ctrl-C kills. A run that was killed goes on
with `dirigent resume`.";

const RESUME_HELP: &str = "\
The limits that are given hold from now on; the others stay as they are. A run that ended at a limit needs a higher one.

Examples:
  dirigent resume last                          # after a crash, or once its model can be reached again
  dirigent resume last --answer \"the second\"
  dirigent resume last --max-iterations 30      # after a limit";

const UNDO_HELP: &str = "\
First it is shown what would be done, and you are asked; where nobody can be asked, only --yes does it. A file that is not what the run left is
never overwritten: then nothing at all is done, unless --skip-changed leaves such files out. What is replaced is kept in the journal.

Only files are put back: what commands, databases and requests changed is not.

Examples:
  dirigent undo last
  dirigent undo last --dry-run
  dirigent undo 01234567 --to 42 --yes       # as it was after entry 42 of `dirigent show 01234567 --steps`";

const APPROVE_HELP: &str = "\
A decision always names its call: without CALL all that waits is shown in full, and nothing is decided. With CALL alone the call runs as it is
shown.

Examples:
  dirigent approve 01234567                              # what waits, in full
  dirigent approve 01234567 a3.7                         # let it run
  dirigent approve 01234567 a3.7 --edit '{\"command\": [\"cargo\", \"check\"]}'
  dirigent approve 01234567 a3.7 --reject \"not on this machine\"
  dirigent approve 01234567 a3.7 --guide \"use cargo check instead\"

A call that is rejected ends its agent's work; one that is guided does not run, and its agent goes on with your words.";

/// How a run is watched.
#[derive(Args, Clone)]
pub(crate) struct WatchOptions {
    /// Print one event a line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// End with every step and observation instead of the summary alone
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// End with the changes as a unified diff
    #[arg(long, conflicts_with = "json")]
    pub(crate) diff: bool,
    /// Ask nothing: a run that needs you stops, and goes on with `approve` and `resume`, or `resume --answer`
    #[arg(long)]
    pub(crate) non_interactive: bool,
    /// The run is replayed: its tools change nothing.
    #[arg(skip)]
    pub(crate) replayed: bool,
}

#[derive(Args)]
pub(crate) struct RunCommand {
    /// What is to be reached, in your words; with --replay, that of the recording
    #[arg(required_unless_present = "replay")]
    pub(crate) goal: Option<String>,
    /// The folder to work in; file tools stay beneath it
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Keep what was changed even if the goal cannot be reached: the goal gets a sentence that says so
    #[arg(long, conflicts_with = "replay")]
    keep: bool,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    #[command(flatten)]
    pub(crate) limits: RunLimitOptions,
    #[command(flatten)]
    pub(crate) agent_limits: AgentLimitOptions,
    #[command(flatten)]
    pub(crate) watching: WatchOptions,
    #[command(flatten)]
    pub(crate) record: RecordOptions,
    /// Replay a recording, with no model and no tools, and say where it differs from what would happen now
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "workspace", "model", "RunLimitOptions", "AgentLimitOptions"])]
    pub(crate) replay: Option<PathBuf>,
}

/// What `--keep` adds to a goal.
const KEEP: &str = "Keep the changes even if the goal cannot be reached.";

impl RunCommand {
    /// The goal as the model is told it.
    pub(crate) fn goal_text(&self) -> String {
        let goal = self.goal.as_deref().unwrap_or_default().trim();
        if self.keep && !goal.is_empty() {
            format!("{}. {KEEP}", goal.trim_end_matches('.'))
        } else {
            goal.to_owned()
        }
    }
}

/// Where a run is recorded.
#[derive(Args)]
pub(crate) struct RecordOptions {
    /// Record the run in a file, for --replay; an earlier recording there is replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DemoCommand {
    /// The model to ask instead of the offline model: a name of [models.NAME], or provider/name; without it no configuration is
    /// read, not even that of --config
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) watching: WatchOptions,
}

#[derive(Args)]
pub(crate) struct ResumeCommand {
    /// The run: its id, four digits or more of it, or `last`
    pub(crate) run: String,
    /// The answer to the run's question, or the number of one of its choices
    #[arg(long, value_name = "TEXT", value_parser = text, allow_hyphen_values = true)]
    pub(crate) answer: Option<String>,
    #[command(flatten)]
    pub(crate) limits: RunLimitOptions,
    #[command(flatten)]
    pub(crate) watching: WatchOptions,
    #[command(flatten)]
    pub(crate) record: RecordOptions,
}

#[derive(Args)]
pub(crate) struct GuideCommand {
    /// The run: its id, four digits or more of it, or `last`
    pub(crate) run: String,
    /// What you have to say
    #[arg(value_name = "TEXT", value_parser = text)]
    pub(crate) guidance: String,
    /// Stop what is under way, and plan anew at once
    #[arg(long, conflicts_with = "agent")]
    pub(crate) now: bool,
    /// Tell one agent alone, such as a3
    #[arg(long, value_name = "AGENT", value_parser = agent)]
    pub(crate) agent: Option<AgentId>,
    /// Print what came of it as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ApproveCommand {
    /// The run: its id, four digits or more of it, or `last`
    pub(crate) run: String,
    /// The call, such as a3.7
    pub(crate) call: Option<EffectId>,
    /// Let it run with these parameters instead
    #[arg(long, value_name = "JSON", requires = "call", conflicts_with_all = ["reject", "guide"])]
    pub(crate) edit: Option<Parameters>,
    /// Don't let it run, and end its agent's work
    #[arg(long, value_name = "REASON", num_args = 0..=1, requires = "call", conflicts_with = "guide")]
    pub(crate) reject: Option<Option<String>>,
    /// Don't let it run, and tell its agent what to do instead
    #[arg(long, value_name = "TEXT", requires = "call", value_parser = text)]
    pub(crate) guide: Option<String>,
    /// Print what waits, or what came of the decision, as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A call's parameters as JSON.
#[derive(Clone)]
pub(crate) struct Parameters(pub(crate) serde_json::Value);

impl FromStr for Parameters {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        serde_json::from_str(text)
            .map(Parameters)
            .map_err(|error| format!("that is no JSON: {error}"))
    }
}

fn agent(text: &str) -> Result<AgentId, String> {
    match text.parse() {
        Ok(Scope::Agent(agent)) => Ok(agent),
        Ok(Scope::Run) | Err(_) => Err("that is no agent; write one such as a3".to_owned()),
    }
}

fn text(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("say something".to_owned()),
        text => Ok(text.to_owned()),
    }
}

#[derive(Args)]
pub(crate) struct AnswerCommand {
    /// The run: its id, four digits or more of it, or `last`
    pub(crate) run: String,
    /// Your answer, or the number of one of the choices
    #[arg(value_name = "TEXT", value_parser = text, allow_negative_numbers = true)]
    pub(crate) answer: String,
    /// Print what came of it as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct CancelCommand {
    /// The run: its id, four digits or more of it, or `last`
    pub(crate) run: String,
    /// Print what came of it as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct WatchCommand {
    /// The run: its id, four digits or more of it, or `last`
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// Print one event a line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// End with every step and observation instead of the summary alone
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// End with the changes as a unified diff
    #[arg(long, conflicts_with = "json")]
    pub(crate) diff: bool,
}

#[derive(Args)]
pub(crate) struct ForkCommand {
    /// The run: its id, four digits or more of it, or `last`
    pub(crate) run: String,
    /// The last entry that both share, as `show --steps` numbers them [default: the last from which it can go on]
    #[arg(long, value_name = "N")]
    pub(crate) at: Option<u64>,
    /// What the new run is told at once
    #[arg(long, value_name = "TEXT", value_parser = text)]
    pub(crate) guidance: Option<String>,
    #[command(flatten)]
    pub(crate) watching: WatchOptions,
    #[command(flatten)]
    pub(crate) record: RecordOptions,
}

#[derive(Args)]
pub(crate) struct RunsCommand {
    /// Print one run a line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// How many at the most
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Args)]
pub(crate) struct ShowCommand {
    /// The run: its id, four digits or more of it, or `last`
    pub(crate) run: String,
    /// Every step and observation
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// The plan of each iteration as a graph, instead of the summary
    #[arg(long, value_name = "FORM", conflicts_with = "verbose")]
    pub(crate) graph: Option<GraphForm>,
    /// Every entry of the journal in a line, by its number for `fork --at`, `diff --to` and `undo --to`, instead of the summary
    #[arg(long, conflicts_with_all = ["verbose", "graph"])]
    pub(crate) steps: bool,
    /// Print the whole report as one JSON object
    #[arg(long, conflicts_with_all = ["verbose"])]
    pub(crate) json: bool,
    /// Record the run in a file, for `run --replay`, instead of showing it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["verbose", "graph", "steps", "json"])]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DiffCommand {
    /// The run: its id, four digits or more of it, or `last`
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// Only what changed after this entry, as `show --steps` numbers them [default: all; of a fork, after the past that it shares]
    #[arg(long, value_name = "N")]
    pub(crate) to: Option<u64>,
    /// Print it as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct UndoCommand {
    /// The run: its id, four digits or more of it, or `last`
    pub(crate) run: String,
    /// Undo only what changed after this entry, as `show --steps` numbers them [default: all; of a fork, after the past that it shares]
    #[arg(long, value_name = "N")]
    pub(crate) to: Option<u64>,
    /// Don't ask
    #[arg(long, short, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    /// Only show what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Leave alone what cannot be undone, and undo the rest
    #[arg(long)]
    pub(crate) skip_changed: bool,
    /// Print what would be done and what was as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphForm {
    /// For Markdown: a Mermaid flowchart
    Mermaid,
    /// For Graphviz
    Dot,
    /// For the terminal
    Tree,
}
