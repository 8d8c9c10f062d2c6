//! Collects the matches of all files, and formats them for the tool's output.

use std::io::{self, Read};

use dirigent_core::tool::display_path;
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};
use tokio_util::sync::CancellationToken;

use crate::truncate::truncate_around;

/// Maximum length of a shown line, in characters.
const MAX_LINE_CHARS: usize = 300;

/// Maximum total size of the returned matches, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// The matches of all files.
pub(super) struct Collector<'m> {
    matcher: &'m RegexMatcher,
    max_matches: usize,
    shown: Vec<FileMatches>,
    /// The number of matches in `shown`.
    matches: usize,
    bytes: usize,
    files: u64,
    total: u64,
}

/// One matching line with the lines around it.
#[derive(Debug)]
struct LineMatch {
    line: u64,
    text: String,
    before: Vec<String>,
    after: Vec<String>,
}

/// The matches of one file that are shown.
struct FileMatches {
    path: String,
    matches: Vec<LineMatch>,
}

impl LineMatch {
    fn bytes(&self) -> usize {
        let context = self
            .before
            .iter()
            .chain(&self.after)
            .map(String::len)
            .sum::<usize>();
        self.text.len() + context
    }
}

impl<'m> Collector<'m> {
    /// Creates a collector that returns the first `max_matches` matches and counts all matches.
    pub(super) fn new(matcher: &'m RegexMatcher, max_matches: usize) -> Self {
        Collector {
            matcher,
            max_matches,
            shown: Vec::new(),
            matches: 0,
            bytes: 0,
            files: 0,
            total: 0,
        }
    }

    /// Collects the matches that `search` finds in one file, unless the file turns out to be binary.
    pub(super) fn search(
        &mut self,
        path: &str,
        search: impl FnOnce(&RegexMatcher, &mut FileSink<'m>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut file = FileSink {
            matcher: self.matcher,
            room: self.room(),
            found: Vec::new(),
            total: 0,
            pending: Vec::new(),
            binary: false,
        };
        search(self.matcher, &mut file)?;
        if file.binary || file.total == 0 {
            return Ok(());
        }
        self.files += 1;
        self.total += file.total;
        let mut matches = Vec::new();
        for found in file.found {
            self.bytes += found.bytes();
            if self.bytes > MAX_BYTES && self.matches > 0 {
                break;
            }
            self.matches += 1;
            matches.push(found);
        }
        if !matches.is_empty() {
            self.bytes += path.len();
            self.shown.push(FileMatches {
                path: path.to_owned(),
                matches,
            });
        }
        Ok(())
    }

    /// Returns the number of matches that may still be collected.
    fn room(&self) -> usize {
        if self.bytes > MAX_BYTES {
            0
        } else {
            self.max_matches - self.matches
        }
    }

    /// Returns the number of all matching lines.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Formats the output: the numbers of matches and files, the notes, and the matches by file.
    pub(super) fn into_output(self, notes: &[String]) -> String {
        let mut text = match self.total {
            0 => "No matches".to_owned(),
            total => format!(
                "{} in {}",
                counted(total, "match", "matches"),
                counted(self.files, "file", "files")
            ),
        };
        if self.total > self.matches as u64 {
            text.push_str(&format!(
                "; only the first {} are shown: narrow `paths` or the pattern, or raise `max_results`",
                self.matches
            ));
        }
        for note in notes {
            text.push('\n');
            text.push_str(note);
        }
        for file in &self.shown {
            text.push_str("\n\n");
            text.push_str(&display_path(&file.path));
            file.write(&mut text);
        }
        text
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl FileMatches {
    /// Writes a line `12:text` for each match, and `11-text` for the lines around it; `--` stands for a gap, as in grep.
    fn write(&self, text: &mut String) {
        let has_context = self
            .matches
            .iter()
            .any(|found| !found.before.is_empty() || !found.after.is_empty());
        let mut next = None;
        for found in &self.matches {
            let first = found.line.saturating_sub(found.before.len() as u64);
            if has_context && next.is_some_and(|next| next < first) {
                text.push_str("\n--");
            }
            for (line, before) in (first..).zip(&found.before) {
                text.push_str(&format!("\n{line}-{before}"));
            }
            text.push_str(&format!("\n{}:{}", found.line, found.text));
            for (line, after) in (found.line + 1..).zip(&found.after) {
                text.push_str(&format!("\n{line}-{after}"));
            }
            next = Some(found.line + 1 + found.after.len() as u64);
        }
    }
}

/// The matches of one file.
pub(super) struct FileSink<'m> {
    matcher: &'m RegexMatcher,
    room: usize,
    found: Vec<LineMatch>,
    total: u64,
    /// Context lines for the next match.
    pending: Vec<String>,
    binary: bool,
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        self.total += 1;
        let before = std::mem::take(&mut self.pending);
        if self.found.len() < self.room {
            let bytes = without_ending(line.bytes());
            let at = self
                .matcher
                .find(bytes)
                .map_err(io::Error::other)?
                .map_or(0, |place| place.start());
            let column = decode(&bytes[..at]).chars().count();
            self.found.push(LineMatch {
                line: line.line_number().unwrap_or_default(),
                text: truncate_around(&decode(bytes), column, MAX_LINE_CHARS),
                before,
                after: Vec::new(),
            });
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        if self.total > self.found.len() as u64 || self.room == 0 {
            return Ok(true);
        }
        let text = truncate_around(&decode(without_ending(line.bytes())), 0, MAX_LINE_CHARS);
        match (line.kind(), self.found.last_mut()) {
            (SinkContextKind::After, Some(found)) => found.after.push(text),
            (SinkContextKind::Before | SinkContextKind::After | SinkContextKind::Other, _) => {
                self.pending.push(text)
            }
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

fn without_ending(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Decodes a line as UTF-8, or as Latin-1 if it is not valid UTF-8. For big files, which are read as a stream, the encoding is unknown.
fn decode(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

/// A reader that fails once the call is cancelled.
pub(super) struct CancellableReader<R> {
    inner: R,
    cancel: CancellationToken,
}

impl<R> CancellableReader<R> {
    pub(super) fn new(inner: R, cancel: CancellationToken) -> Self {
        CancellableReader { inner, cancel }
    }
}

impl<R: Read> Read for CancellableReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.inner.read(buffer)
    }
}
