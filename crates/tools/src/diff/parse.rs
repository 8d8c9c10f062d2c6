//! Parses unified diffs as written by git and by models.
//!
//! Models often get the line numbers and line counts of a hunk wrong, so the parser tolerates both errors: if the counts are wrong, it
//! detects the end of the hunk from the lines themselves. The prefix of each line (space, `-` or `+`) must be right.

use super::path::{NULL, unquoted};

/// The part of a patch for one file. Paths are relative to the workspace, without the prefixes `a/` and `b/`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FilePatch {
    pub(crate) kind: PatchKind,
    pub(crate) hunks: Vec<Hunk>,
}

/// The operation that a patch performs on a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Edit { path: String },
    Create { path: String },
    Delete { path: String },
    Move { from: String, to: String },
}

/// A contiguous change with its context lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The stated first line in the old file, counted from 1; `None` if the header has no readable number.
    pub(crate) start: Option<usize>,
    pub(crate) lines: Vec<HunkLine>,
    /// Whether the hunk states that the old file has no newline at its end.
    pub(crate) old_eof: EofMarker,
    /// Whether the hunk states that the new file has no newline at its end.
    pub(crate) new_eof: EofMarker,
}

/// A line of a hunk, without its line break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HunkLine {
    Context(String),
    Removed(String),
    Added(String),
}

/// Whether a hunk has the marker for a missing newline at the end of the old or the new file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EofMarker {
    #[default]
    Absent,
    /// The hunk has the marker `\ No newline at end of file`.
    NoNewline,
}

impl Hunk {
    /// Returns the lines that the old file must contain: context and removed lines.
    pub(crate) fn old_lines(&self) -> Vec<&str> {
        let old = |line: &'_ HunkLine| matches!(line, HunkLine::Context(_) | HunkLine::Removed(_));
        self.lines
            .iter()
            .filter(|line| old(line))
            .map(HunkLine::text)
            .collect()
    }

    /// Returns the lines that the new file contains: context and added lines.
    pub(crate) fn new_lines(&self) -> Vec<&str> {
        let new = |line: &'_ HunkLine| matches!(line, HunkLine::Context(_) | HunkLine::Added(_));
        self.lines
            .iter()
            .filter(|line| new(line))
            .map(HunkLine::text)
            .collect()
    }
}

impl HunkLine {
    pub(crate) fn text(&self) -> &str {
        match self {
            HunkLine::Context(text) | HunkLine::Removed(text) | HunkLine::Added(text) => text,
        }
    }
}

/// Reason why a patch cannot be parsed. Line numbers are those of the patch, counted from 1.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PatchError {
    #[error(
        "`patch` contains no unified diff: give `--- a/FILE`, `+++ b/FILE` and hunks that begin with `@@ -LINE,COUNT +LINE,COUNT @@`"
    )]
    NoDiff,
    #[error(
        "line {line} of the patch begins a hunk before any file name: give `--- a/FILE` and `+++ b/FILE` first"
    )]
    NoFile { line: usize },
    #[error("line {line} of the patch: {reason}")]
    Header { line: usize, reason: String },
    #[error(
        "line {line} of the patch, `{text}`, is not a hunk line: each hunk line, even an empty one, must begin with a space, `-` or `+`"
    )]
    InvalidHunkLine { line: usize, text: String },
    #[error("the hunk at line {line} of the patch changes nothing")]
    EmptyHunk { line: usize },
    #[error("the patch has no hunk for `{path}`")]
    NoHunk { path: String },
    #[error("the patch contains binary data for `{path}`: only text can be patched")]
    Binary { path: String },
}

/// Parses a patch into one part for each file, in the order of the patch.
pub(crate) fn parse(patch: &str) -> Result<Vec<FilePatch>, PatchError> {
    let lines = patch.lines().map(|line| line.strip_suffix('\r').unwrap_or(line));
    let mut parser = PatchParser {
        lines: lines.collect(),
        at: 0,
    };
    let mut files = Vec::new();
    while let Some(header) = parser.header()? {
        let mut hunks = Vec::new();
        while let Some(hunk) = parser.hunk()? {
            hunks.push(hunk);
        }
        files.push(header.file(hunks)?);
    }
    match files.is_empty() {
        true => Err(PatchError::NoDiff),
        false => Ok(files),
    }
}

