//! Syntax trees of source files: the supported languages, and the definitions in a tree.
//!
//! Names are not resolved. The extension of a file determines its language; the content is never used to
//! guess it.

mod definition;
mod language;

use std::ops::ControlFlow;

use serde::Serialize;
use tree_sitter::{ParseOptions, Parser, Tree};

pub(crate) use definition::{DefinitionKind, definition, is_definition};
pub(crate) use language::{Language, is_name, plain};

/// A file that a tool did not read.
#[derive(Debug, Serialize)]
pub(crate) struct SkippedFile {
    pub(crate) path: String,
    pub(crate) reason: String,
}

/// The reason for skipping a file of an unknown language.
pub(crate) const NO_GRAMMAR: &str = "it is not source code of a supported language";

/// Reason why source text could not be parsed.
pub(crate) enum ParseError {
    /// `stop` returned true.
    Cancelled,
    /// The grammar is incompatible with the parser.
    Grammar(String),
}

/// Parses source text. Parts that do not fit the grammar are marked as errors in the tree. `stop` is called from time to time; if it
/// returns true, parsing is cancelled.
pub(crate) fn parse(language: Language, text: &str, stop: impl Fn() -> bool) -> Result<Tree, ParseError> {
    let mut parser = Parser::new();
    parser
        .set_language(&language.grammar())
        .map_err(|error| ParseError::Grammar(error.to_string()))?;
    let mut go_on = |_: &tree_sitter::ParseState| match stop() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let mut source = |offset: usize, _| text.as_bytes().get(offset..).unwrap_or_default();
    let options = ParseOptions::new().progress_callback(&mut go_on);
    parser
        .parse_with_options(&mut source, None, Some(options))
        .ok_or(ParseError::Cancelled)
}
