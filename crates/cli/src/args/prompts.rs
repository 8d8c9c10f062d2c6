//! Arguments of the `prompts` commands.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use dirigent::model::CallForm;

use super::{ModeChoice, ModelChoice};

pub(crate) const PROMPTS_HELP: &str = "\
A base system prompt is the beginning of what a model gets: who it works for, and how. Dirigent adds the rest: the agent's role, its tools, \
how it calls them and when it ends. The lead begins with the prompt `default`, unless a run or a conversation names another with \
--system-prompt, or [base_prompts] of the configuration does, which can also name prompts of sub-agents.

Every edit makes a new version. Runs keep the version that they were started with; a conversation uses the latest from its next message on.

Examples:
  dirigent prompts add support \"You answer the customers of a bakery.\"
  dirigent prompts add support --file support.md
  dirigent prompts edit support
  dirigent prompts show support --agent lead --form json
  dirigent chat --system-prompt support";

#[derive(Subcommand)]
pub(crate) enum PromptsCommand {
    /// List the base system prompts with their latest versions
    List(ListPromptsCommand),
    /// Create a base system prompt
    Add(AddPromptCommand),
    /// Change a base system prompt, which makes a new version
    Edit(EditPromptCommand),
    /// Delete a base system prompt with all its versions
    Delete(DeletePromptCommand),
    /// Show a base system prompt or, with --enhanced, --agent or --form, all that an agent's model gets before any task
    Show(ShowPromptCommand),
}

#[derive(Args)]
pub(crate) struct ListPromptsCommand {
    /// Print one JSON object per prompt
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct AddPromptCommand {
    /// The name: letters a-z, digits, - and _
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) source: TextSource,
}

#[derive(Args)]
pub(crate) struct EditPromptCommand {
    /// The prompt's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) source: TextSource,
    /// Fail unless this is the latest version
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) version: Option<u32>,
}

/// The source of a prompt's text; the user's editor if neither is given.
#[derive(Args)]
pub(crate) struct TextSource {
    /// The text; `-` reads standard input [default: opens $VISUAL or $EDITOR]
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Read the text from a file
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DeletePromptCommand {
    /// The prompt's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Args)]
#[command(group = ArgGroup::new("model_prompt").multiple(true))]
pub(crate) struct ShowPromptCommand {
    /// The base system prompt [default: `default`; for an agent's prompt, that of the configuration]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// A version of the prompt [default: the latest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) version: Option<u32>,
    /// List all versions, the latest first
    #[arg(long, conflicts_with_all = ["version", "model_prompt"])]
    pub(crate) versions: bool,
    /// Show all that an agent's model gets before any task
    #[arg(long, group = "model_prompt")]
    pub(crate) enhanced: bool,
    /// The agent: lead, reflector, or the name of a sub-agent [default: lead]
    #[arg(long, value_name = "ROLE", group = "model_prompt")]
    pub(crate) agent: Option<String>,
    /// The form of tool calls [default: the form of the agent's model]
    #[arg(long, value_enum, value_name = "FORM", group = "model_prompt")]
    pub(crate) form: Option<Form>,
    /// The mode of the run
    #[arg(long, value_enum, default_value_t, requires = "model_prompt")]
    pub(crate) mode: ModeChoice,
    /// The project folder, whose own agents are included
    #[arg(
        long,
        short,
        value_name = "DIR",
        default_value = ".",
        requires = "model_prompt"
    )]
    pub(crate) workspace: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

impl ShowPromptCommand {
    /// Returns true if the command shows what an agent's model gets.
    pub(crate) fn shows_agent(&self) -> bool {
        self.enhanced || self.agent.is_some() || self.form.is_some()
    }

    /// Returns the name of the agent.
    pub(crate) fn agent(&self) -> &str {
        self.agent.as_deref().unwrap_or("lead")
    }
}

/// A form of tool calls.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Form {
    /// The provider's own tool calls
    Native,
    /// {"tool", "parameters", "terminate"} in the text
    Json,
    /// Like json, enforced by the server
    #[value(alias = "json_schema")]
    JsonSchema,
    /// {"tool_call": {"name", "arguments"}} in the text
    #[value(alias = "tool_call")]
    ToolCall,
}

impl From<Form> for CallForm {
    fn from(form: Form) -> Self {
        match form {
            Form::Native => CallForm::Native,
            Form::Json => CallForm::Json,
            Form::JsonSchema => CallForm::JsonSchema,
            Form::ToolCall => CallForm::ToolCall,
        }
    }
}
