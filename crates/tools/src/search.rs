//! The `search` tool: which lines of which files match a pattern, by ripgrep's engine.
//!
//! It changes nothing, leaves out ignored and binary files, and gives the same answer in the same order every time.

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

use crate::blocking::{blocking, cancelled};
use crate::text::TextFile;
use crate::workspace::{Depth, FileError, Hidden, Kind, Walk, Workspace};
use crate::{Tool, ToolContext, typed};
use collect::{CancellableReader, Collector};

const DEFAULT_RESULTS: usize = 200;
const MAX_RESULTS: usize = 2000;
const MAX_CONTEXT_LINES: usize = 20;

/// The longest line of a file that is too big to be held as a whole; one with a longer line is named as unreadable.
const MAX_LINE_MEMORY: usize = 8 * 1024 * 1024;

/// How many files that could not be searched are named.
const MAX_UNREADABLE: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// What to look for in each line: plain text, unless `literal` is false.
    pattern: String,
    /// false if the pattern is a regular expression (Rust's syntax); default true.
    literal: Option<bool>,
    /// true to find the pattern only as a whole word: `run` but not `rerun`; default false.
    whole_word: Option<bool>,
    /// true to find upper and lower case alike; default false.
    case_insensitive: Option<bool>,
    /// Where to look, any of: folders (`src`), files (`src/main.rs`), globs (`*.rs`, `tests/**/*.py`); default the
    /// whole workspace.
    paths: Option<Vec<String>>,
    /// How many lines before and after each match to show, up to 20; default 0.
    context_lines: Option<usize>,
    /// How many matches to return, up to 2000; default 200.
    max_results: Option<usize>,
}

const DESCRIPTION: &str = "Searches the text of the workspace's files and returns the matching lines with path, line \
and column. The pattern is plain text unless `literal` is false; it never spans lines. Binary files and those that \
`.gitignore` names are left out. `total` counts all matching lines, also where `truncated` says that not all are \
shown.";

/// The `search` tool. A call returns `{"matches": [{"path", "line", "column", "text"}], "files", "total", "truncated"}`:
/// one match for each matching line, by path and line; lines and columns (characters, of the first match in the line)
/// are counted from 1. `files` and `total` count files and lines with a match, those not shown included. With
/// `context_lines` a match also has `before` and `after`, arrays of lines; a line between two matches shows once. A
/// long line is shortened around the match, with `…` for what is missing. `unreadable` names files that could not be
/// searched; `hint` says what to try where nothing was found; `left_out` counts names that were come by and not looked at, as
/// they are not Unicode or there is too much in their folder.
///
/// What fails has a code: `bad_parameters` for a pattern or a glob that is none, `cancelled`, and those of [`FileError::code`] for `paths`.
pub fn search() -> impl Tool {
    typed("search", DESCRIPTION, |context, parameters: Parameters| {
        blocking(context, move |context| {
            run(context, &parameters).unwrap_or_else(|failure| failure.result())
        })
    })
    .repeat(Repeat::Safe)
    .access(Access::ReadOnly)
    .example(json!({"pattern": "parse_config", "whole_word": true, "paths": ["src", "*.md"]}))
}

/// Why nothing was searched.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("`pattern` is empty: give a text to look for, or `list` the files with file_operations")]
    Empty,
    #[error("`pattern` spans lines, but each line is searched by itself: look for one line of it")]
    ManyLines,
    #[error("`pattern` is no regular expression: {0}; set `literal` to true to look for it as it is")]
    BadPattern(grep_regex::Error),
    #[error("`{glob}` in `paths` is no glob: {why}")]
    BadGlob { glob: String, why: globset::Error },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Failure {
    fn result(&self) -> ToolResult {
        match self {
            Failure::Empty | Failure::ManyLines | Failure::BadPattern(_) | Failure::BadGlob { .. } => {
                ToolResult::failure(self.to_string()).with_code(code::BAD_PARAMETERS)
            }
            Failure::File(fault) => fault.failure(),
        }
    }
}

