//! `completions` and `man`: files that make the command known to shells and to `man`. They are generated from the arguments.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::args::{Arguments, CompletionsCommand, ManCommand};
use crate::exit::Exit;
use crate::output::Output;

/// Prints the completions of a shell.
pub(crate) fn completions(command: &CompletionsCommand, output: &Output) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(command.shell, &mut Arguments::command(), "dirigent", &mut script);
    output.print(&String::from_utf8_lossy(&script));
    Exit::Success
}

/// Writes a page for each command, such as `dirigent-run.1`.
pub(crate) fn man(command: &ManCommand, output: &Output) -> anyhow::Result<Exit> {
    let folder = &command.folder;
    write_pages(folder).with_context(|| {
        let folder = folder.display();
        format!("cannot write manual pages to {folder}: give a folder that you can write to")
    })?;
    output.note(&format!("wrote the manual pages to {}", folder.display()));
    Ok(Exit::Success)
}

fn write_pages(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let arguments = Arguments::command().version(env!("CARGO_PKG_VERSION"));
    clap_mangen::generate_to(arguments, folder)
}
