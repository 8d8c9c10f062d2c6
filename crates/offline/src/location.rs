//! Places in files, as findings and summaries write them: `src/parse.rs:12`.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceLocation {
    /// The file, relative to the workspace.
    pub path: String,
    /// The line, from 1.
    pub line: u64,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path, self.line)
    }
}

impl SourceLocation {
    /// Whether `other` names the same line, its file given by an absolute path or from another folder.
    pub fn is_same_line_as(&self, other: &SourceLocation) -> bool {
        let shown = other.path.replace('\\', "/");
        let shown = shown.trim_start_matches("./");
        self.line == other.line
            && (shown == self.path
                || shown
                    .strip_suffix(self.path.as_str())
                    .is_some_and(|before| before.ends_with('/'))
                || self
                    .path
                    .strip_suffix(shown)
                    .is_some_and(|before| before.ends_with('/')))
    }
}

/// The places that a compiler or a test run names: `src/a.rs:3:5`, `File "/w/a.py", line 3`.
pub(crate) fn parse_locations(output: &str) -> Vec<SourceLocation> {
    static FORMS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        [
            r"(?m)([\w./\\@+-]*\.[A-Za-z]\w*):(\d+)",
            r#"File "([^"\n]+)", line (\d+)"#,
        ]
        .iter()
        .filter_map(|form| Regex::new(form).ok())
        .collect()
    });
    parse_with(&FORMS, output)
}

/// Where documentation tests begin that failed: `test src/a.rs - item (line 3) ... FAILED`. The lines that the compiler
/// names inside of them are not exact.
pub(crate) fn failed_doc_tests(output: &str) -> Vec<SourceLocation> {
    static FORMS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        Regex::new(r"test (\S+\.rs) - [^\n]*\(line (\d+)\)[^\n]* FAILED")
            .into_iter()
            .collect()
    });
    parse_with(&FORMS, output)
}

fn parse_with(forms: &[Regex], output: &str) -> Vec<SourceLocation> {
    let mut locations = Vec::new();
    for form in forms {
        for found in form.captures_iter(output) {
            if let Ok(line) = found[2].parse() {
                let location = SourceLocation {
                    path: found[1].to_owned(),
                    line,
                };
                if !locations.contains(&location) {
                    locations.push(location);
                }
            }
        }
    }
    locations
}

/// How many places a summary names one by one.
pub(crate) const MAX_LISTED: usize = 20;

/// The lines of a finding, `- src/a.rs:3: text`, the first [`MAX_LISTED`] of them, and how many more there are.
pub(crate) fn listing<'a>(locations: impl ExactSizeIterator<Item = (SourceLocation, &'a str)>) -> String {
    let more = locations.len().saturating_sub(MAX_LISTED);
    let mut lines: Vec<String> = locations
        .take(MAX_LISTED)
        .map(|(location, text)| format!("- {location}: {}", shortened(text.trim(), 120)))
        .collect();
    if more > 0 {
        lines.push(format!("- and {more} more"));
    }
    lines.join("\n")
}

/// The first characters of a text.
pub(crate) fn shortened(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// `a, b and c`, the first few of them.
pub(crate) fn enumerated(items: &[String], max: usize) -> String {
    let more = items.len().saturating_sub(max);
    match items {
        [] => String::new(),
        [only] => only.clone(),
        _ if more > 0 => format!("{} and {more} more", items[..max].join(", ")),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// `1 file`, `3 files`.
pub(crate) fn pluralize(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}
