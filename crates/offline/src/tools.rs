//! The built-in tools as the offline model uses them: the calls it makes, and what it reads in their results.

use dirigent_core::plan::PlannedCall;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::conversation::Call;
use super::location::SourceLocation;
use super::scope::Scope;

/// Whether a rename may give a name that is in use already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClashPolicy {
    /// It may not.
    Refuse,
    /// The user wants it, or an earlier iteration began the same rename.
    Allow,
}

/// Looks at all that a rename would do, or, without a new name, at all usages.
pub(crate) fn preview(from: &str, to: Option<&str>, scope: &Scope) -> Call {
    let mut parameters = rename_parameters(from, to, &scope.only);
    parameters.insert("preview".to_owned(), json!(true));
    Call::new("rename_symbol", Value::Object(parameters))
}

/// Renames in these files. The look before it has ruled out clashes, and edits in parallel bring in the new name for one
/// another: it is not looked at again.
pub(crate) fn rename(from: &str, to: &str, paths: &[String]) -> PlannedCall {
    let mut parameters = rename_parameters(from, Some(to), paths);
    parameters.insert("preview".to_owned(), json!(false));
    parameters.insert("allow_clash".to_owned(), json!(true));
    planned("rename_symbol", Value::Object(parameters))
}

fn rename_parameters(from: &str, to: Option<&str>, paths: &[String]) -> Map<String, Value> {
    let mut parameters = Map::new();
    parameters.insert("from".to_owned(), json!(from));
    if let Some(to) = to {
        parameters.insert("to".to_owned(), json!(to));
    }
    if !paths.is_empty() {
        parameters.insert("paths".to_owned(), json!(paths));
    }
    parameters
}

/// What a text is searched as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern<'a> {
    /// The text wherever it is.
    Text(&'a str),
    /// The text as a whole word.
    Word(&'a str),
    /// Lines that match a regular expression, of which only the number matters.
    Lines(&'a str),
}

/// Searches the files of a scope. Its exceptions are for the reader of the result: see [`SearchOutput::within`].
pub(crate) fn search(pattern: Pattern<'_>, scope: &Scope) -> Call {
    let mut parameters = match pattern {
        Pattern::Text(text) => json!({"pattern": text, "literal": true, "max_results": MAX_RESULTS}),
        Pattern::Word(word) => {
            json!({"pattern": word, "literal": true, "whole_word": true, "max_results": MAX_RESULTS})
        }
        Pattern::Lines(regex) => json!({"pattern": regex, "literal": false, "max_results": 1}),
    };
    let paths = scope.search_paths();
    if !paths.is_empty() {
        parameters["paths"] = json!(paths);
    }
    Call::new("search", parameters)
}

/// The most matches that a search shows.
const MAX_RESULTS: u32 = 2000;

/// Lists a folder and what is below it.
pub(crate) fn list(folder: &str, depth: u32) -> Call {
    Call::new(
        "file_operations",
        json!({"operation": "list", "path": folder, "depth": depth}),
    )
}

/// Reads a file, or these lines of it.
pub(crate) fn read(path: &str, lines: Option<(u64, u64)>) -> Call {
    let mut parameters = json!({"operation": "read", "path": path});
    if let Some((start, end)) = lines {
        parameters["start_line"] = json!(start);
        parameters["end_line"] = json!(end);
    }
    Call::new("file_operations", parameters)
}

/// Replaces a text that occurs once in the file.
pub(crate) fn edit(path: &str, old: &str, new: &str) -> Call {
    Call::new(
        "file_operations",
        json!({"operation": "edit", "path": path, "old": old, "new": new}),
    )
}

/// Puts back all that the run has changed in files.
pub(crate) fn undo() -> Call {
    Call::new("file_operations", json!({"operation": "undo"}))
}

/// Runs a command with all the time that a build takes.
pub(crate) fn command(command: &[String]) -> PlannedCall {
    planned(
        "execute_command",
        json!({"command": command, "timeout_seconds": 600}),
    )
}

/// The call as part of a plan.
pub(crate) fn planned_call(call: Call) -> PlannedCall {
    planned(&call.tool, call.parameters)
}

fn planned(tool: &str, parameters: Value) -> PlannedCall {
    PlannedCall {
        tool: tool.to_owned(),
        parameters,
    }
}

/// Reads an output; what is missing in it is as if it were empty.
pub(crate) fn read_output<T: DeserializeOwned + Default>(output: &Value) -> T {
    serde_json::from_value(output.clone()).unwrap_or_default()
}

/// What `rename_symbol` says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RenameOutput {
    /// How many usages there are, listed or not.
    pub occurrences: u64,
    /// The files with usages.
    pub files: Vec<FileUsages>,
    /// The name in strings and comments.
    pub mentions: Vec<Mention>,
    /// Imports by which the name means a module.
    pub modules: Vec<MatchedLine>,
    /// Places that show the name to be that of a library.
    pub foreign: Vec<MatchedLine>,
    /// Usages that belong to something that is not known: properties, keyword arguments, keys.
    pub members: Vec<MatchedLine>,
    /// Where the new name is in use already.
    pub clashes: Vec<MatchedLine>,
    /// Names like the one that was looked for.
    pub similar: Vec<String>,
    /// Files that are not valid programs, where usages may be missed.
    pub syntax_errors: Vec<String>,
    /// How many there are, whatever the lists show.
    pub totals: Totals,
}

/// How long the lists of a [`RenameOutput`] are when they are whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Totals {
    /// Of `files`.
    pub files: u64,
}

