//! Calls of built-in tools, and the parts of the tools' outputs that the offline model reads.

use dirigent_core::plan::PlannedCall;
use dirigent_core::tool::ModelToolResult;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::conversation::Call;
use super::location::SourceLocation;
use super::scope::Scope;

/// Creates the call that previews a rename. Without a new name, it lists all usages.
pub(crate) fn preview(from: &str, to: Option<&str>, scope: &Scope) -> Call {
    let mut parameters = rename_parameters(from, to, &scope.only);
    parameters.insert("preview".to_owned(), json!(true));
    Call::new("rename_symbol", Value::Object(parameters))
}

/// Creates the call that renames a symbol in these files. Clashes with the new name are allowed: the preview has ruled out real clashes,
/// and a parallel edit may already have introduced the new name.
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

/// What to search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern<'a> {
    /// A text, also within words.
    Text(&'a str),
    /// A whole word.
    Word(&'a str),
    /// Lines that match a regular expression. The search only counts them.
    Lines(&'a str),
}

/// Creates the call that searches the files of a scope. It ignores the scope's exceptions: apply [`SearchOutput::within`] to the result.
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

/// Maximum number of matches in the output of a search.
const MAX_RESULTS: u32 = 2000;

/// Creates the call that lists a folder with `depth` levels of subfolders.
pub(crate) fn list(folder: &str, depth: u32) -> Call {
    Call::new(
        "file_operations",
        json!({"operation": "list", "path": folder, "depth": depth}),
    )
}

/// Creates the call that reads a file, or a range of its lines.
pub(crate) fn read(path: &str, lines: Option<(u64, u64)>) -> Call {
    let mut parameters = json!({"operation": "read", "path": path});
    if let Some((start, end)) = lines {
        parameters["start_line"] = json!(start);
        parameters["end_line"] = json!(end);
    }
    Call::new("file_operations", parameters)
}

/// Creates the call that replaces a text that occurs once in the file.
pub(crate) fn edit(path: &str, old: &str, new: &str) -> Call {
    Call::new(
        "file_operations",
        json!({"operation": "edit", "path": path, "old": old, "new": new}),
    )
}

/// Creates the call that undoes all changes of the run to files.
pub(crate) fn undo() -> Call {
    Call::new("file_operations", json!({"operation": "undo"}))
}

/// Creates the call that runs a command, with a timeout of ten minutes because it may be a build.
pub(crate) fn command(command: &[String]) -> PlannedCall {
    planned(
        "execute_command",
        json!({"command": command, "timeout_seconds": 600}),
    )
}

/// Converts a call to a call that a plan contains.
pub(crate) fn planned_call(call: Call) -> PlannedCall {
    planned(&call.tool, call.parameters)
}

fn planned(tool: &str, parameters: Value) -> PlannedCall {
    PlannedCall {
        tool: tool.to_owned(),
        parameters,
    }
}

/// Parses a result's output. Missing fields get their defaults.
pub(crate) fn read_output<T: DeserializeOwned + Default>(result: &ModelToolResult) -> T {
    let output = result.output.clone().unwrap_or_default();
    serde_json::from_value(output).unwrap_or_default()
}

/// The output of `rename_symbol`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RenameOutput {
    /// The number of usages, listed or not.
    pub occurrences: u64,
    pub files: Vec<FileUsages>,
    /// Occurrences of the name in strings and comments.
    pub mentions: Vec<Mention>,
    /// Python imports that bind the name to a module.
    pub modules: Vec<MatchedLine>,
    /// Lines that show that the name belongs to a library.
    pub foreign: Vec<MatchedLine>,
    /// Usages as a property, keyword argument or key, whose owner is unknown.
    pub members: Vec<MatchedLine>,
    /// Lines where the new name is already in use.
    pub clashes: Vec<MatchedLine>,
    /// Similar names, if the name has no usages or belongs to a library.
    pub similar: Vec<String>,
    /// Files with syntax errors, where usages may be missed.
    pub syntax_errors: Vec<String>,
    pub totals: Totals,
}

/// The lengths of a [`RenameOutput`]'s lists before truncation, and further counts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Totals {
    pub files: u64,
    /// The places that introduce the name, by a definition, a variable or the like.
    pub introductions: u64,
}

