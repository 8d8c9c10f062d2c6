//! The `search` tool: finds the lines that match a pattern, with ripgrep's engine.
//!
//! It changes nothing, leaves out ignored and binary files, and always returns the same results in the same order.

mod collect;

use std::collections::BTreeSet;
use std::io;

use dirigent_core::tool::{Access, Repeat, ToolResult, code};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::collect::{CancellableReader, Collector};
use crate::blocking::{blocking, cancelled};
use crate::text::TextFile;
use crate::tool::{Tool, ToolContext};
use crate::typed::typed;
use crate::workspace::{Depth, EntryKind, FileError, Hidden, Walk, Workspace};

const DEFAULT_RESULTS: usize = 200;
const MAX_RESULTS: usize = 2000;
const MAX_CONTEXT_LINES: usize = 20;

/// Maximum length of a line, in bytes, in a file that is too big to be read as a whole. A file with a longer line is listed as unreadable.
const MAX_LINE_MEMORY: usize = 8 * 1024 * 1024;

/// Maximum number of unreadable files to list.
const MAX_UNREADABLE: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// The text to find in each line: plain text, unless `literal` is false.
    pattern: String,
    /// false if the pattern is a regular expression (Rust's syntax); default true.
    literal: Option<bool>,
    /// true to find the pattern only as a whole word: `run` but not `rerun`; default false.
    whole_word: Option<bool>,
    /// true to ignore case; default false.
    case_insensitive: Option<bool>,
    /// The folders (`src`), files (`src/main.rs`) and globs (`*.rs`, `tests/**/*.py`) to search; default: the whole workspace.
    paths: Option<Vec<String>>,
    /// The number of lines to show before and after each match, up to 20; default 0.
    context_lines: Option<usize>,
    /// The number of matches to return, up to 2000; default 200.
    max_results: Option<usize>,
}

const DESCRIPTION: &str = "Searches the text of the workspace's files and returns the matching lines with path, line \
and column. The pattern is plain text unless `literal` is false; it never spans lines. Binary files and files ignored by \
`.gitignore` are left out. `total` counts all matching lines, even if `truncated` is true and not all are shown.";

/// The `search` tool. A call returns `{"matches": [{"path", "line", "column", "text"}], "files", "total", "truncated"}`.
///
/// There is one match for each matching line, ordered by path and line. Lines and columns count from 1; the column is the position of the
/// line's first match, in characters. `files` and `total` count all files and lines with a match, including those not returned. With
/// `context_lines`, a match also has `before` and `after`, arrays of lines; a line between two matches appears once. A long line is
/// shortened around the match, with `…` for omitted text. `unreadable` lists files that could not be searched. `hint` suggests what to try
/// if nothing was found. `left_out` counts omissions: names that are not Unicode, folders with too many entries, and folders that are
/// nested too deeply.
///
/// Failures have the code `bad_parameters` (an invalid pattern or glob), `cancelled`, or one of [`FileError::code`] for `paths`.
pub fn search() -> impl Tool {
    typed("search", DESCRIPTION, |context, parameters: Parameters| {
        blocking(context, move |context| {
            run(context, &parameters).unwrap_or_else(|error| error.failure())
        })
    })
    .repeat(Repeat::Safe)
    .access(Access::ReadOnly)
    .example(json!({"pattern": "parse_config", "whole_word": true, "paths": ["src", "*.md"]}))
}

/// Reason why a search failed.
#[derive(Debug, thiserror::Error)]
enum SearchError {
    #[error("`pattern` is empty: give a text to look for, or `list` the files with file_operations")]
    Empty,
    #[error("`pattern` spans lines, but each line is searched by itself: search for one of its lines")]
    ManyLines,
    #[error(
        "`pattern` is not a valid regular expression: {0}; set `literal` to true to search for plain text"
    )]
    BadPattern(grep_regex::Error),
    #[error("`{glob}` in `paths` is not a valid glob: {source}")]
    BadGlob { glob: String, source: globset::Error },
    #[error(transparent)]
    File(#[from] FileError),
}

impl SearchError {
    fn failure(&self) -> ToolResult {
        match self {
            SearchError::Empty
            | SearchError::ManyLines
            | SearchError::BadPattern(_)
            | SearchError::BadGlob { .. } => {
                ToolResult::failure(self.to_string()).with_code(code::BAD_PARAMETERS)
            }
            SearchError::File(error) => error.failure(),
        }
    }
}

fn run(context: &ToolContext, parameters: &Parameters) -> Result<ToolResult, SearchError> {
    let workspace = Workspace::open(&context.workspace)?;
    let matcher = matcher(parameters)?;
    let paths = parameters.paths.as_deref().unwrap_or_default();
    let Files { paths, left_out } = files(context, &workspace, paths)?;
    let mut searcher = searcher(parameters.context_lines.unwrap_or(0).min(MAX_CONTEXT_LINES));
    let max_matches = parameters
        .max_results
        .unwrap_or(DEFAULT_RESULTS)
        .clamp(1, MAX_RESULTS);
    let mut collector = Collector::new(&matcher, max_matches);
    let mut unreadable = Vec::new();
    for path in paths {
        if context.cancel.is_cancelled() {
            return Ok(cancelled());
        }
        match search_file(context, &workspace, &path, &mut searcher, &mut collector) {
            // The file was deleted since it was listed.
            Ok(()) | Err(FileError::NotFound { .. }) => {}
            Err(_) => unreadable.push(path),
        }
    }
    if context.cancel.is_cancelled() {
        return Ok(cancelled());
    }
    let mut output = collector.into_output();
    if !unreadable.is_empty() {
        unreadable.truncate(MAX_UNREADABLE);
        output["unreadable"] = Value::from(unreadable);
    }
    if left_out > 0 {
        output["left_out"] = Value::from(left_out);
    }
    if output["total"] == 0 && is_literal(parameters) && looks_like_regex(&parameters.pattern) {
        output["hint"] = Value::from(
            "the pattern was taken as plain text; set `literal` to false for a regular expression",
        );
    }
    Ok(ToolResult::success(output))
}

