//! Command-line arguments.

mod approvals;
mod init;
mod journal;
mod limits;
mod mcp;
mod memory;
mod prompts;
mod runs;
mod serve;
mod steering;
mod terminal;
mod workflow;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use dirigent::Mode;

use crate::exit;
pub(crate) use approvals::{APPROVALS_HELP, ApprovalsCommand, ListApprovalsCommand, RemoveApprovalCommand};
use init::INIT_HELP;
pub(crate) use init::InitCommand;
pub(crate) use journal::{
    BackupCommand, CheckJournalCommand, ExportCommand, ImportCommand, JournalCommand, PruneCommand,
};
pub(crate) use limits::{AgentLimitOptions, RunLimitOptions};
pub(crate) use mcp::{
    AddServiceCommand, ImportServicesCommand, ListServicesCommand, McpCommand, ServeMcpCommand,
    ServiceCommand, ServiceOptions, ServicesCommand, ShowServiceCommand, TrustServicesCommand,
    UntrustServicesCommand, UpdateServiceCommand,
};
pub(crate) use memory::{
    AddFactCommand, DeleteFactCommand, ListFactsCommand, MemoryCommand, SearchFactsCommand, ShowFactCommand,
    VisibleOptions,
};
pub(crate) use prompts::{
    AddPromptCommand, DeletePromptCommand, EditPromptCommand, ListPromptsCommand, PROMPTS_HELP,
    PromptsCommand, ShowPromptCommand, TextSource,
};
pub(crate) use runs::{RunsCommand, Since};
use serve::SERVE_HELP;
pub(crate) use serve::ServeCommand;
use steering::{ANSWER_HELP, APPROVE_HELP};
pub(crate) use steering::{AnswerCommand, ApproveCommand, CancelCommand, GuideCommand, RuleWithin};
use terminal::COMPLETIONS_HELP;
pub(crate) use terminal::{CompletionsCommand, ManCommand};
pub(crate) use workflow::{
    ListWorkflowsCommand, NewWorkflowCommand, RunWorkflowCommand, ShowWorkflowCommand, TrustWorkflowCommand,
    WorkflowCommand,
};

/// The version, and the commit from which this command is built.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("DIRIGENT_COMMIT"));
/// The version with what a report of a problem needs.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("DIRIGENT_COMMIT"),
    "\ntarget: ",
    env!("DIRIGENT_TARGET"),
);