fn run(context: &ToolContext, parameters: &Parameters) -> Result<ToolResult, Failure> {
    let workspace = Workspace::open(&context.workspace)?;
    let matcher = matcher(parameters)?;
    let paths = parameters.paths.as_deref().unwrap_or_default();
    let Files { paths, left_out } = files(context, &workspace, paths)?;
    let mut searcher = searcher(parameters.context_lines.unwrap_or(0).min(MAX_CONTEXT_LINES));
    let wanted = parameters
        .max_results
        .unwrap_or(DEFAULT_RESULTS)
        .clamp(1, MAX_RESULTS);
    let mut collector = Collector::new(&matcher, wanted);
    let mut unreadable = Vec::new();
    for path in paths {
        if context.cancel.is_cancelled() {
            return Ok(cancelled());
        }
        match search_file(context, &workspace, &path, &mut searcher, &mut collector) {
            // A file that went away since it was listed is no file to search.
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

fn matcher(parameters: &Parameters) -> Result<RegexMatcher, Failure> {
    let pattern = parameters.pattern.as_str();
    if pattern.is_empty() {
        return Err(Failure::Empty);
    }
    if pattern.contains('\n') {
        return Err(Failure::ManyLines);
    }
    RegexMatcherBuilder::new()
        .fixed_strings(is_literal(parameters))
        .word(parameters.whole_word.unwrap_or(false))
        .case_insensitive(parameters.case_insensitive.unwrap_or(false))
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        // `$` is before a `\r\n` too.
        .crlf(true)
        .build(pattern)
        .map_err(Failure::BadPattern)
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
    /// How many names were come by that are none to look at.
    left_out: usize,
}

impl Files {
    /// Adds those of a walk, as long as somebody waits for them.
    fn add(&mut self, context: &ToolContext, mut walk: Walk, wanted: impl Fn(&str) -> bool) {
        let found = walk
            .by_ref()
            .take_while(|_| !context.cancel.is_cancelled())
            .filter(|entry| entry.kind == Kind::File && wanted(&entry.path))
            .map(|entry| entry.path);
        self.paths.extend(found);
        self.left_out += walk.left_out();
    }
}

fn files(context: &ToolContext, workspace: &Workspace, paths: &[String]) -> Result<Files, Failure> {
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
            Err(fault) => return Err(fault.into()),
        }
    }
    let mut files = Files::default();
    if any_glob {
        let globs: GlobSet = globs.build().map_err(|why| bad_glob(&paths.join(", "), why))?;
        let everywhere = workspace.entries(&[], Hidden::Include, Depth::All)?;
        files.add(context, everywhere, |file| globs.is_match(file));
    }
    if !any_glob || !named.is_empty() {
        let walk = workspace.entries(&named, Hidden::Include, Depth::All)?;
        files.add(context, walk, |_| true);
    }
    Ok(files)
}

/// As in an ignore file: a glob without `/` is for names in any folder, another one for whole paths.
fn add_glob(globs: &mut GlobSetBuilder, glob: &str) -> Result<(), Failure> {
    let plain = glob.strip_prefix("./").unwrap_or(glob);
    let anywhere = if plain.contains('/') {
        plain.to_owned()
    } else {
        format!("**/{plain}")
    };
    let glob = GlobBuilder::new(&anywhere)
        .literal_separator(true)
        .build()
        .map_err(|why| bad_glob(glob, why))?;
    globs.add(glob);
    Ok(())
}

fn bad_glob(glob: &str, why: globset::Error) -> Failure {
    Failure::BadGlob {
        glob: glob.to_owned(),
        why,
    }
}

/// Searches the text that `file_operations` would show, so that what is found can be edited; a file too big for that
/// is searched as it streams by.
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
        Err(fault) => return Err(fault),
    };
    searched.map_err(|source: io::Error| FileError::Io {
        path: path.to_owned(),
        source,
    })
}
