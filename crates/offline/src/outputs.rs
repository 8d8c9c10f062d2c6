//! The outputs of built-in tools, as far as the offline model reads them.

mod rename;

use dirigent_core::tool::{ModelToolResult, code};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::rename::{MentionKind, RenameOutput};
use super::location::SourceLocation;
use super::scope::Scope;

/// Parses a result's output as JSON data. Missing fields get their defaults.
pub(crate) fn read_data<T: DeserializeOwned + Default>(result: &ModelToolResult) -> T {
    let data = match &result.output {
        Some(Value::String(text)) => serde_json::from_str(text),
        Some(output) => serde_json::from_value(output.clone()),
        None => return T::default(),
    };
    data.unwrap_or_default()
}

/// Returns a result's output that is text; empty if there is none.
fn output_text(result: &ModelToolResult) -> &str {
    result.output.as_ref().and_then(Value::as_str).unwrap_or_default()
}

/// A line of a file with a match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MatchedLine {
    pub path: String,
    pub line: u64,
    pub text: String,
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

/// Returns the number of uses in the output of a rename; 0 in any other output.
pub(crate) fn renamed_uses(result: &ModelToolResult) -> u64 {
    let first = output_text(result).lines().next().unwrap_or_default();
    let uses = first
        .starts_with("Renamed `")
        .then(|| first.rsplit_once("`: "))
        .flatten();
    uses.and_then(|(_, uses)| uses.split(' ').next()?.parse().ok())
        .unwrap_or_default()
}

/// The output of `search`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SearchOutput {
    pub matches: Vec<MatchedLine>,
    /// The number of matches, listed or not.
    pub total: u64,
    /// The number of files with matches.
    pub files: u64,
    /// Whether the list of matches is truncated.
    pub truncated: bool,
}

impl From<&ModelToolResult> for SearchOutput {
    /// Parses `3 matches in 2 files`, then for each file a blank line, its path and its lines `12:text`.
    fn from(result: &ModelToolResult) -> Self {
        let mut lines = output_text(result).lines().peekable();
        let first = lines.next().unwrap_or_default();
        let mut numbers = first.split(' ').filter_map(|word| word.parse().ok());
        let (total, files) = (
            numbers.next().unwrap_or_default(),
            numbers.next().unwrap_or_default(),
        );
        let (mut matches, mut path) = (Vec::new(), None);
        while let Some(line) = lines.next() {
            if line.is_empty() {
                path = lines.next();
            } else if let Some(path) = path
                && let Some((number, text)) = line.split_once(':')
                && let Ok(line) = number.parse()
            {
                matches.push(MatchedLine {
                    path: path.to_owned(),
                    line,
                    text: text.to_owned(),
                });
            }
        }
        SearchOutput {
            truncated: total > matches.len() as u64,
            matches,
            total,
            files,
        }
    }
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

/// The result of `execute_command`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    /// `None` if a signal ended the command, or if it did not run.
    pub exit_code: Option<i64>,
    /// The command's output.
    pub text: String,
    pub timed_out: bool,
}

impl From<&ModelToolResult> for CommandOutput {
    /// Takes the exit code from an error such as "`make` exited with 2".
    fn from(result: &ModelToolResult) -> Self {
        let exited = |error: &str| {
            let (_, code) = error.rsplit_once("exited with ")?;
            code.split(' ').next()?.parse().ok()
        };
        CommandOutput {
            exit_code: match &result.error {
                Some(error) => exited(error),
                None => result.success.then_some(0),
            },
            text: printed(output_text(result)),
            timed_out: result.code.as_deref() == Some(code::TIMED_OUT),
        }
    }
}

/// Returns a command's output: its standard error, which has the error messages, before its standard output.
fn printed(output: &str) -> String {
    if output == "(no output)" {
        return String::new();
    }
    let both = output.strip_prefix("stdout:\n").unwrap_or(output);
    match both.split_once("stderr:\n") {
        Some((stdout, stderr)) => format!("{stderr}\n{stdout}"),
        None => both.to_owned(),
    }
}

/// The output of `list`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ListOutput {
    /// Paths of files and folders. A folder's path ends with a slash.
    entries: Vec<String>,
    /// True if the list is truncated.
    pub truncated: bool,
}