/// Achieves goals with a team of agents that plan, act, observe and reflect.
#[derive(Parser)]
#[command(name = "dirigent", version = VERSION, long_version = LONG_VERSION, after_help = exit::HELP)]
pub(crate) struct Arguments {
    /// The journal to use [default: dirigent/journal.db in your data folder]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "DIRIGENT_DB",
        hide_env_values = true,
        help_heading = "Global options"
    )]
    pub(crate) db: Option<PathBuf>,
    /// A configuration file whose settings override dirigent/dirigent.toml in your configuration folder [env: DIRIGENT_CONFIG]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Choose a model, test it and write your configuration
    #[command(after_long_help = INIT_HELP)]
    Init(InitCommand),
    /// Look for everything that could be wrong, and say what to do
    Doctor(DoctorCommand),
    /// Pursue a goal in a folder
    #[command(after_long_help = RUN_HELP)]
    Run(RunCommand),
    /// Talk with the lead agent in a folder: each message continues where the last one left off
    #[command(after_long_help = CHAT_HELP)]
    Chat(ChatCommand),
    /// List, show, export and delete conversations
    #[command(subcommand, after_long_help = CONVERSATIONS_HELP)]
    Conversations(ConversationsCommand),
    /// Pursue a goal in a copy of a sample project
    Demo(DemoCommand),
    /// Continue a run that was interrupted, is waiting for you, or ended at a limit
    #[command(after_long_help = RESUME_HELP)]
    Resume(ResumeCommand),
    /// Send guidance to a run, for its next plan
    Guide(GuideCommand),
    /// Show the calls that are waiting for your approval, or decide on one
    #[command(after_long_help = APPROVE_HELP)]
    Approve(ApproveCommand),
    /// List and remove the rules by which you always allow calls
    #[command(subcommand, after_long_help = APPROVALS_HELP)]
    Approvals(ApprovalsCommand),
    /// Answer a question from a run or one of its agents
    #[command(after_long_help = ANSWER_HELP, override_usage = "dirigent answer [OPTIONS] <RUN> [QUESTION] <TEXT>")]
    Answer(AnswerCommand),
    /// Follow a run of another process; Ctrl-C stops watching, not the run
    Watch(WatchCommand),
    /// Cancel a run of another process
    Cancel(CancelCommand),
    /// Start a new run from an entry of another run's journal
    Fork(ForkCommand),
    /// List the runs in the journal, newest first
    Runs(RunsCommand),
    /// Show a run: its summary, all steps or its plans
    Show(ShowCommand),
    /// Print a run as one document: outcome, plans, steps, changes and costs
    #[command(after_long_help = EXPORT_HELP)]
    Export(ExportRunCommand),
    /// Show a run's changes to files as a diff for `git apply`
    Diff(DiffCommand),
    /// Apply the changes of a run's worktree to your folder, and remove the worktree
    #[command(after_long_help = APPLY_HELP)]
    Apply(ApplyCommand),
    /// Restore files to their state before a run, or after one of its journal entries
    #[command(after_long_help = UNDO_HELP)]
    Undo(UndoCommand),
    /// List, add, search and delete the facts that Dirigent remembers
    #[command(subcommand, after_long_help = memory::MEMORY_HELP)]
    Memory(MemoryCommand),
    /// Check, back up or prune the journal, and move runs between journals
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Inspect the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// List the models of the configured servers
    Models(ModelsCommand),
    /// List the sub-agents with their sources, and the agent files that were refused
    Agents(AgentsCommand),
    /// List, show, run and write workflows: goals that you invoke by name
    #[command(subcommand)]
    Workflow(WorkflowCommand),
    /// Add, list, start and stop MCP services: programs and servers that offer tools to agents
    #[command(subcommand, after_long_help = mcp::MCP_HELP)]
    Mcp(McpCommand),
    /// Serve runs and conversations over HTTP
    #[command(after_long_help = SERVE_HELP)]
    Serve(ServeCommand),
    /// List, write and show base system prompts, and what agents' models get
    #[command(subcommand, after_long_help = PROMPTS_HELP)]
    Prompts(PromptsCommand),
    /// Print the completions of a shell
    #[command(after_long_help = COMPLETIONS_HELP)]
    Completions(CompletionsCommand),
    /// Write a manual page for each command
    Man(ManCommand),
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show all settings with their sources, and test the connections to models and databases
    Check(CheckCommand),
}

