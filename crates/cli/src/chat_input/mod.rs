//! Reads the lines of a chat. At a terminal, a line editor offers history and completes commands and files; otherwise lines are read from
//! standard input.

mod commands;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};

use crate::signals::{ShutdownSignal, ShutdownSignals};

pub(crate) use self::commands::{COMMANDS, ChatLine, command_name, parse};

/// The maximum number of completions of a path.
const MAX_COMPLETIONS: usize = 200;

/// The result of reading a line.
pub(crate) enum ReadLine {
    Line(String),
    /// Ctrl-C at the prompt.
    Interrupted,
    /// The end of the input.
    End,
    /// A signal that ends the process was received. A thread may still be waiting for the terminal.
    Terminated,
}

pub(crate) enum Input {
    /// `None` while a thread is using the editor to read a line.
    Terminal(Option<Box<LineEditor>>),
    Lines(tokio::io::Lines<tokio::io::BufReader<tokio::io::Stdin>>),
}

type LineEditor = Editor<ChatHelper, DefaultHistory>;

impl Input {
    /// Creates an input that reads from the terminal, with these names for completion, or else from standard input.
    pub(crate) fn new(is_terminal: bool, names: Vec<String>) -> anyhow::Result<Self> {
        if !is_terminal {
            use tokio::io::AsyncBufReadExt as _;
            return Ok(Input::Lines(
                tokio::io::BufReader::new(tokio::io::stdin()).lines(),
            ));
        }
        let mut editor = LineEditor::new().context("cannot use the terminal")?;
        let workspace = PathBuf::new();
        editor.set_helper(Some(ChatHelper { workspace, names }));
        Ok(Input::Terminal(Some(Box::new(editor))))
    }

    /// Sets the folder of the conversation, and its messages for the history.
    pub(crate) fn set_conversation(&mut self, workspace: &Path, messages: &[String]) {
        if let Input::Terminal(Some(editor)) = self {
            if let Some(helper) = editor.helper_mut() {
                helper.workspace = workspace.to_owned();
            }
            for message in messages {
                let _ = editor.add_history_entry(message);
            }
        }
    }

    /// Reads a line. At a terminal, the line is prompted for.
    pub(crate) async fn read(
        &mut self,
        prompt: &str,
        signals: &mut ShutdownSignals,
    ) -> anyhow::Result<ReadLine> {
        match self {
            Input::Lines(lines) => tokio::select! {
                line = lines.next_line() => Ok(line?.map_or(ReadLine::End, ReadLine::Line)),
                _ = signals.next() => Ok(ReadLine::Terminated),
            },
            Input::Terminal(editor) => read_terminal(editor, prompt, signals).await,
        }
    }
}

async fn read_terminal(
    editor: &mut Option<Box<LineEditor>>,
    prompt: &str,
    signals: &mut ShutdownSignals,
) -> anyhow::Result<ReadLine> {
    let Some(mut taken) = editor.take() else {
        return Ok(ReadLine::End);
    };
    let (mode, prompt) = (
        rustix::termios::tcgetattr(std::io::stdin()).ok(),
        prompt.to_owned(),
    );
    let reading = tokio::task::spawn_blocking(move || {
        let line = taken.readline(&prompt);
        (taken, line)
    });
    let ended = async { while signals.next().await == ShutdownSignal::Interrupted {} };
    let (mut read, line) = tokio::select! {
        read = reading => read.context("cannot read the terminal")?,
        () = ended => {
            if let Some(mode) = mode {
                let now = rustix::termios::OptionalActions::Now;
                let _ = rustix::termios::tcsetattr(std::io::stdin(), now, &mode);
            }
            return Ok(ReadLine::Terminated);
        }
    };
    let line = match line {
        Ok(line) => {
            let _ = read.add_history_entry(&line);
            ReadLine::Line(line)
        }
        Err(ReadlineError::Interrupted) => ReadLine::Interrupted,
        Err(ReadlineError::Eof) => ReadLine::End,
        Err(error) => return Err(error).context("cannot read the terminal"),
    };
    *editor = Some(read);
    Ok(line)
}

/// Completes commands, files after `@`, and names.
pub(crate) struct ChatHelper {
    workspace: PathBuf,
    /// The names of workflows, with their `/`, and of agents.
    names: Vec<String>,
}

impl Helper for ChatHelper {}
impl Highlighter for ChatHelper {}
impl Hinter for ChatHelper {
    type Hint = String;
}

impl Validator for ChatHelper {
    /// A line that ends with a backslash continues on the next line.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if context.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Completer for ChatHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..at];
        let start = before.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let word = &before[start..];
        let pair = |text: String| Pair {
            display: text.clone(),
            replacement: text,
        };
        let found = match word.strip_prefix('@') {
            Some(path) => self
                .files(path)
                .into_iter()
                .map(|file| pair(format!("@{file}")))
                .collect(),
            None => {
                let commands = COMMANDS
                    .iter()
                    .filter_map(|(command, _)| command.split_whitespace().next());
                let names = commands.chain(self.names.iter().map(String::as_str));
                names
                    .filter(|name| !word.is_empty() && name.starts_with(word))
                    .filter(|name| start == 0 || !name.starts_with('/'))
                    .map(|name| pair(name.to_owned()))
                    .collect()
            }
        };
        Ok((start, found))
    }
}

impl ChatHelper {
    /// The files and folders of the workspace whose paths begin with this text.
    fn files(&self, path: &str) -> Vec<String> {
        let (folder, name) = path
            .rsplit_once('/')
            .map_or(("", path), |(folder, name)| (folder, name));
        if folder.split('/').any(|part| part == "..") {
            return Vec::new();
        }
        let Ok(entries) = std::fs::read_dir(self.workspace.join(folder)) else {
            return Vec::new();
        };
        let mut found: Vec<String> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let found = entry.file_name().into_string().ok()?;
                let is_hidden = found.starts_with('.') && !name.starts_with('.');
                if is_hidden || !found.starts_with(name) {
                    return None;
                }
                let end = if entry.file_type().ok()?.is_dir() { "/" } else { "" };
                let folder = if folder.is_empty() {
                    String::new()
                } else {
                    format!("{folder}/")
                };
                Some(format!("{folder}{found}{end}"))
            })
            .take(MAX_COMPLETIONS)
            .collect();
        found.sort();
        found
    }
}
