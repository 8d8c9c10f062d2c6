//! Reading unified diffs as models and git write them.
//!
//! Line numbers and counts may be wrong; what a line is (context, removed, added) must be said. Nothing here looks at a file.

/// One file's part of a patch. Paths are as they are beneath the workspace, without `a/` and `b/`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FilePatch {
    pub(super) kind: PatchKind,
    pub(super) hunks: Vec<Hunk>,
}

/// What becomes of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatchKind {
    Edit { path: String },
    Create { path: String },
    Delete { path: String },
    Move { from: String, to: String },
}

/// A place that changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Where it says that it begins in the old file, from 1; none where it does not say.
    pub(super) start: Option<usize>,
    pub(super) lines: Vec<Line>,
    /// Whether the old file ends, without a line break, after the last of its old lines.
    pub(super) old_eof: EofMarker,
    /// The same of the new file.
    pub(super) new_eof: EofMarker,
}

/// A line without its line break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Context(String),
    Removed(String),
    Added(String),
}

/// What a hunk says of the end of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EofMarker {
    /// Nothing.
    #[default]
    Absent,
    /// `\ No newline at end of file`.
    NoNewline,
}

impl Hunk {
    /// The lines that must be there.
    pub(super) fn old_lines(&self) -> Vec<&str> {
        let old = |line: &'_ Line| matches!(line, Line::Context(_) | Line::Removed(_));
        self.lines
            .iter()
            .filter(|line| old(line))
            .map(Line::text)
            .collect()
    }

    /// The lines that there are then.
    pub(super) fn new_lines(&self) -> Vec<&str> {
        let new = |line: &'_ Line| matches!(line, Line::Context(_) | Line::Added(_));
        self.lines
            .iter()
            .filter(|line| new(line))
            .map(Line::text)
            .collect()
    }
}

impl Line {
    pub(super) fn text(&self) -> &str {
        match self {
            Line::Context(text) | Line::Removed(text) | Line::Added(text) => text,
        }
    }
}

/// What is wrong with a patch. Lines are those of the patch, from 1.
#[derive(Debug, thiserror::Error)]
pub(super) enum PatchError {
    #[error(
        "there is no unified diff in `patch`: give `--- a/FILE`, `+++ b/FILE` and hunks that begin with `@@ -LINE,COUNT +LINE,COUNT @@`"
    )]
    NoDiff,
    #[error(
        "line {line} of the patch begins a hunk before any file is named: give `--- a/FILE` and `+++ b/FILE` first"
    )]
    NoFile { line: usize },
    #[error("line {line} of the patch: {reason}")]
    Header { line: usize, reason: String },
    #[error(
        "line {line} of the patch, `{text}`, is none of a hunk: its lines begin with a space (context), `-` or `+`, also where they are \
         empty otherwise"
    )]
    InvalidHunkLine { line: usize, text: String },
    #[error("the hunk at line {line} of the patch changes nothing")]
    EmptyHunk { line: usize },
    #[error("the part for `{path}` has no hunk")]
    NoHunk { path: String },
    #[error("`{path}` is binary in the patch: only text can be patched")]
    Binary { path: String },
}

/// The parts of a patch, one for each file that it names, in their order.
pub(super) fn parse(patch: &str) -> Result<Vec<FilePatch>, PatchError> {
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
    at: usize,
}

/// What the lines before a file's hunks say.
#[derive(Default)]
struct Header {
    line: usize,
    /// `diff --git`, whose names stand in for those of `---` and `+++`.
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

const NULL: &str = "/dev/null";

impl PatchParser<'_> {
    fn line(&self, ahead: usize) -> Option<&str> {
        self.lines.get(self.at + ahead).copied()
    }

    /// The next file's header; none at the end. What stands before it, such as a message, is passed over.
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

    /// Whether the names of a file stand here: `---` with `+++` after it.
    fn names_file(&self) -> bool {
        let is = |ahead, mark| self.line(ahead).is_some_and(|line| line.starts_with(mark));
        is(0, "--- ") && is(1, "+++ ")
    }

