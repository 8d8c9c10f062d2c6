//! Source files as syntax trees: which languages there are, and what defines something in them.
//!
//! It knows names, not what they refer to, and never guesses a language from the content of a file.

mod definition;
mod language;

use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, Parser, Tree};

pub(crate) use definition::{DefinitionKind, definition, is_definition};
pub(crate) use language::{Language, is_name, plain};

/// Why there is no tree.
pub(crate) enum ParseError {
    /// It was told to stop.
    Cancelled,
    /// The grammar does not fit its parser.
    Grammar(String),
}

/// The tree of a text as far as there is one: what does not fit the grammar is marked as an error in it, the rest is there. `stop` is
/// asked from time to time.
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
