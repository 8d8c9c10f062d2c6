//! The identifiers of a source file, and the text in its strings and comments.
//!
//! Names are not resolved, so different things with the same name are not distinguished.

use std::ops::Range;

use tokio_util::sync::CancellationToken;
use tree_sitter::{Node, Tree};

use super::binding::{Qualifier, Span, binds, python_import, qualifier, script_import};
use super::export::is_export;
use super::format::{captured, is_format_string};
use super::python_format::formatted;
use super::{go, rust};
use crate::syntax::{Language, ParseError, is_definition, parse};

/// The syntax tree of a source file, with the file's text.
pub(super) struct Syntax<'a> {
    language: Language,
    tree: Tree,
    text: &'a str,
}

/// A part of a file that can contain a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// An identifier, or text that the language interprets as one.
    Identifier(Role, Qualifier),
    /// A part of a module path in a Python import: the name of a file or folder.
    Module(Binding),
    Prose(Prose),
}

/// Whether a Python import binds the module's name in the importing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binding {
    /// The import binds the name, so that the file's code can use it: `import old`.
    Bound,
    /// The import does not bind the name: `from old import x`.
    Unbound,
}

/// The result of parsing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Clean,
    /// The file has syntax errors.
    Broken,
}

/// The role of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The name of a function, method, type, class, module, constant or macro at its definition.
    Definition,
    /// The name of an item at its definition, where something else determines the name: an item of a trait's `impl`.
    Declared,
    /// A name that belongs to a module, with the byte range of the module's path: imported by Python or JavaScript, part of a path in
    /// Rust, or selected from a package in Go.
    Imported(Span),
    /// The name of a variable, a field or the like at the place that introduces it.
    Bound,
    /// The name of a variable or parameter of Rust or Go at the place that introduces it, if it can be used only in the same file, and only
    /// without a qualifier before it, as in `x.name` or `x::name`.
    Local,
    /// Anything else.
    Use,
}

impl Role {
    /// Returns true if the identifier introduces its name.
    pub(super) fn introduces(self) -> bool {
        match self {
            Role::Definition | Role::Bound | Role::Local => true,
            Role::Declared | Role::Imported(_) | Role::Use => false,
        }
    }
}

/// Text that is not code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Prose {
    /// The name is in a string, a template, a regular expression or the text of a JSX element.
    String,
    /// The name is in a comment.
    Comment,
}

impl<'a> Syntax<'a> {
    /// Parses a file. Parts that do not fit the grammar are left out.
    pub(super) fn parse(
        language: Language,
        text: &'a str,
        cancel: &CancellationToken,
    ) -> Result<Self, ParseError> {
        parse(language, text, || cancel.is_cancelled()).map(|tree| Syntax { language, tree, text })
    }

    /// Returns whether the file has syntax errors.
    pub(super) fn state(&self) -> State {
        match self.tree.root_node().has_error() {
            true => State::Broken,
            false => State::Clean,
        }
    }

    /// Calls `see` for each identifier, module name and piece of prose, in file order.
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
            match part(self.language, node, field, &parents, self.text) {
                Some(Part::Prose(Prose::String)) => self.visit_string(node, &parents, &mut see),
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

impl Syntax<'_> {
    /// Calls `see` for the parts of a string: text, and names that the language interprets.
    fn visit_string(&self, node: Node<'_>, parents: &[Node<'_>], see: &mut impl FnMut(Range<usize>, Part)) {
        match self.language {
            Language::Python if is_export(node, parents, self.text) => {
                see(node.byte_range(), Part::Identifier(Role::Use, Qualifier::Scope));
                return;
            }
            Language::Python => {
                let names = formatted(node, parents, self.text);
                if !names.is_empty() {
                    visit_template(node.byte_range(), names, see);
                    return;
                }
            }
            Language::Rust => {
                if let [.., around, literal] = parents
                    && is_format_string(*literal, *around, self.text)
                {
                    let content = node.byte_range();
                    let names = captured(self.text.get(content.clone()).unwrap_or_default());
                    let names = names
                        .into_iter()
                        .map(|name| content.start + name.start..content.start + name.end);
                    visit_template(content.clone(), names.collect(), see);
                    return;
                }
            }
            Language::JavaScript | Language::TypeScript | Language::Tsx | Language::Go => {}
        }
        for piece in pieces(node) {
            see(piece, Part::Prose(Prose::String));
        }
    }
}

