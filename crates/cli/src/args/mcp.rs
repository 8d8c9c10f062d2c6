//! Arguments of the `mcp` commands.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use dirigent::{Millis, parse_duration};

use super::ModelChoice;

pub(crate) const MCP_HELP: &str = "\
A service is a program, or a server behind a URL, that offers tools by the Model Context Protocol. A run, a chat or the server starts it when \
it is needed, and ends it with itself: no service runs in the background, and these commands start one only to see whether it works and \
which tools it has.

Services come from [mcp.NAME] in dirigent.toml, from `dirigent mcp add` and `import`, and from the project's .mcp.json once you have trusted \
its content. A name that exists twice stands for the first of them in this order.

Examples:
  dirigent mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  dirigent mcp add search --url https://search.example.com/mcp --bearer-token-env SEARCH_TOKEN
  dirigent mcp import ~/.cursor/mcp.json
  dirigent mcp show files
  dirigent run \"use the files tool to list my notes\"";

const ADD_HELP: &str = "\
A value of --env or --header that is a secret is refused, because it would be stored: write ${NAME} for a variable of your environment.

Examples:
  dirigent mcp add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  dirigent mcp add github --env 'GITHUB_TOKEN=${GITHUB_TOKEN}' --keyword issues -- github-mcp-server stdio
  dirigent mcp add search --url https://search.example.com/mcp --bearer-token-env SEARCH_TOKEN";

const SERVE_HELP: &str = "\
The program that delegates starts this command, and speaks the Model Context Protocol with its standard input and output. Its tools: start_goal, wait_run, run_status, \
guide_run, answer_run, cancel_run, list_runs and run_diff. They see the runs of the workspace and, if the program has roots, of these folders.

What a run asks, and calls that need approval, are put to you by that program if it can (elicitation); otherwise decide with `dirigent approve` in a terminal or in the console. \
The model that delegates never decides, unless you start this command with --allow-decide.

When the program closes the connection, the runs that this process owns stop at their last journal entry, and can be resumed.

Examples:
  claude mcp add dirigent -- dirigent mcp serve
  codex mcp add dirigent -- dirigent mcp serve
  dirigent mcp serve --workspace ~/project --model fast

Over HTTP, `dirigent serve` has the same tools at /mcp.";

#[derive(Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one value of it in a process")]
pub(crate) enum McpCommand {
    #[command(flatten)]
    Services(ServicesCommand),
    /// Serve Dirigent itself to another agent or an editor, which delegates goals to it
    #[command(after_long_help = SERVE_HELP)]
    Serve(ServeMcpCommand),
}

/// The commands about the services that Dirigent uses.
#[derive(Subcommand)]
pub(crate) enum ServicesCommand {
    /// Add a service, and start it once to learn its tools
    #[command(after_long_help = ADD_HELP)]
    Add(AddServiceCommand),
    /// Change the given settings of a service that you added; the others stay
    Update(UpdateServiceCommand),
    /// Remove a service that you added
    Remove(ServiceCommand),
    /// List all services, and the project's file if you have not trusted it
    List(ListServicesCommand),
    /// Show a service: its settings, its tools, and the tools that cannot be called
    Show(ShowServiceCommand),
    /// Let runs use a stopped service again, start it once and list its tools
    Start(ServiceCommand),
    /// Keep runs from starting a service until `dirigent mcp start`; runs that already use it are not affected
    Stop(ServiceCommand),
    /// Print the last lines of a service's standard error, as of its latest start
    Logs(ServiceCommand),
    /// Add the services of a JSON file of Claude Desktop, Claude Code, Cursor or VS Code, and start each once
    Import(ImportServicesCommand),
    /// Show the services of the project's .mcp.json and, if you confirm, trust its present content and start each once
    Trust(TrustServicesCommand),
    /// Withdraw the trust in the project's .mcp.json: no run uses its services from now on
    Untrust(UntrustServicesCommand),
}

#[derive(Args)]
pub(crate) struct AddServiceCommand {
    /// The name: up to 32 letters, digits, - and single _
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) options: ServiceOptions,
}

#[derive(Args)]
pub(crate) struct UpdateServiceCommand {
    /// The service
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Whether runs may have the service's tools
    #[arg(long, value_name = "BOOL")]
    pub(crate) enabled: Option<bool>,
    /// The project folder, whose own services are named in errors
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    #[command(flatten)]
    pub(crate) options: ServiceOptions,
}

/// The settings of a service.
#[derive(Args)]
pub(crate) struct ServiceOptions {
    /// A variable of the program's environment; may be given several times
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "url")]
    pub(crate) env: Vec<(String, String)>,
    /// The folder in which the program runs [default: the folder of the run's process]
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub(crate) cwd: Option<PathBuf>,
    /// The address of a server (Streamable HTTP), in place of a command
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// A header of each request to the URL; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "command")]
    pub(crate) headers: Vec<(String, String)>,
    /// The name of the environment variable that contains the bearer token for the URL
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub(crate) bearer_token_env: Option<String>,
    /// The time after which a call is ended, such as 90s [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Millis>,
    /// The time within which the service must be ready after its start [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) start_timeout: Option<Millis>,
    /// The purpose of the service, for models [default: its name]
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// A word in a goal or a message that refers to the service; may be given several times
    #[arg(long = "keyword", value_name = "WORD")]
    pub(crate) keywords: Vec<String>,
    /// Trust what the service says about its tools: only those that it declares destructive then still need approval
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) trust: Option<bool>,
    /// The program of the service and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Splits `NAME=VALUE`, or a header as `NAME: VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(['=', ':'])
        .filter(|(name, _)| !name.trim().is_empty())
        .ok_or("write NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim_start().to_owned()))
}

#[derive(Args)]
pub(crate) struct ListServicesCommand {
    /// The project folder, whose own services are included
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ShowServiceCommand {
    /// The service
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The project folder, whose own services are included
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ServiceCommand {
    /// The service
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The project folder, whose own services are included
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
}

#[derive(Args)]
pub(crate) struct ImportServicesCommand {
    /// The JSON file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The folder for which ${workspaceFolder} stands in the file
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
}

#[derive(Args)]
pub(crate) struct TrustServicesCommand {
    /// The project folder
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Args)]
pub(crate) struct ServeMcpCommand {
    /// The folder to which runs are limited
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    /// Let the model that delegates decide about calls that need approval, with the tool decide_call
    #[arg(long)]
    pub(crate) allow_decide: bool,
}

#[derive(Args)]
pub(crate) struct UntrustServicesCommand {
    /// The project folder
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
}