struct PatchParser<'a> {
    lines: Vec<&'a str>,
    /// The index of the next line to read.
    at: usize,
}

/// The header of a file: the lines before its hunks.
#[derive(Default)]
struct Header {
    line: usize,
    /// The names in the `diff --git` line, used if there are no `---` and `+++` lines.
    git: Option<(String, String)>,
    old: Option<String>,
    new: Option<String>,
    from: Option<String>,
    to: Option<String>,
    created: bool,
    deleted: bool,
    binary: bool,
    mode: bool,
}

impl PatchParser<'_> {
    fn line(&self, ahead: usize) -> Option<&str> {
        self.lines.get(self.at + ahead).copied()
    }

    /// Reads the header of the next file; `None` at the end of the patch. Skips other text before the header, such as a commit message.
    fn header(&mut self) -> Result<Option<Header>, PatchError> {
        let mut header = Header::default();
        while let Some(line) = self.lines.get(self.at).copied() {
            let begun = header.git.is_some();
            let number = self.at + 1;
            if line.starts_with("@@") {
                return match begun {
                    true => Ok(Some(header)),
                    false => Err(PatchError::NoFile { line: number }),
                };
            }
            if line.starts_with("*** Begin Patch") || line.starts_with("*** Update File") {
                return Err(PatchError::NoDiff);
            }
            if let Some(names) = line.strip_prefix("diff --git ") {
                if begun {
                    return Ok(Some(header));
                }
                header.line = number;
                header.git = Some(git_names(names).unwrap_or_default());
            } else if self.names_file() {
                let new = self.lines.get(self.at + 1).copied().unwrap_or_default();
                header.line = number;
                header.old = Some(name_of(line));
                header.new = Some(name_of(new));
                self.at += 2;
                return Ok(Some(header));
            } else if begun {
                header.read_extended(line, number)?;
            }
            self.at += 1;
        }
        Ok(header.git.is_some().then_some(header))
    }

    /// Returns true if the next two lines name a file: `--- OLD` and `+++ NEW`.
    fn names_file(&self) -> bool {
        let is = |ahead, mark| self.line(ahead).is_some_and(|line| line.starts_with(mark));
        is(0, "--- ") && is(1, "+++ ")
    }

    /// Reads the next hunk of the current file; `None` if the next line does not begin a hunk.
    fn hunk(&mut self) -> Result<Option<Hunk>, PatchError> {
        while self.line(0).is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
        let Some((start, counts)) = self.line(0).filter(|line| line.starts_with("@@")).map(ranges) else {
            return Ok(None);
        };
        let line = self.at + 1;
        self.at += 1;
        let first = self.at;
        let counted = counts.and_then(|counts| self.counted(counts));
        let mut hunk = match counted {
            Some(hunk) => hunk,
            None => {
                self.at = first;
                self.uncounted()?
            }
        };
        hunk.start = start;
        let changes = |line: &HunkLine| !matches!(line, HunkLine::Context(_));
        match hunk.lines.iter().any(changes) {
            true => Ok(Some(hunk)),
            false => Err(PatchError::EmptyHunk { line }),
        }
    }

    /// Reads as many lines as the hunk's header states; `None` if the counts in the header are wrong.
    fn counted(&mut self, (mut old, mut new): (usize, usize)) -> Option<Hunk> {
        let mut hunk = Hunk::default();
        while old > 0 || new > 0 || self.line(0).is_some_and(|line| line.starts_with('\\')) {
            let line = self.line(0)?.to_owned();
            match read_line(&line) {
                ParsedLine::Line(line) => {
                    let (less_old, less_new) = match line {
                        HunkLine::Context(_) => (1, 1),
                        HunkLine::Removed(_) => (1, 0),
                        HunkLine::Added(_) => (0, 1),
                    };
                    old = old.checked_sub(less_old)?;
                    new = new.checked_sub(less_new)?;
                    hunk.lines.push(line);
                }
                ParsedLine::NoNewline => hunk.mark_no_newline(),
                ParsedLine::Other => return None,
            }
            self.at += 1;
        }
        (self.is_boundary() || self.line(0).is_some_and(str::is_empty)).then_some(hunk)
    }

    /// Reads the lines of a hunk up to the next boundary. Ignores the counts in the hunk's header.
    fn uncounted(&mut self) -> Result<Hunk, PatchError> {
        let mut hunk = Hunk::default();
        // Trailing empty lines separate the hunk from the next part, and are dropped.
        let mut empty = 0;
        while !self.is_boundary() {
            let line = self.line(0).unwrap_or_default().to_owned();
            empty = if line.is_empty() { empty + 1 } else { 0 };
            match read_line(&line) {
                ParsedLine::Line(line) => hunk.lines.push(line),
                ParsedLine::NoNewline => hunk.mark_no_newline(),
                ParsedLine::Other => {
                    return Err(PatchError::InvalidHunkLine {
                        line: self.at + 1,
                        text: line.chars().take(100).collect(),
                    });
                }
            }
            self.at += 1;
        }
        hunk.lines.truncate(hunk.lines.len() - empty);
        Ok(hunk)
    }

    /// Returns true if the next line cannot belong to the current hunk.
    fn is_boundary(&self) -> bool {
        match self.line(0) {
            None | Some("-- ") => true,
            Some(line) => {
                line.starts_with("@@")
                    || line.starts_with("diff ")
                    || line.starts_with("Index: ")
                    || line.starts_with("```")
                    || self.names_file()
            }
        }
    }
}

