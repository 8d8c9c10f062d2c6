//! Arguments of `completions` and `man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

pub(crate) const COMPLETIONS_HELP: &str = "\
Examples:
  dirigent completions bash > ~/.local/share/bash-completion/completions/dirigent
  dirigent completions zsh > ~/.zfunc/_dirigent        # ~/.zfunc must be in your $fpath
  dirigent completions fish > ~/.config/fish/completions/dirigent.fish";

#[derive(Args)]
pub(crate) struct CompletionsCommand {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManCommand {
    /// The folder to write the pages to, such as ~/.local/share/man/man1; it is created if it does not exist
    pub(crate) folder: PathBuf,
}
