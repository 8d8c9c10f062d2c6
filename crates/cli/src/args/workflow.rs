//! Arguments of `dirigent workflow`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::RunOptions;

const RUN_HELP: &str = "\
Examples:
  dirigent workflow run create_project my-app                 # parameters in their order
  dirigent workflow run replace_text old=colour new=color place=docs
  dirigent workflow run create_project a python project called my-app   # a sentence, which the model understands
  dirigent run \"/create_project my-app\"                      # the same, in the form of a goal";

#[derive(Subcommand)]
pub(crate) enum WorkflowCommand {
    /// List the workflows by category, and the files that are refused or not trusted yet
    List(ListWorkflowsCommand),
    /// Show a workflow: its parameters, its restrictions and its template
    Show(ShowWorkflowCommand),
    /// Run a workflow
    #[command(after_long_help = RUN_HELP)]
    Run(Box<RunWorkflowCommand>),
    /// Trust workflow files of the project as they are now
    Trust(TrustWorkflowCommand),
    /// Write a file for a new workflow into your configuration folder
    New(NewWorkflowCommand),
}

#[derive(Args)]
pub(crate) struct ListWorkflowsCommand {
    /// List only workflows of this category
    #[arg(long, value_name = "NAME")]
    pub(crate) category: Option<String>,
    /// The project folder, whose own workflows are included
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ShowWorkflowCommand {
    /// The workflow
    pub(crate) name: String,
    /// The project folder, whose own workflows are included
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RunWorkflowCommand {
    /// The workflow
    pub(crate) name: String,
    /// Values of its parameters: NAME=VALUE, values in the order of the parameters, or a sentence that contains them
    #[arg(value_name = "VALUE")]
    pub(crate) arguments: Vec<String>,
    #[command(flatten)]
    pub(crate) options: RunOptions,
}

#[derive(Args)]
pub(crate) struct TrustWorkflowCommand {
    /// The workflow files
    #[arg(value_name = "FILE", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) files: Vec<PathBuf>,
    /// Trust all workflow files of the project
    #[arg(long)]
    pub(crate) all: bool,
    /// The project folder
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
}

#[derive(Args)]
pub(crate) struct NewWorkflowCommand {
    /// The name, by which you invoke the workflow
    pub(crate) name: String,
}