enum ParsedLine {
    Line(HunkLine),
    NoNewline,
    Other,
}

fn read_line(line: &str) -> ParsedLine {
    let mut characters = line.chars();
    let mark = characters.next();
    let text = characters.as_str().to_owned();
    match mark {
        // Editors that strip trailing spaces also strip the leading space of an empty context line.
        None => ParsedLine::Line(HunkLine::Context(String::new())),
        Some(' ') => ParsedLine::Line(HunkLine::Context(text)),
        Some('-') => ParsedLine::Line(HunkLine::Removed(text)),
        Some('+') => ParsedLine::Line(HunkLine::Added(text)),
        Some('\\') => ParsedLine::NoNewline,
        Some(_) => ParsedLine::Other,
    }
}

impl Hunk {
    /// Applies the marker for a missing newline to the last line that was read. Depending on this line, the
    /// marker concerns the old file, the new file or both.
    fn mark_no_newline(&mut self) {
        match self.lines.last() {
            Some(HunkLine::Context(_)) => {
                self.old_eof = EofMarker::NoNewline;
                self.new_eof = EofMarker::NoNewline;
            }
            Some(HunkLine::Removed(_)) => self.old_eof = EofMarker::NoNewline,
            Some(HunkLine::Added(_)) => self.new_eof = EofMarker::NoNewline,
            None => {}
        }
    }
}

