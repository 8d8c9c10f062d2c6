//! The `search` tool: finds the lines that match a pattern, with ripgrep's engine.
//!
//! It changes nothing, leaves out ignored and binary files, and always returns the same results in the same order.

mod collect;

use std::collections::BTreeSet;
use std::io;

use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolResult, code, display_path};
use globset::{GlobSet, GlobSetBuilder};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::collect::{CancellableReader, Collector};
use crate::blocking::{blocking, cancelled};
use crate::glob::file_glob;
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
    /// Plain text, unless `literal` is false.
    pattern: String,
    /// false for a regular expression (Rust's syntax); default true.
    literal: Option<bool>,
    whole_word: Option<bool>,
    case_insensitive: Option<bool>,
    /// Folders, files and globs (`*.rs`, `tests/**/*.py`).
    paths: Option<Vec<String>>,
    context_lines: Option<usize>,
    /// Default 200, at most 2000.
    max_results: Option<usize>,
}

const DESCRIPTION: &str = "Searches the text of the workspace's files; returns the matching lines by file, each after its number. A \
    match never spans lines. Binary and ignored files are left out.";

/// The `search` tool. Its output:
///
/// ```text
/// 3 matches in 2 files
///
/// src/a.rs
/// 11-fn main() {
/// 12:    run();
///
/// src/b.rs
/// 1:fn run() {}
/// 7:// run()
/// ```
///
/// There is one match for each matching line, ordered by path and line, which counts from 1. The first line
/// counts all matches and files, including those not shown, and says if not all are shown. With
/// `context_lines`, `11-text` is a line around a match, and `--` a gap between them; a line between two
/// matches appears once. A long line is shortened around the match, with `…` for omitted text. Below the
/// first line, a note lists paths that do not exist (the call fails if none of the paths exists) and files
/// that could not be searched, counts omissions (names that are not Unicode, folders with too many entries,
/// and folders that are nested too deeply), or suggests what to try if nothing was found.
///
/// Failures have the code `bad_parameters` (an invalid pattern or glob), `cancelled`, or one of [`FileError::code`] for `paths`.
pub fn search() -> impl Tool {
    typed("search", DESCRIPTION, |context, parameters: Parameters| {
        blocking(context, move |context| {
            run(context, &parameters).unwrap_or_else(|error| error.failure())
        })
    })
    .category(ToolCategory::Search)
    .repeat(Repeat::Safe)
    .access(Access::ReadOnly)
    .example(json!({"pattern": "parse_config", "whole_word": true, "paths": ["src", "*.md"]}))
}

/// Reason why a search failed.
#[derive(Debug, thiserror::Error)]
enum SearchError {
    #[error("`pattern` is empty: give the text to look for, or `list` the files with file_operations")]
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
    let Files {
        paths,
        missing,
        left_out,
    } = files(context, &workspace, paths)?;
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
    let mut notes: Vec<String> = missing
        .iter()
        .map(|error| format!("Not searched: {error}"))
        .collect();
    if !unreadable.is_empty() {
        let more = unreadable.len().saturating_sub(MAX_UNREADABLE);
        unreadable.truncate(MAX_UNREADABLE);
        let paths: Vec<String> = unreadable.iter().map(|path| display_path(path)).collect();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        notes.push(format!("Not readable: {}{more}", paths.join(", ")));
    }
    if left_out > 0 {
        notes.push(format!("Not searched: at least {left_out} entries, whose names are not Unicode or whose folders are too large or too deep"));
    }
    if collector.total() == 0 && is_literal(parameters) && looks_like_regex(&parameters.pattern) {
        notes.push(
            "The pattern was taken as plain text; set `literal` to false for a regular expression".to_owned(),
        );
    }
    Ok(ToolResult::success(collector.into_output(&notes).into()).as_list())
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
    /// Named paths that do not exist.
    missing: Vec<FileError>,
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
    let (mut named, mut missing) = (Vec::new(), Vec::new());
    let mut globs = GlobSetBuilder::new();
    let mut any_glob = false;
    for path in paths {
        match workspace.kind(path) {
            Ok(_) => named.push(path.clone()),
            Err(FileError::NotFound { .. } | FileError::NotAFolder { .. })
                if path.contains(['*', '?', '[', '{']) =>
            {
                globs.add(file_glob(path).map_err(|source| bad_glob(path, source))?);
                any_glob = true;
            }
            Err(error @ (FileError::NotFound { .. } | FileError::NotAFolder { .. })) => missing.push(error),
            Err(error) => return Err(error.into()),
        }
    }
    if named.is_empty() && !any_glob && !missing.is_empty() {
        return Err(missing.swap_remove(0).into());
    }
    let mut files = Files {
        missing,
        ..Files::default()
    };
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

fn bad_glob(glob: &str, source: globset::Error) -> SearchError {
    SearchError::BadGlob {
        glob: glob.to_owned(),
        source,
    }
}

/// Searches the same decoded text that `file_operations` shows, so that matches can be used for edits. A file
/// that is too big to be read as a whole is searched as a stream.
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