    /// The next hunk of this file; none where something else comes.
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
                self.rest()?
            }
        };
        hunk.start = start;
        let changes = |line: &Line| !matches!(line, Line::Context(_));
        match hunk.lines.iter().any(changes) {
            true => Ok(Some(hunk)),
            false => Err(PatchError::EmptyHunk { line }),
        }
    }

    /// The lines of a hunk by its counts; none where they are wrong.
    fn counted(&mut self, (mut old, mut new): (usize, usize)) -> Option<Hunk> {
        let mut hunk = Hunk::default();
        while old > 0 || new > 0 || self.line(0).is_some_and(|line| line.starts_with('\\')) {
            let line = self.line(0)?.to_owned();
            match read_line(&line) {
                HunkLine::Line(line) => {
                    let (less_old, less_new) = match line {
                        Line::Context(_) => (1, 1),
                        Line::Removed(_) => (1, 0),
                        Line::Added(_) => (0, 1),
                    };
                    old = old.checked_sub(less_old)?;
                    new = new.checked_sub(less_new)?;
                    hunk.lines.push(line);
                }
                HunkLine::NoNewline => hunk.mark_no_newline(),
                HunkLine::Other => return None,
            }
            self.at += 1;
        }
        (self.is_boundary() || self.line(0).is_some_and(str::is_empty)).then_some(hunk)
    }

    /// The lines of a hunk up to what cannot be one.
    fn rest(&mut self) -> Result<Hunk, PatchError> {
        let mut hunk = Hunk::default();
        // Whether what was last read says so: an empty line may separate what follows.
        let mut empty = 0;
        while !self.is_boundary() {
            let line = self.line(0).unwrap_or_default().to_owned();
            empty = if line.is_empty() { empty + 1 } else { 0 };
            match read_line(&line) {
                HunkLine::Line(line) => hunk.lines.push(line),
                HunkLine::NoNewline => hunk.mark_no_newline(),
                HunkLine::Other => {
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

    /// Whether the hunk before is over.
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

enum HunkLine {
    Line(Line),
    NoNewline,
    Other,
}

fn read_line(line: &str) -> HunkLine {
    let mut characters = line.chars();
    let mark = characters.next();
    let text = characters.as_str().to_owned();
    match mark {
        // What strips the ends of lines strips an empty line's mark.
        None => HunkLine::Line(Line::Context(String::new())),
        Some(' ') => HunkLine::Line(Line::Context(text)),
        Some('-') => HunkLine::Line(Line::Removed(text)),
        Some('+') => HunkLine::Line(Line::Added(text)),
        Some('\\') => HunkLine::NoNewline,
        Some(_) => HunkLine::Other,
    }
}

impl Hunk {
    /// The file ends after the line that was last read.
    fn mark_no_newline(&mut self) {
        match self.lines.last() {
            Some(Line::Context(_)) => {
                self.old_eof = EofMarker::NoNewline;
                self.new_eof = EofMarker::NoNewline;
            }
            Some(Line::Removed(_)) => self.old_eof = EofMarker::NoNewline,
            Some(Line::Added(_)) => self.new_eof = EofMarker::NoNewline,
            None => {}
        }
    }
}

/// Where a hunk says it begins, and how many lines of the old and the new file it says it has.
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
    /// A line between `diff --git` and the names of the file.
    fn read_extended(&mut self, line: &str, number: usize) -> Result<(), PatchError> {
        if let Some(name) = line.strip_prefix("rename from ") {
            self.from = Some(unquoted(name));
        } else if let Some(name) = line.strip_prefix("rename to ") {
            self.to = Some(unquoted(name));
        } else if line.starts_with("copy from ") {
            return Err(PatchError::Header {
                line: number,
                reason: "copies are not made: create the file with its whole content instead".to_owned(),
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
                return Err(bad("`rename from` and `rename to` belong together".to_owned()));
            }
            (None, None) if old == NULL && new == NULL => return Err(bad("it names no file".to_owned())),
            (None, None) if old == NULL || self.created => PatchKind::Create { path: new },
            (None, None) if new == NULL || self.deleted => PatchKind::Delete { path: old },
            (None, None) if old != new => {
                return Err(bad(format!(
                    "`{old}` and `{new}` are two files: to rename one, say `rename from {old}` and `rename to {new}` after `diff --git`"
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

    /// The names before and after, without git's prefixes.
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

/// The name in a `---` or `+++` line, without the time that may follow it.
fn name_of(line: &str) -> String {
    let name = line.get(4..).unwrap_or_default();
    unquoted(name.split('\t').next().unwrap_or_default().trim())
}

/// The two names of `diff --git`; none where it cannot be told where the first one ends.
fn git_names(names: &str) -> Option<(String, String)> {
    if names.starts_with('"') {
        let (old, new) = names.split_once("\" ")?;
        return Some((unquoted(&format!("{old}\"")), unquoted(new)));
    }
    let mut splits = names.match_indices(" b/");
    let (at, _) = splits.find(|(at, _)| {
        // Without a rename both are the same name.
        names.get(2..*at) == names.get(at + 3..)
    })?;
    Some((names.get(..at)?.to_owned(), names.get(at + 1..)?.to_owned()))
}

/// A name as git quotes it where it has unusual characters.
fn unquoted(name: &str) -> String {
    let Some(quoted) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
        return name.to_owned();
    };
    let mut bytes = Vec::with_capacity(quoted.len());
    let mut rest = quoted.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let octal = rest.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        if let Some(value) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(value);
            rest = rest.get(3..).unwrap_or_default();
        } else if let Some((&escaped, after)) = rest.split_first() {
            bytes.push(match escaped {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                other => other,
            });
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