/// Parses a hunk's header: returns the number of the first line in the old file, and how many lines the hunk has in the old and in the new
/// file. `None` for unreadable parts.
fn ranges(line: &str) -> (Option<usize>, Option<(usize, usize)>) {
    let mut words = line.trim_start_matches('@').split_whitespace();
    let mut range = |mark| -> Option<(usize, usize)> {
        let text = words.next()?.strip_prefix(mark)?;
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let (old, new) = (range('-'), range('+'));
    let counts = old.zip(new).map(|((_, old), (_, new))| (old, new));
    (old.map(|(start, _)| start), counts)
}

impl Header {
    /// Reads one of the extended header lines, which are between `diff --git` and `---`.
    fn read_extended(&mut self, line: &str, number: usize) -> Result<(), PatchError> {
        if let Some(name) = line.strip_prefix("rename from ") {
            self.from = Some(unquoted(name));
        } else if let Some(name) = line.strip_prefix("rename to ") {
            self.to = Some(unquoted(name));
        } else if line.starts_with("copy from ") {
            return Err(PatchError::Header {
                line: number,
                reason: "a patch cannot copy files: create the file with its whole content instead"
                    .to_owned(),
            });
        }
        self.created |= line.starts_with("new file mode");
        self.deleted |= line.starts_with("deleted file mode");
        self.mode |= line.starts_with("new mode");
        self.binary |= line.starts_with("GIT binary patch") || line.starts_with("Binary files ");
        Ok(())
    }

    fn file(self, hunks: Vec<Hunk>) -> Result<FilePatch, PatchError> {
        let line = self.line;
        let bad = |reason: String| PatchError::Header { line, reason };
        let (old, new) = self.names();
        if self.binary {
            return Err(PatchError::Binary { path: new });
        }
        let kind = match (self.from, self.to) {
            (Some(from), Some(to)) => PatchKind::Move { from, to },
            (Some(_), None) | (None, Some(_)) => {
                return Err(bad(
                    "`rename from` and `rename to` must be used together".to_owned()
                ));
            }
            (None, None) if old == NULL && new == NULL => {
                return Err(bad("both file names are `/dev/null`".to_owned()));
            }
            (None, None) if old == NULL || self.created => PatchKind::Create { path: new },
            (None, None) if new == NULL || self.deleted => PatchKind::Delete { path: old },
            (None, None) if old != new => {
                return Err(bad(format!(
                    "`{old}` and `{new}` are different files: for a rename, write `rename from {old}` and `rename to {new}` after `diff --git`"
                )));
            }
            (None, None) => PatchKind::Edit { path: new },
        };
        match &kind {
            PatchKind::Edit { path } if hunks.is_empty() && self.mode => {
                Err(bad(format!("the mode of `{path}` cannot be changed by a patch")))
            }
            PatchKind::Edit { path } if hunks.is_empty() => Err(PatchError::NoHunk { path: path.clone() }),
            PatchKind::Edit { .. }
            | PatchKind::Create { .. }
            | PatchKind::Delete { .. }
            | PatchKind::Move { .. } => Ok(FilePatch { kind, hunks }),
        }
    }

    /// Returns the old and the new name, without git's prefixes.
    fn names(&self) -> (String, String) {
        let (old, new) = match (&self.old, &self.new, &self.git) {
            (Some(old), Some(new), _) => (old.clone(), new.clone()),
            (_, _, Some(names)) => names.clone(),
            (_, _, None) => Default::default(),
        };
        let has = |name: &String, prefix| name == NULL || name.starts_with(prefix);
        if !(has(&old, "a/") && has(&new, "b/")) {
            return (old, new);
        }
        let plain = |name: String, prefix| name.strip_prefix(prefix).map(str::to_owned).unwrap_or(name);
        (plain(old, "a/"), plain(new, "b/"))
    }
}

/// Returns the name in a `---` or `+++` line, without the timestamp that may follow it.
fn name_of(line: &str) -> String {
    let name = line.get(4..).unwrap_or_default();
    unquoted(name.split('\t').next().unwrap_or_default().trim())
}

/// Returns the two names in a `diff --git` line; `None` if the end of the first name is ambiguous.
fn git_names(names: &str) -> Option<(String, String)> {
    if names.starts_with('"') {
        let (old, new) = names.split_once("\" ")?;
        return Some((unquoted(&format!("{old}\"")), unquoted(new)));
    }
    let mut splits = names.match_indices(" b/");
    let (at, _) = splits.find(|(at, _)| {
        // Unless the patch renames the file, both names are the same.
        names.get(2..*at) == names.get(at + 3..)
    })?;
    Some((names.get(..at)?.to_owned(), names.get(at + 1..)?.to_owned()))
}