impl From<&ModelToolResult> for ListOutput {
    /// Parses `60 entries` with notes after a semicolon, then one entry per line.
    fn from(result: &ModelToolResult) -> Self {
        let mut lines = output_text(result).lines();
        let first = lines.next().unwrap_or_default();
        let (count, notes) = first.split_once(' ').unwrap_or_default();
        let entries: Vec<String> = lines.map(str::to_owned).collect();
        ListOutput {
            truncated: notes.contains(';') || count.parse() != Ok(entries.len()),
            entries,
        }
    }
}

impl ListOutput {
    /// Returns the paths of the files.
    pub fn into_files(self) -> Vec<String> {
        let entries = self.entries.into_iter();
        entries.filter(|path| !path.ends_with('/')).collect()
    }
}

/// The output of `read`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadOutput {
    /// The lines without their numbers.
    pub content: String,
    /// The last line in `content`.
    pub end_line: u64,
    pub total_lines: u64,
    /// True if fewer lines are shown than were asked for.
    pub truncated: bool,
}

impl From<&ModelToolResult> for ReadOutput {
    /// Parses `Lines 1-80 of 200` with notes after semicolons, then the lines, each after its number and a tab.
    fn from(result: &ModelToolResult) -> Self {
        let (first, lines) = output_text(result).split_once('\n').unwrap_or_default();
        let mut numbers = first
            .split([' ', '-', ';'])
            .filter_map(|word| word.parse::<u64>().ok())
            .skip(1);
        let content = lines
            .split_inclusive('\n')
            .map(|line| line.split_once('\t').map_or(line, |(_, text)| text));
        ReadOutput {
            content: content.collect(),
            end_line: numbers.next().unwrap_or_default(),
            total_lines: numbers.next().unwrap_or_default(),
            truncated: first.contains("continue with start_line"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str) -> ModelToolResult {
        ModelToolResult::from_text(text)
    }

    #[test]
    fn matches_of_a_search_are_parsed_with_their_files() {
        let found = SearchOutput::from(&result(
            "5 matches in 2 files; only the first 3 are shown: narrow it\nNot readable: c\n\nsrc/a.rs\n1:let a: u8;\n2-b\n3:\n\nb c\n7:x",
        ));
        let line = |path: &str, line, text: &str| MatchedLine {
            path: path.to_owned(),
            line,
            text: text.to_owned(),
        };
        assert_eq!(
            found,
            SearchOutput {
                matches: vec![
                    line("src/a.rs", 1, "let a: u8;"),
                    line("src/a.rs", 3, ""),
                    line("b c", 7, "x")
                ],
                total: 5,
                files: 2,
                truncated: true,
            }
        );
        assert_eq!(SearchOutput::from(&result("No matches")), SearchOutput::default());
    }

    #[test]
    fn line_numbers_are_removed_from_the_lines_of_a_file() {
        let read = ReadOutput::from(&result("Lines 2-3 of 5; CRLF line endings\n2\ta\tb\n3\t\n"));
        assert_eq!(
            read,
            ReadOutput {
                content: "a\tb\n\n".to_owned(),
                end_line: 3,
                total_lines: 5,
                truncated: false,
            }
        );
        let cut = "Lines 1-1 of 9; cut after 64 KiB, continue with start_line 2\n1\ta\n";
        assert!(ReadOutput::from(&result(cut)).truncated);
        assert_eq!(ReadOutput::from(&result("Empty file\n")), ReadOutput::default());
    }

    #[test]
    fn a_list_says_whether_it_is_complete() {
        let listed = ListOutput::from(&result("2 entries\nsrc/\nsrc/a.rs"));
        assert!(!listed.truncated);
        assert_eq!(listed.into_files(), ["src/a.rs"]);
        assert!(ListOutput::from(&result("1 entry; more are left out\na")).truncated);
    }

    #[test]
    fn the_exit_of_a_command_is_in_its_error() {
        let failed = CommandOutput::from(&result("Error (exited): `make` exited with 2\nOutput:\nno rule"));
        assert_eq!((failed.exit_code, failed.text.as_str()), (Some(2), "no rule"));
        assert_eq!(CommandOutput::from(&result("done")).exit_code, Some(0));
        let both = CommandOutput::from(&result("stdout:\none\nstderr:\ntwo\n"));
        assert_eq!(both.text, "two\n\none\n");
        let killed = CommandOutput::from(&result("Error (timed_out): `make` did not end within 60 s"));
        assert_eq!((killed.exit_code, killed.timed_out), (None, true));
    }
}
