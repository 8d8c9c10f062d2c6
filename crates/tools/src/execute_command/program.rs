//! The command line of a call: a program with its arguments, or a line for the shell.

use schemars::JsonSchema;
use serde::Deserialize;

/// The command to run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a list of the program and each of its arguments, or one string for the shell"
)]
pub(super) enum CommandLine {
    /// The program and its arguments, one element each, run without a shell: ["cargo", "test", "--quiet"].
    Arguments(#[schemars(length(min = 1))] Vec<String>),
    /// A line to run with `sh -c`: "cargo test --quiet | tail -5".
    Shell(#[schemars(length(min = 1))] String),
}

impl CommandLine {
    /// Returns the program and its arguments. `None` if the command is empty.
    pub(super) fn program_and_arguments(&self) -> Option<(&str, Vec<&str>)> {
        match self {
            CommandLine::Arguments(words) => {
                let (program, arguments) = words.split_first()?;
                Some((program, arguments.iter().map(String::as_str).collect()))
            }
            CommandLine::Shell(line) if line.trim().is_empty() => None,
            CommandLine::Shell(line) => Some(("sh", vec!["-c", line])),
        }
    }

    /// Formats the command as one would type it into a shell.
    pub(super) fn display(&self) -> String {
        match self {
            CommandLine::Arguments(words) => {
                let words: Vec<_> = words.iter().map(|word| shell_quote(word)).collect();
                words.join(" ")
            }
            CommandLine::Shell(line) => line.clone(),
        }
    }
}

fn shell_quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