#[derive(Args)]
pub(crate) struct CheckCommand {
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    /// Skip the connection tests
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct DoctorCommand {
    /// Skip the connection tests
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ModelsCommand {
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    /// Print one JSON object per model
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct AgentsCommand {
    /// The project folder, whose own agents are included
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The default model.
#[derive(Args, Clone)]
pub(crate) struct ModelChoice {
    /// The default model: `offline`, a name from [models.NAME], or PROVIDER/NAME such as openai/gpt-4.1-mini [env: DIRIGENT_MODEL]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
}

const RUN_HELP: &str = "\
Examples:
  dirigent run \"Find all usages of function parse_amount and rename it to parse_money\"
  dirigent run \"replace 'colour' with 'color' in docs/\" --workspace ~/site --diff
  dirigent run \"rename Point to Position\" --mode plan     # see and approve the plan before anything changes
  dirigent run \"add a test\" --worktree                    # leave your folder as it is until you apply the changes
  dirigent run --file goal.md                               # `dirigent run -` reads standard input
  dirigent run \"run the tests\" --json
  dirigent run \"run the tests\" --record tests.jsonl
  dirigent run --replay tests.jsonl

Models:
Without a configured model, the built-in offline model is used. It renames symbols, finds usages, replaces text, creates
minimal projects, runs checks, and counts and lists things; other goals fail with an explanation. Choose another model with --model, DIRIGENT_MODEL or [model] in
dirigent.toml, and verify the choice with `dirigent config check`.

While the run is in progress:
Type guidance and Enter in its terminal; the next plan takes it into account. Begin the line with `!` to interrupt the current work
and plan again at once. Approvals and questions appear in the same terminal. From another terminal, use `dirigent guide`, `approve`,
`answer`, `watch` and `cancel`.

Ctrl-C cancels the run and waits until everything it started has ended; a second Ctrl-C kills it. Continue a killed run with
`dirigent resume`.";

const RESUME_HELP: &str = "\
Limits given here replace those of the run; its other limits remain. A run that ended at a limit needs a higher limit.

Examples:
  dirigent resume last                          # after a crash, or when its model is reachable again
  dirigent resume last --answer \"the second\"
  dirigent resume last --max-iterations 30      # after a limit";

const UNDO_HELP: &str = "\
Shows the steps and asks for confirmation; without a terminal, --yes is required. A file that has changed since the run is never
overwritten: if there is such a file, nothing is undone; with --skip-changed, the other files are undone. The journal keeps the
replaced contents.

The changes of the run's file tools are undone. Changes that happened while its commands ran, whether by them or by something else, are
listed. They are undone only if you confirm that, or with --include-commands. Changes to databases and by web requests are never undone.

Examples:
  dirigent undo last
  dirigent undo last --dry-run
  dirigent undo 01234567 --after 42 --yes    # the changes after entry 42 of `dirigent show 01234567 --steps`";

const APPLY_HELP: &str = "\
For a run that was started with `dirigent run --worktree`. The changes are merged with yours and not committed. If they conflict with
yours, nothing is applied. The worktree stays as long as the run can be resumed in it.

Examples:
  dirigent diff last               # see the changes first
  dirigent apply last
  dirigent apply last --discard    # remove the worktree without applying anything";

/// Output and interaction options.
#[derive(Args, Clone)]
pub(crate) struct WatchOptions {
    /// Print events as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Print all steps and observations after the run, not only the summary
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// Print the changes as a unified diff after the run
    #[arg(long, conflicts_with = "json")]
    pub(crate) diff: bool,
    /// Never ask: a run that needs you stops with exit code 4; continue it with `approve` and `resume`, or `resume --answer`
    #[arg(long)]
    pub(crate) non_interactive: bool,
    /// True for a replay, which changes no files.
    #[arg(skip)]
    pub(crate) replayed: bool,
    /// True for a turn of a chat, which Esc stops.
    #[arg(skip)]
    pub(crate) in_chat: bool,
}

#[derive(Args)]
pub(crate) struct RunCommand {
    /// The goal in your own words, or a workflow, such as "/create_project my-app"; @path includes a text file of the workspace; `-` reads
    /// the goal from standard input. With --replay: optional; replaces the recorded goal for the comparison [default: the recorded goal]
    #[arg(required_unless_present_any = ["replay", "file"])]
    pub(crate) goal: Option<String>,
    /// Read the goal from a file
    #[arg(long, value_name = "FILE", conflicts_with = "goal")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: RunOptions,
    /// Replay a recording without models or tools, and report the first difference
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "record", "workspace", "mode", "worktree", "wait", "no_instructions", "keep", "PromptChoice", "model", "RunLimitOptions", "AgentLimitOptions"
        ]
    )]
    pub(crate) replay: Option<PathBuf>,
}

/// The options of a new run.
#[derive(Args)]
pub(crate) struct RunOptions {
    /// The folder to work in; file tools cannot leave it
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// What the lead may do itself
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: ModeChoice,
    /// With `--mode plan`, execute plans without asking; calls that need your approval still wait for it
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Work in a new git worktree of the last commit, and offer to apply the changes at the end
    #[arg(long, conflicts_with = "wait")]
    pub(crate) worktree: bool,
    /// If other runs are working in the folder, wait until they have ended [default: ask; without a terminal, start at once]
    #[arg(long)]
    pub(crate) wait: bool,
    /// Do not give agents the project's instructions (AGENTS.md or CLAUDE.md)
    #[arg(long)]
    pub(crate) no_instructions: bool,
    /// Add to the goal that changes are to be kept even if it cannot be achieved
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) prompt: PromptChoice,
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
}

