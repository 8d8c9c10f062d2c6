//! Arguments of the `memory` commands.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use dirigent::memory::FactId;

pub(crate) const MEMORY_HELP: &str = "\
A fact is either about you, and applies everywhere, or about one folder. Conversations use them; in a chat, say \"remember that …\".

Facts are stored in plain text in the journal. Text that looks like a password, a key, a token or a card number is refused.

Examples:
  dirigent memory add \"My name is Ann; I prefer short answers\"
  dirigent memory add --workspace \"the staging server is called blue\"
  dirigent memory search staging
  dirigent memory delete 3";

#[derive(Subcommand)]
pub(crate) enum MemoryCommand {
    /// List your facts and those of a folder, newest first
    List(ListFactsCommand),
    /// Show a fact
    Show(ShowFactCommand),
    /// Save a fact about you or, with --workspace, about a folder
    Add(AddFactCommand),
    /// Delete a fact
    Delete(DeleteFactCommand),
    /// Find the facts that contain any word of the text, best matches first
    Search(SearchFactsCommand),
}

/// Which facts are listed.
#[derive(Args)]
pub(crate) struct VisibleOptions {
    /// The folder whose facts are included
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// Include the facts of all folders
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one JSON object per fact
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ListFactsCommand {
    #[command(flatten)]
    pub(crate) visible: VisibleOptions,
}

#[derive(Args)]
pub(crate) struct SearchFactsCommand {
    /// The words to look for, in any language
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) visible: VisibleOptions,
}

#[derive(Args)]
pub(crate) struct ShowFactCommand {
    /// The fact's number, as `memory list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: FactId,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct AddFactCommand {
    /// The fact, in your own words
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
    /// Save the fact for a folder only: without a value, the current folder
    #[arg(long, short, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    pub(crate) workspace: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct DeleteFactCommand {
    /// The fact's number, as `memory list` shows it
    #[arg(value_name = "ID")]
    pub(crate) id: FactId,
    /// Print the deleted fact as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
