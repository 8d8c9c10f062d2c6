//! What is to be run: a program with its arguments or a line for the shell, finding the program before it is started, so that a
//! missing one is named together with where it was looked for, and writing a command line for people.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

/// What a call says is to be run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a list of the program and each of its arguments, or one string for the shell"
)]
pub(super) enum CommandLine {
    /// The program and its arguments, one element each, without a shell: ["cargo", "test", "--quiet"].
    Arguments(#[schemars(length(min = 1))] Vec<String>),
    /// A line that `sh -c` runs: "cargo test --quiet | tail -5".
    Shell(#[schemars(length(min = 1))] String),
}

impl CommandLine {
    /// The program and its arguments; none where there is nothing to run.
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

    /// As one would type it into a shell.
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

/// The file of a program: with a `/` in it relative to `folder`, otherwise the first of that name in `search`.
pub(crate) fn locate(program: &str, folder: &Path, search: &[PathBuf]) -> Result<PathBuf, String> {
    if program.is_empty() {
        return Err("the first element of `command` is empty; it is the program to run".to_owned());
    }
    if program.contains('/') {
        let path: PathBuf = folder.join(program).components().collect();
        return match path.metadata() {
            Ok(metadata) if metadata.is_dir() => Err(format!("`{program}` is a folder, not a program")),
            Ok(_) => Ok(path),
            Err(error) => Err(format!("`{program}` cannot be run: {}: {error}", path.display())),
        };
    }
    match search
        .iter()
        .map(|folder| folder.join(program))
        .find(|path| is_executable(path))
    {
        Some(path) => Ok(path),
        None => Err(not_found(program, search)),
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn not_found(program: &str, search: &[PathBuf]) -> String {
    let folders: Vec<_> = search.iter().map(|folder| folder.display().to_string()).collect();
    let mut message = format!("no program `{program}` in {}", folders.join(", "));
    if program.contains(char::is_whitespace) {
        message.push_str("; each argument must be an element of its own; give one string instead of a list for a shell to split it");
    } else {
        message.push_str("; a program of the workspace needs its path, such as `./script.sh`");
    }
    message
}

fn shell_quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