fn is_literal(parameters: &Parameters) -> bool {
    parameters.literal.unwrap_or(true)
}

fn looks_like_regex(pattern: &str) -> bool {
    [".*", ".+", "\\", "|", "[", "^", "$"]
        .iter()
        .any(|sign| pattern.contains(sign))
}

fn matcher(parameters: &Parameters) -> Result<RegexMatcher, SearchError> {
    let pattern = parameters.pattern.as_str();
    if pattern.is_empty() {
        return Err(SearchError::Empty);
    }
    if pattern.contains('\n') {
        return Err(SearchError::ManyLines);
    }
    RegexMatcherBuilder::new()
        .fixed_strings(is_literal(parameters))
        .word(parameters.whole_word.unwrap_or(false))
        .case_insensitive(parameters.case_insensitive.unwrap_or(false))
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        // `$` also matches before `\r\n`.
        .crlf(true)
        .build(pattern)
        .map_err(SearchError::BadPattern)
}

fn searcher(context_lines: usize) -> Searcher {
    SearcherBuilder::new()
        .line_terminator(grep_matcher::LineTerminator::crlf())
        .line_number(true)
        .before_context(context_lines)
        .after_context(context_lines)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_LINE_MEMORY))
        .build()
}

/// The files to search.
#[derive(Default)]
struct Files {
    paths: BTreeSet<String>,
    /// The sum of [`Walk::left_out`] for all walks.
    left_out: usize,
}

impl Files {
    /// Adds the matching files of a walk. Stops if the call is cancelled.
    fn add(&mut self, context: &ToolContext, mut walk: Walk, matches: impl Fn(&str) -> bool) {
        let found = walk
            .by_ref()
            .take_while(|_| !context.cancel.is_cancelled())
            .filter(|entry| entry.kind == EntryKind::File && matches(&entry.path))
            .map(|entry| entry.path);
        self.paths.extend(found);
        self.left_out += walk.left_out();
    }
}

fn files(context: &ToolContext, workspace: &Workspace, paths: &[String]) -> Result<Files, SearchError> {
    let mut named = Vec::new();
    let mut globs = GlobSetBuilder::new();
    let mut any_glob = false;
    for path in paths {
        match workspace.kind(path) {
            Ok(_) => named.push(path.clone()),
            Err(FileError::NotFound { .. } | FileError::NotAFolder { .. })
                if path.contains(['*', '?', '[', '{']) =>
            {
                add_glob(&mut globs, path)?;
                any_glob = true;
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut files = Files::default();
    if any_glob {
        let globs: GlobSet = globs
            .build()
            .map_err(|source| bad_glob(&paths.join(", "), source))?;
        let everywhere = workspace.entries(&[], Hidden::Include, Depth::All)?;
        files.add(context, everywhere, |file| globs.is_match(file));
    }
    if !any_glob || !named.is_empty() {
        let walk = workspace.entries(&named, Hidden::Include, Depth::All)?;
        files.add(context, walk, |_| true);
    }
    Ok(files)
}

/// Adds a glob. As in an ignore file, a glob without `/` matches names in any folder; others match whole paths.
fn add_glob(globs: &mut GlobSetBuilder, glob: &str) -> Result<(), SearchError> {
    let plain = glob.strip_prefix("./").unwrap_or(glob);
    let anywhere = if plain.contains('/') {
        plain.to_owned()
    } else {
        format!("**/{plain}")
    };
    let glob = GlobBuilder::new(&anywhere)
        .literal_separator(true)
        .build()
        .map_err(|source| bad_glob(glob, source))?;
    globs.add(glob);
    Ok(())
}

fn bad_glob(glob: &str, source: globset::Error) -> SearchError {
    SearchError::BadGlob {
        glob: glob.to_owned(),
        source,
    }
}

/// Searches the decoded text that `file_operations` also shows, so that matches can be used for edits. A file that is too big to be read as
/// a whole is searched as a stream.
fn search_file(
    context: &ToolContext,
    workspace: &Workspace,
    path: &str,
    searcher: &mut Searcher,
    collector: &mut Collector<'_>,
) -> Result<(), FileError> {
    let searched = match workspace
        .read(path)
        .and_then(|bytes| TextFile::decode(path, &bytes))
    {
        Ok(file) => collector.search(path, |matcher, sink| {
            searcher.search_slice(matcher, file.text.as_bytes(), sink)
        }),
        Err(FileError::Binary { .. }) => Ok(()),
        Err(FileError::TooBig { .. }) => {
            let file = CancellableReader::new(workspace.open_file(path)?, context.cancel.clone());
            collector.search(path, |matcher, sink| searcher.search_reader(matcher, file, sink))
        }
        Err(error) => return Err(error),
    };
    searched.map_err(|source: io::Error| FileError::Io {
        path: path.to_owned(),
        source,
    })
}
