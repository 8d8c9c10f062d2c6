//! What can be said on the command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use dirigent::{Millis, RunLimits};

use crate::exit;

/// Pursues goals with a team of agents: plans, acts, observes, reflects.
#[derive(Parser)]
#[command(name = "dirigent", version, after_help = exit::HELP, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// The journal of runs [default: dirigent/journal.db in your data folder]
    #[arg(long, global = true, value_name = "FILE", env = "DIRIGENT_DB")]
    pub(crate) db: Option<PathBuf>,
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
    /// Go on with a run that was interrupted, or that waits for an answer
    Resume(ResumeCommand),
    /// List the runs of the journal, newest first
    Runs(RunsCommand),
    /// Show a run: its summary, every step, its plan or its changes
    Show(ShowCommand),
}

const RUN_HELP: &str = "\
Examples:
  dirigent run \"Find all usages of function parse_amount and rename it to parse_money\"
  dirigent run \"replace 'colour' with 'color' in docs/\" --workspace ~/site --diff
  dirigent run \"run the tests\" --json
  dirigent run \"run the tests\" --record tests.jsonl
  dirigent run --replay tests.jsonl

Without a model of yours, the offline model answers: it renames symbols, finds usages, replaces text, runs checks, and counts
and lists things, and says so when a goal is beyond it.

Ctrl-C cancels the run and waits until everything it started has ended; a second Ctrl-C kills. A run that was killed goes on
with `dirigent resume`.";

/// How a run is watched.
#[derive(Args, Clone)]
pub(crate) struct Watching {
    /// Print one event a line, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// End with every step and observation instead of the summary alone
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// End with the changes as a unified diff
    #[arg(long, conflicts_with = "json")]
    pub(crate) diff: bool,
    /// Ask nothing: a run that needs you stops, and `resume --answer` goes on with it
    #[arg(long)]
    pub(crate) non_interactive: bool,
}

#[derive(Args)]
pub(crate) struct RunCommand {
    /// What is to be reached, in your words; with --replay, that of the recording
    #[arg(required_unless_present = "replay")]
    pub(crate) goal: Option<String>,
    /// The folder to work in; file tools stay beneath it
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) watching: Watching,
    #[command(flatten)]
    pub(crate) record: RecordTo,
    /// Replay a recording, with no model and no tools, and say where it differs from what would happen now
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "workspace", "Limits"])]
    pub(crate) replay: Option<PathBuf>,
}

/// Where a run is recorded.
#[derive(Args)]
pub(crate) struct RecordTo {
    /// Record the run in a file, for --replay; an earlier recording there is replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Limits {
    /// Planning rounds before the run ends
    #[arg(long, value_name = "N", default_value_t = RunLimits::default().max_iterations, value_parser = clap::value_parser!(u32).range(1..))]
    max_iterations: u32,
    /// Sub-tasks side by side
    #[arg(long, value_name = "N", default_value_t = RunLimits::default().max_parallel, value_parser = clap::value_parser!(u32).range(1..))]
    max_parallel: u32,
    /// How long the run may take, such as 90s, 10m or 2h [default: as long as it takes]
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
    /// Tokens that the run may use [default: no limit]
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
}

impl Limits {
    pub(crate) fn meaning(&self) -> RunLimits {
        RunLimits {
            max_iterations: self.max_iterations,
            max_parallel: self.max_parallel,
            timeout: self.timeout.map(|span| span.0),
            max_tokens: self.max_tokens,
            ..RunLimits::default()
        }
    }
}

/// A span of time as people write it.
#[derive(Clone, Copy)]
struct Span(Millis);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let span: jiff::SignedDuration = text
            .parse()
            .map_err(|_| "that is no time; write one such as 90s, 10m or 2h".to_owned())?;
        match std::time::Duration::try_from(span) {
            Ok(duration) if !duration.is_zero() => Ok(Span(duration.into())),
            _ => Err("a time must be more than nothing, such as 90s, 10m or 2h".to_owned()),
        }
    }
}

#[derive(Args)]
pub(crate) struct DemoCommand {
    #[command(flatten)]
    pub(crate) watching: Watching,
}

#[derive(Args)]
pub(crate) struct ResumeCommand {
    /// The run: its id, four digits or more of it, or `last`
    pub(crate) run: String,
    /// The answer to the run's question
    #[arg(long, value_name = "TEXT")]
    pub(crate) answer: Option<String>,
    #[command(flatten)]
    pub(crate) watching: Watching,
    #[command(flatten)]
    pub(crate) record: RecordTo,
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
    /// The plan of each round as a graph, instead of the summary
    #[arg(long, value_name = "FORM", conflicts_with_all = ["verbose", "diff"])]
    pub(crate) graph: Option<GraphForm>,
    /// The changes as a unified diff, instead of the summary
    #[arg(long, conflicts_with = "verbose")]
    pub(crate) diff: bool,
    /// Print the whole report as one JSON object
    #[arg(long, conflicts_with_all = ["verbose"])]
    pub(crate) json: bool,
    /// Record the run in a file, for `run --replay`, instead of showing it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["verbose", "graph", "diff", "json"])]
    pub(crate) record: Option<PathBuf>,
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