/// The usages in a file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FileUsages {
    pub path: String,
    /// The number of usages, listed or not.
    pub total: u64,
    pub occurrences: Vec<SymbolUsage>,
}

/// A usage of a symbol.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SymbolUsage {
    pub line: u64,
    /// The line's text.
    pub text: String,
    pub definition: bool,
}

/// A line of a file with a match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MatchedLine {
    pub path: String,
    pub line: u64,
    pub text: String,
}

/// An occurrence of the name in a string or a comment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Mention {
    #[serde(flatten)]
    pub line: MatchedLine,
    /// The column in characters, from 1.
    pub column: usize,
    #[serde(rename = "in")]
    pub kind: MentionKind,
}

/// The kind of text in which a name is mentioned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MentionKind {
    /// A string, or an unknown kind.
    #[default]
    String,
    Comment,
}

impl MatchedLine {
    pub fn location(&self) -> SourceLocation {
        SourceLocation::new(&self.path, self.line)
    }
}

/// Returns the location and the text of each match, for [`listing`](super::text::listing).
pub(crate) fn places(lines: &[MatchedLine]) -> impl Iterator<Item = (SourceLocation, &str)> {
    lines.iter().map(|line| (line.location(), line.text.as_str()))
}

impl RenameOutput {
    /// Removes usages, mentions, members and places of a library's name outside the scope.
    pub fn within(mut self, scope: &Scope) -> RenameOutput {
        let before = self.files.len();
        self.files.retain(|file| scope.contains(&file.path));
        self.mentions.retain(|mention| scope.contains(&mention.line.path));
        self.members.retain(|member| scope.contains(&member.path));
        self.foreign.retain(|foreign| scope.contains(&foreign.path));
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

    /// Returns the listed files.
    pub fn paths(&self) -> Vec<String> {
        self.files.iter().map(|file| file.path.clone()).collect()
    }

    /// Returns the number of files with usages, listed or not.
    pub fn file_count(&self) -> u64 {
        self.totals.files.max(self.files.len() as u64)
    }

    /// Returns the listed usages.
    pub fn usages(&self) -> impl Iterator<Item = (SourceLocation, &SymbolUsage)> {
        self.files.iter().flat_map(|file| {
            let usages = file.occurrences.iter();
            usages.map(|usage| (SourceLocation::new(&file.path, usage.line), usage))
        })
    }
}

/// The output of `search`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SearchOutput {
    pub matches: Vec<MatchedLine>,
    /// The number of matches, listed or not.
    pub total: u64,
    /// The number of files with matches.
    pub files: u64,
    /// Whether the list of matches is truncated.
    pub truncated: bool,
}

impl SearchOutput {
    /// Removes the matches outside the scope. If it removes any matches, the totals count only the remaining listed matches afterwards.
    pub fn within(mut self, scope: &Scope) -> SearchOutput {
        let before = self.matches.len();
        self.matches.retain(|line| scope.contains(&line.path));
        if self.matches.len() != before {
            self.total = self.matches.len() as u64;
            self.files = self.paths().len() as u64;
        }
        self
    }

    /// Returns the files with listed matches, sorted and without duplicates.
    pub fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.matches.iter().map(|line| line.path.clone()).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

/// The output of `execute_command`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CommandOutput {
    /// `None` if a signal ended the command.
    pub exit_code: Option<i64>,
    pub stdout: String,
    pub stderr: String,
    pub timed_out: bool,
}

impl CommandOutput {
    /// Returns the standard error and the standard output.
    pub fn text(&self) -> String {
        format!("{}\n{}", self.stderr, self.stdout)
    }
}

/// The output of `list`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListOutput {
    /// Paths of files and folders. A folder's path ends with a slash.
    entries: Vec<String>,
    /// Set if the list is truncated.
    pub note: Option<Value>,
}

impl ListOutput {
    /// Returns the paths of the files.
    pub fn into_files(self) -> Vec<String> {
        let entries = self.entries.into_iter();
        entries.filter(|path| !path.ends_with('/')).collect()
    }
}

/// The output of `read`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReadOutput {
    pub content: String,
    /// The last line in `content`.
    pub end_line: u64,
    pub total_lines: u64,
    /// Set if the content is truncated.
    pub note: Option<Value>,
}