const CHAT_HELP: &str = "\
At a terminal, type a message and Enter; /help lists the commands of a chat. While a turn runs, what you type is guidance to it; Ctrl-C
stops the turn, not the chat. Without a terminal, each line of standard input is a message.

Examples:
  dirigent chat                                  # a new conversation in this folder
  dirigent chat --context last                   # continue the last one, even after a crash
  dirigent chat --context last \"and now in Rust\"  # send one message, print the answer and exit
";

#[derive(Args)]
pub(crate) struct ChatCommand {
    /// A message to send; prints the answer and exits
    pub(crate) message: Option<String>,
    /// Continue a conversation: `last` (of the current folder), an id, or at least four hex digits from the start or end of the id
    /// [default: a new one]
    #[arg(long, short, value_name = "ID", conflicts_with = "workspace")]
    pub(crate) context: Option<String>,
    /// The folder to work in; file tools cannot leave it
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// What the lead may do itself [default: auto, or the conversation's mode]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeChoice>,
    #[command(flatten)]
    pub(crate) prompt: PromptChoice,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    #[command(flatten)]
    pub(crate) watching: WatchOptions,
}

const CONVERSATIONS_HELP: &str = "\
Examples:
  dirigent conversations list --search parser
  dirigent conversations show last --markdown > chat.md
  dirigent conversations rename last \"The parser\"
  dirigent conversations delete 3f2a91bc";

#[derive(Subcommand)]
pub(crate) enum ConversationsCommand {
    /// List conversations, the most recently used ones first
    List(ListConversationsCommand),
    /// Show the messages and answers of a conversation
    Show(ShowConversationCommand),
    /// Set the title of a conversation
    Rename(RenameConversationCommand),
    /// Delete a conversation with its turns
    Delete(DeleteConversationCommand),
}

#[derive(Args)]
pub(crate) struct ListConversationsCommand {
    /// Only conversations with this text in their title or in a message
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// Only conversations in this folder
    #[arg(long, short, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Maximum number of conversations
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
    pub(crate) limit: usize,
    /// Print one JSON object per conversation
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ShowConversationCommand {
    /// The conversation: `last`, an id, or at least four hex digits from the start or end of the id
    #[arg(default_value = "last")]
    pub(crate) conversation: String,
    /// Show at most this many turns, the most recent ones
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    pub(crate) limit: usize,
    /// Print one JSON object, with the report of each turn
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Print Markdown, to export the conversation
    #[arg(long)]
    pub(crate) markdown: bool,
}

#[derive(Args)]
pub(crate) struct RenameConversationCommand {
    /// The conversation: `last`, an id, or at least four hex digits from the start or end of the id
    pub(crate) conversation: String,
    /// The new title
    pub(crate) title: String,
}

#[derive(Args)]
pub(crate) struct DeleteConversationCommand {
    /// The conversation: an id, or at least four hex digits from the start or end of the id
    pub(crate) conversation: String,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// What the lead may do itself (LEAD-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeChoice {
    /// Answer, act, delegate or plan, with all tools
    #[default]
    Auto,
    /// Only read and plan; each plan is shown, and waits until you approve it
    Plan,
}

impl From<ModeChoice> for Mode {
    fn from(mode: ModeChoice) -> Self {
        match mode {
            ModeChoice::Auto => Mode::Auto,
            ModeChoice::Plan => Mode::Plan,
        }
    }
}

/// The base system prompt of the lead.
#[derive(Args)]
pub(crate) struct PromptChoice {
    /// The base system prompt, by its name in `dirigent prompts list`
    #[arg(long, value_name = "NAME")]
    pub(crate) system_prompt: Option<String>,
}

/// The sentence that `--keep` adds to the goal.
pub(crate) const KEEP: &str = "Keep the changes even if the goal cannot be reached.";

#[derive(Args)]
pub(crate) struct RecordOptions {
    /// Record the run to a file, for `run --replay`; replaces an existing recording
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DemoCommand {
    /// The model to use instead of the offline model: a name from [models.NAME], or PROVIDER/NAME. Without this option no configuration
    /// is read, not even the file of --config
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) watching: WatchOptions,
}

#[derive(Args)]
pub(crate) struct ResumeCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    pub(crate) run: String,
    /// The answer to the run's question, or the number of a choice
    #[arg(long, value_name = "TEXT", value_parser = text, allow_hyphen_values = true)]
    pub(crate) answer: Option<String>,
    /// If other runs are working in the folder, wait until they have ended [default: ask; without a terminal, start at once]
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) limits: RunLimitOptions,
    #[command(flatten)]
    pub(crate) watching: WatchOptions,
    #[command(flatten)]
    pub(crate) record: RecordOptions,
}

