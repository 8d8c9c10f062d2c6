//! Collects the matches of all files for the tool's output.

use std::io::{self, Read};

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};
use serde::Serialize;
use serde_json::{Value, json};
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
    matches: Vec<LineMatch>,
    bytes: usize,
    files: u64,
    total: u64,
}

/// One matching line.
#[derive(Debug, Serialize)]
struct LineMatch {
    path: String,
    line: u64,
    column: usize,
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

impl LineMatch {
    fn bytes(&self) -> usize {
        let context = self
            .before
            .iter()
            .chain(&self.after)
            .map(String::len)
            .sum::<usize>();
        self.path.len() + self.text.len() + context
    }
}

impl<'m> Collector<'m> {
    /// Creates a collector that returns the first `max_matches` matches and counts all.
    pub(super) fn new(matcher: &'m RegexMatcher, max_matches: usize) -> Self {
        Collector {
            matcher,
            max_matches,
            matches: Vec::new(),
            bytes: 0,
            files: 0,
            total: 0,
        }
    }

    /// Collects the matches that `search` finds in one file, unless it turns out to be binary.
    pub(super) fn search(
        &mut self,
        path: &str,
        search: impl FnOnce(&RegexMatcher, &mut FileSink<'m>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut file = FileSink {
            matcher: self.matcher,
            path: path.to_owned(),
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
        for found in file.found {
            self.bytes += found.bytes();
            if self.bytes > MAX_BYTES && !self.matches.is_empty() {
                break;
            }
            self.matches.push(found);
        }
        Ok(())
    }

    /// Returns the number of matches that may still be collected.
    fn room(&self) -> usize {
        if self.bytes > MAX_BYTES {
            0
        } else {
            self.max_matches - self.matches.len()
        }
    }

    /// Returns the tool's output.
    pub(super) fn into_output(self) -> Value {
        json!({
            "truncated": self.total > self.matches.len() as u64,
            "files": self.files,
            "total": self.total,
            "matches": self.matches,
        })
    }
}

/// The matches of one file.
pub(super) struct FileSink<'m> {
    matcher: &'m RegexMatcher,
    path: String,
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
                path: self.path.clone(),
                line: line.line_number().unwrap_or_default(),
                column: column + 1,
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
