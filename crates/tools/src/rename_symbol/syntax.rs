//! The identifiers of a source file, and the text in its strings and comments.
//!
//! It knows names, not what they refer to: two things of one name are not told apart.

use std::ops::Range;

use tokio_util::sync::CancellationToken;
use tree_sitter::{Node, Tree};

use crate::syntax::{Language, Unparsed, is_definition, parse};

/// A parsed file.
pub(super) struct Syntax<'a> {
    tree: Tree,
    text: &'a str,
}

/// A part of a file that can hold a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// An identifier.
    Identifier(Role),
    /// Text that is not code.
    Prose(Prose),
}

/// Whether a file fits its grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Clean,
    Broken,
}

/// What an identifier is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It names a function, method, type, class, module, constant or macro where that is defined.
    Definition,
    /// Anything else.
    Use,
}

/// Text that is not code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Prose {
    /// In a string, a template, a regular expression or the text of a JSX element.
    String,
    /// In a comment.
    Comment,
}

impl<'a> Syntax<'a> {
    /// Parses a file as far as it can be: what does not fit the grammar is left out, the rest is there.
    pub(super) fn parse(
        language: Language,
        text: &'a str,
        cancel: &CancellationToken,
    ) -> Result<Self, Unparsed> {
        parse(language, text, || cancel.is_cancelled()).map(|tree| Syntax { tree, text })
    }

    /// Whether all of it fits the grammar.
    pub(super) fn state(&self) -> State {
        match self.tree.root_node().has_error() {
            true => State::Broken,
            false => State::Clean,
        }
    }

    /// Shows each identifier and each piece of prose with its place, in the order of the file.
    pub(super) fn visit(&self, mut see: impl FnMut(Range<usize>, &str, Part)) {
        let mut see = |range: Range<usize>, part| {
            let text = self.text.get(range.clone()).unwrap_or_default();
            see(range, text, part);
        };
        let mut cursor = self.tree.walk();
        let mut parents: Vec<Node<'_>> = Vec::new();
        loop {
            let node = cursor.node();
            let field = cursor.field_name();
            match part(node, field, parents.last().copied(), self.text) {
                Some(Part::Prose(Prose::String)) => {
                    for piece in pieces(node) {
                        see(piece, Part::Prose(Prose::String));
                    }
                }
                Some(part) => see(node.byte_range(), part),
                None if cursor.goto_first_child() => {
                    parents.push(node);
                    continue;
                }
                None => {}
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return;
                }
                parents.pop();
            }
        }
    }
}

fn part(node: Node<'_>, field: Option<&str>, parent: Option<Node<'_>>, text: &str) -> Option<Part> {
    if !node.is_named() {
        return None;
    }
    match node.kind() {
        "identifier"
        | "type_identifier"
        | "field_identifier"
        | "package_identifier"
        | "property_identifier"
        | "shorthand_field_identifier"
        | "shorthand_property_identifier"
        | "shorthand_property_identifier_pattern" => (!is_of_another_kind(parent)
            && !is_html_tag(node, parent, text))
        .then(|| Part::Identifier(role(field, parent))),
        "comment" | "line_comment" | "block_comment" | "html_comment" => Some(Part::Prose(Prose::Comment)),
        "string_content"
        | "string_fragment"
        | "interpreted_string_literal_content"
        | "raw_string_literal_content"
        | "regex_pattern"
        | "jsx_text" => Some(Part::Prose(Prose::String)),
        _ => None,
    }
}

/// Lifetimes and labels have names of their own, which no function or type can clash with.
fn is_of_another_kind(parent: Option<Node<'_>>) -> bool {
    parent.is_some_and(|parent| matches!(parent.kind(), "lifetime" | "label"))
}

/// JSX takes a tag in lower case for an element of HTML, whatever else is called so.
fn is_html_tag(node: Node<'_>, parent: Option<Node<'_>>, text: &str) -> bool {
    parent.is_some_and(|parent| {
        matches!(
            parent.kind(),
            "jsx_opening_element" | "jsx_closing_element" | "jsx_self_closing_element"
        )
    }) && text
        .as_bytes()
        .get(node.start_byte())
        .is_some_and(u8::is_ascii_lowercase)
}

fn role(field: Option<&str>, parent: Option<Node<'_>>) -> Role {
    match parent.is_some_and(|parent| is_definition(parent, field)) {
        true => Role::Definition,
        false => Role::Use,
    }
}

/// A string without its escapes: the `n` of `\n` is no part of the word after it.
fn pieces(node: Node<'_>) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut start = node.start_byte();
    for child in node.named_children(&mut node.walk()) {
        pieces.push(start..child.start_byte());
        start = child.end_byte();
    }
    pieces.push(start..node.end_byte());
    pieces
}