#[derive(Args)]
pub(crate) struct WatchCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// Print events as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Print all steps and observations after the run, not only the summary
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// Print the changes as a unified diff after the run
    #[arg(long, conflicts_with = "json")]
    pub(crate) diff: bool,
}

#[derive(Args)]
pub(crate) struct ForkCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    pub(crate) run: String,
    /// Fork after this journal entry, a number from `show --steps` [default: the last entry from which the run can continue]
    #[arg(long, value_name = "N")]
    pub(crate) at: Option<u64>,
    /// Guidance for the new run
    #[arg(long, value_name = "TEXT", value_parser = text)]
    pub(crate) guidance: Option<String>,
    #[command(flatten)]
    pub(crate) watching: WatchOptions,
    #[command(flatten)]
    pub(crate) record: RecordOptions,
}

#[derive(Args)]
pub(crate) struct ShowCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    pub(crate) run: String,
    /// Show all steps and observations
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Show the plan of each iteration as a graph instead of the summary
    #[arg(long, value_name = "FORM", conflicts_with = "verbose")]
    pub(crate) graph: Option<GraphForm>,
    /// List the journal entries instead of the summary, with their numbers for `fork --at`, `diff --after` and `undo --after`
    #[arg(long, conflicts_with_all = ["verbose", "graph"])]
    pub(crate) steps: bool,
    /// Print the full report as one JSON object
    #[arg(long, conflicts_with_all = ["verbose"])]
    pub(crate) json: bool,
    /// Write a recording of the run to a file, for `run --replay`, instead of showing it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["verbose", "graph", "steps", "json"])]
    pub(crate) record: Option<PathBuf>,
}

const EXPORT_HELP: &str = "\
The document contains what the run read and wrote: look at it before you pass it on. To move a run to another journal, use
`dirigent journal export`.

Examples:
  dirigent export last --format html > run.html    # a page that needs nothing else
  dirigent export last > run.md                    # Markdown, with the plans as Mermaid
  dirigent export last --format json | jq .diff -r";

#[derive(Args)]
pub(crate) struct ExportRunCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// The form of the document
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ExportForm,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportForm {
    /// Markdown
    #[default]
    Md,
    /// One JSON object: that of `show --json`, with `graphs` and `diff`
    Json,
    /// An HTML page that needs nothing else
    Html,
}

#[derive(Args)]
pub(crate) struct DiffCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// Show only changes after this journal entry, a number from `show --steps` [default: all changes; for a fork, those made after it was
    /// forked]
    #[arg(long, value_name = "N")]
    pub(crate) after: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ApplyCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    pub(crate) run: String,
    /// Remove the worktree with its changes instead
    #[arg(long)]
    pub(crate) discard: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct UndoCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    pub(crate) run: String,
    /// Undo only changes after this journal entry, a number from `show --steps` [default: all changes; for a fork, those made after it was
    /// forked]
    #[arg(long, value_name = "N")]
    pub(crate) after: Option<u64>,
    /// Do not ask for confirmation
    #[arg(long, short, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
    /// Also undo changes made while commands were running, whether by them or by something else
    #[arg(long)]
    pub(crate) include_commands: bool,
    /// Only show the steps
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Skip files that cannot be undone, and undo the others
    #[arg(long)]
    pub(crate) skip_changed: bool,
    /// Print the steps and the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphForm {
    /// A Mermaid flowchart, for Markdown
    Mermaid,
    /// Graphviz
    Dot,
    /// Text, for the terminal
    Tree,
}

fn text(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("must not be empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("must be a whole number, at least 1".to_owned()),
    }
}
