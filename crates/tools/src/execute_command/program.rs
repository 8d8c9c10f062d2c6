//! The command line of a call: a program with its arguments, or a line for the shell.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::sandbox::locate_program;

/// Switches `pipefail` on if the shell supports it. Not every `sh` does.
const PIPEFAIL_IF_KNOWN: &str = "(set -o pipefail) 2>/dev/null && set -o pipefail; ";

// A doc comment would be a description in the schema, which models need not read.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a list of the program and each of its arguments, or one string for the shell"
)]
pub(super) enum CommandLine {
    /// Without a shell: ["cargo", "test"].
    Arguments(#[schemars(length(min = 1))] Vec<String>),
    /// A line for the shell, with `pipefail`.
    Shell(#[schemars(length(min = 1))] String),
}

/// The shell that runs lines. A pipeline fails if one of its commands fails (`pipefail`), so that a failing command is not taken for a
/// success.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shell {
    Bash,
    /// The system's `sh`, if there is no bash. Some versions, such as dash before 0.5.13, have no `pipefail`.
    /// With these versions, only the last command of a pipeline counts.
    Sh,
}

impl Shell {
    /// Chooses a shell in the folders of `PATH`.
    pub(super) fn find(search: &[PathBuf]) -> Self {
        match locate_program("bash", Path::new("/"), search) {
            Ok(_) => Shell::Bash,
            Err(_) => Shell::Sh,
        }
    }

    fn program_and_arguments(self, line: &str) -> (&'static str, Vec<String>) {
        match self {
            Shell::Bash => {
                let arguments = ["-o", "pipefail", "-c", line].map(str::to_owned);
                ("bash", arguments.to_vec())
            }
            Shell::Sh => {
                let line = format!("{PIPEFAIL_IF_KNOWN}{line}");
                ("sh", vec!["-c".to_owned(), line])
            }
        }
    }
}

impl CommandLine {
    /// Returns the program and its arguments. `None` if the command is empty.
    pub(super) fn program_and_arguments(&self, shell: Shell) -> Option<(&str, Vec<String>)> {
        match self {
            CommandLine::Arguments(words) => {
                let (program, arguments) = words.split_first()?;
                Some((program, arguments.to_vec()))
            }
            CommandLine::Shell(line) if line.trim().is_empty() => None,
            CommandLine::Shell(line) => Some(shell.program_and_arguments(line)),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Command;

    use super::Shell;

    /// Runs a line with a shell and returns the exit code. Not every `sh` supports `pipefail`.
    fn exit_code(shell: Shell, line: &str) -> i32 {
        let (program, arguments) = shell.program_and_arguments(line);
        let status = Command::new(program).args(arguments).status();
        status.unwrap().code().unwrap()
    }

    #[test]
    fn a_shell_without_pipefail_still_runs_the_line() {
        assert_eq!(exit_code(Shell::Sh, "exit 3"), 3);
        assert_eq!(exit_code(Shell::Sh, "true | true"), 0);
    }
}