/// Calls `see` for the names in a string's content, and for the text between them.
fn visit_template(content: Range<usize>, names: Vec<Range<usize>>, see: &mut impl FnMut(Range<usize>, Part)) {
    let mut done = content.start;
    for name in names {
        see(done..name.start, Part::Prose(Prose::String));
        done = name.end;
        see(name, Part::Identifier(Role::Use, Qualifier::Scope));
    }
    see(done..content.end, Part::Prose(Prose::String));
}

fn part(
    language: Language,
    node: Node<'_>,
    field: Option<&str>,
    parents: &[Node<'_>],
    text: &str,
) -> Option<Part> {
    if !node.is_named() {
        return None;
    }
    let parent = parents.last().copied();
    match node.kind() {
        "identifier"
        | "type_identifier"
        | "field_identifier"
        | "package_identifier"
        | "property_identifier"
        | "shorthand_field_identifier"
        | "shorthand_property_identifier"
        | "shorthand_property_identifier_pattern" => (!is_lifetime_or_label(parent)
            && !is_html_tag(node, parent, text))
        .then(|| identifier(language, node, field, parents, text)),
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

fn identifier(
    language: Language,
    node: Node<'_>,
    field: Option<&str>,
    parents: &[Node<'_>],
    text: &str,
) -> Part {
    let imported = match language {
        Language::Rust => return rust::identifier(node, field, parents, text),
        Language::Go => return go::identifier(node, field, parents, text),
        Language::Python => python_imported(parents),
        Language::JavaScript | Language::TypeScript | Language::Tsx => script_import(node, parents, text)
            .map(|from| Part::Identifier(Role::Imported(from), Qualifier::Scope)),
    };
    imported.unwrap_or_else(|| match parents.last() {
        Some(parent) if is_definition(*parent, field) => Part::Identifier(Role::Definition, Qualifier::Scope),
        Some(_) if binds(language, field, parents) => {
            Part::Identifier(Role::Bound, qualifier(node, parents, text))
        }
        Some(_) | None => Part::Identifier(Role::Use, qualifier(node, parents, text)),
    })
}

/// Classifies an identifier in a Python import; `None` outside of imports.
fn python_imported(parents: &[Node<'_>]) -> Option<Part> {
    let (name, around) = parents.split_last()?;
    if name.kind() != "dotted_name" {
        return None;
    }
    let (inner, outer) = around.split_last()?;
    let imported = |statement| {
        let from = python_import(statement)?;
        Some(Part::Identifier(Role::Imported(from), Qualifier::Scope))
    };
    Some(match (inner.kind(), outer.last().map(|outer| outer.kind())) {
        ("import_statement", _) => Part::Module(Binding::Bound),
        // `import a.old as b` does not bind `old`.
        ("aliased_import", Some("import_statement")) | ("relative_import", _) => {
            Part::Module(Binding::Unbound)
        }
        ("import_from_statement", _) if inner.child_by_field_name("module_name") == Some(*name) => {
            Part::Module(Binding::Unbound)
        }
        ("import_from_statement", _) => imported(*inner)?,
        ("aliased_import", _) => imported(*outer.last()?)?,
        _ => return None,
    })
}

/// Returns true for lifetimes and labels, whose names cannot clash with those of functions or types.
fn is_lifetime_or_label(parent: Option<Node<'_>>) -> bool {
    parent.is_some_and(|parent| matches!(parent.kind(), "lifetime" | "label"))
}

/// Returns true for a JSX tag in lower case, which is always an HTML element.
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

/// Splits a string at its escape sequences, so that the `n` of `\n` does not become part of the following word.
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
