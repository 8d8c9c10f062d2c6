//! References to lines of files in outputs and findings, such as `src/parse.rs:12`.

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
    pub fn new(path: &str, line: u64) -> Self {
        SourceLocation {
            path: path.to_owned(),
            line,
        }
    }

    /// Returns true if `other` is the same line, even if its path is absolute or relative to another folder.
    pub fn is_same_line_as(&self, other: &SourceLocation) -> bool {
        let shown = other.path.replace('\\', "/");
        let shown = shown.trim_start_matches("./");
        let ends_with = |path: &str, end: &str| {
            path.strip_suffix(end)
                .is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        self.line == other.line && (ends_with(shown, &self.path) || ends_with(&self.path, shown))
    }
}

/// Returns the locations in the output of a compiler or a test run: `src/a.rs:3:5`, `File "/w/a.py", line 3`.
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

/// Returns the first lines of failed documentation tests: `test src/a.rs - item (line 3) ... FAILED`. These are needed because the
/// compiler's line numbers within a documentation test are not exact.
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
    for captures in forms.iter().flat_map(|form| form.captures_iter(output)) {
        if let Ok(line) = captures[2].parse() {
            let location = SourceLocation::new(&captures[1], line);
            if !locations.contains(&location) {
                locations.push(location);
            }
        }
    }
    locations
}