/// The usages in a file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FileUsages {
    /// The file.
    pub path: String,
    /// How many.
    pub total: u64,
    /// Where in it, as many as there was room for.
    pub occurrences: Vec<SymbolUsage>,
}

/// A usage.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SymbolUsage {
    /// Its line.
    pub line: u64,
    /// The line's text.
    pub text: String,
    /// Whether it is where something of that name is defined.
    pub definition: bool,
}

/// A line with something in it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MatchedLine {
    /// The file.
    pub path: String,
    /// The line.
    pub line: u64,
    /// The line's text.
    pub text: String,
}

/// The name in text.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Mention {
    /// Its line.
    #[serde(flatten)]
    pub line: MatchedLine,
    /// In characters, from 1.
    pub column: usize,
    /// In what kind of text it is.
    #[serde(rename = "in")]
    pub kind: MentionKind,
}

/// What kind of text of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MentionKind {
    /// A string, or what nothing is known of.
    #[default]
    String,
    /// A comment.
    Comment,
}

impl MatchedLine {
    /// Where it is.
    pub fn location(&self) -> SourceLocation {
        SourceLocation {
            path: self.path.clone(),
            line: self.line,
        }
    }
}

impl RenameOutput {
    /// Without the files outside of the scope.
    pub fn within(mut self, scope: &Scope) -> RenameOutput {
        let before = self.files.len();
        self.files.retain(|file| scope.contains(&file.path));
        self.mentions.retain(|mention| scope.contains(&mention.line.path));
        self.members.retain(|member| scope.contains(&member.path));
        if self.files.len() != before {
            self.occurrences = self
                .files
                .iter()
                .map(|file| file.total.max(file.occurrences.len() as u64))
                .sum();
            self.totals.files = self.files.len() as u64;
        }
        self
    }

    /// The files with usages.
    pub fn paths(&self) -> Vec<String> {
        self.files.iter().map(|file| file.path.clone()).collect()
    }

    /// How many files have usages, listed or not.
    pub fn file_count(&self) -> u64 {
        self.totals.files.max(self.files.len() as u64)
    }

    /// Every listed usage.
    pub fn usages(&self) -> Vec<(SourceLocation, &str)> {
        let mut usages = Vec::new();
        for file in &self.files {
            for usage in &file.occurrences {
                let location = SourceLocation {
                    path: file.path.clone(),
                    line: usage.line,
                };
                usages.push((location, usage.text.as_str()));
            }
        }
        usages
    }
}

/// What `search` says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SearchOutput {
    /// The matches, as many as were asked for.
    pub matches: Vec<MatchedLine>,
    /// How many there are.
    pub total: u64,
    /// In how many files.
    pub files: u64,
    /// Whether some were left out.
    pub truncated: bool,
}

impl SearchOutput {
    /// Without the matches outside of the scope; where nothing is left out, the totals follow.
    pub fn within(mut self, scope: &Scope) -> SearchOutput {
        let before = self.matches.len();
        self.matches.retain(|line| scope.contains(&line.path));
        if self.matches.len() != before {
            self.total = self.matches.len() as u64;
            self.files = self.paths().len() as u64;
        }
        self
    }

    /// The files with matches, each once.
    pub fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.matches.iter().map(|line| line.path.clone()).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

/// What `execute_command` says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CommandOutput {
    /// None where a signal ended it.
    pub exit_code: Option<i64>,
    /// What it wrote.
    pub stdout: String,
    /// What it wrote to the error stream.
    pub stderr: String,
    /// Whether it was ended as it took too long.
    pub timed_out: bool,
}

impl CommandOutput {
    /// All that it wrote.
    pub fn text(&self) -> String {
        format!("{}\n{}", self.stderr, self.stdout)
    }
}

/// The paths of the files in a listing.
pub(crate) fn listed_files(output: &Value) -> Vec<String> {
    let entries = output
        .get("entries")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    // A folder ends with a slash.
    let files = entries
        .iter()
        .filter_map(Value::as_str)
        .filter(|path| !path.ends_with('/'));
    files.map(str::to_owned).collect()
}

/// The text of a file that was read.
pub(crate) fn file_text(output: &Value) -> Option<&str> {
    output.get("content").and_then(Value::as_str)
}
