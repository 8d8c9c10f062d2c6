//! Collects the symbols of one file, each with the module or type that contains it.

use std::fmt;

use tree_sitter::{Node, Tree};

use crate::syntax::{DefinitionKind, Language, definition};
use crate::truncate::truncate_chars;

/// Maximum lengths of a name and of a signature, in characters.
const MAX_NAME: usize = 100;
const MAX_SIGNATURE: usize = 200;
/// Maximum size of the source text from which a signature is made, in bytes.
const MAX_SIGNATURE_SOURCE: usize = 16 * 1024;
/// Maximum number of containers to name. The innermost containers are named.
const MAX_CONTAINERS: usize = 20;
/// Number of nodes visited between two calls of `stop`.
const STOP_CHECK_INTERVAL: usize = 64;

/// A definition, as the tool's output describes it: `12 method Parser::next | pub fn next(&mut self) -> Token`.
#[derive(Debug)]
pub(super) struct Symbol {
    kind: DefinitionKind,
    name: String,
    /// The enclosing modules and types, from the outside in: `parser::Parser`.
    container: Option<String>,
    pub(super) path: String,
    /// The line of the name, counted from 1.
    line: usize,
    /// The source text up to the body, on one line.
    signature: String,
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.line, self.kind.name())?;
        if let Some(container) = &self.container {
            write!(f, "{container}::")?;
        }
        write!(f, "{} | {}", self.name, self.signature)
    }
}

/// A definition in the syntax tree.
pub(super) struct DefinitionNode<'a, 'tree> {
    pub(super) kind: DefinitionKind,
    pub(super) name: &'a str,
    /// The nesting depth; 1 at the top of the file.
    pub(super) depth: usize,
    node: Node<'tree>,
    /// The receiver type of a Go method.
    receiver: Option<&'a str>,
    scopes: &'a [Scope<'a>],
    text: &'a str,
}

impl DefinitionNode<'_, '_> {
    /// Returns true if the definition's direct container has this name.
    pub(super) fn is_in(&self, container: &str) -> bool {
        let inner = self
            .receiver
            .or_else(|| self.scopes.last().map(|scope| scope.name));
        inner.is_some_and(|inner| inner.rsplit("::").next() == Some(container))
    }

    pub(super) fn symbol(&self, path: &str) -> Symbol {
        Symbol {
            kind: self.kind,
            name: truncate_chars(self.name, MAX_NAME),
            container: self.container(),
            path: path.to_owned(),
            line: node_line(self.node, self.name, self.text),
            signature: signature(self.node, self.text),
        }
    }

    fn container(&self) -> Option<String> {
        if let Some(receiver) = self.receiver {
            return Some(truncate_chars(receiver, MAX_NAME));
        }
        let left_out = self.scopes.len().saturating_sub(MAX_CONTAINERS);
        let mut names: Vec<String> = Vec::new();
        names.extend((left_out > 0).then(|| "…".to_owned()));
        let shown = self.scopes.iter().skip(left_out);
        names.extend(shown.map(|scope| truncate_chars(scope.name, MAX_NAME)));
        (!names.is_empty()).then(|| names.join("::"))
    }
}

/// A definition that encloses the node being visited.
struct Scope<'a> {
    name: &'a str,
    is_type: bool,
    /// The byte offset where the definition ends.
    end: usize,
}

/// Calls `each` for each definition, in the order of the file. `stop` is called from time to time; if it returns true, the walk ends early.
/// Returns true if the walk reached the end of the file.
pub(super) fn symbols(
    tree: &Tree,
    language: Language,
    text: &str,
    stop: impl Fn() -> bool,
    mut each: impl FnMut(&DefinitionNode<'_, '_>),
) -> bool {
    let mut scopes: Vec<Scope<'_>> = Vec::new();
    let mut cursor = tree.walk();
    for nodes in 1_usize.. {
        if nodes.is_multiple_of(STOP_CHECK_INTERVAL) && stop() {
            return false;
        }
        let node = cursor.node();
        // Each scope is nested in the one before it.
        while scopes.last().is_some_and(|scope| scope.end <= node.start_byte()) {
            scopes.pop();
        }
        if let Some((kind, name)) = definition(node, language) {
            let name = language.name_of(part(text, name));
            let receiver = receiver(node, text);
            let is_method = receiver.is_some() || scopes.last().is_some_and(|scope| scope.is_type);
            each(&DefinitionNode {
                kind: match kind {
                    DefinitionKind::Function if is_method => DefinitionKind::Method,
                    kind => kind,
                },
                name,
                depth: 1 + scopes.len().max(usize::from(receiver.is_some())),
                node,
                receiver,
                scopes: &scopes,
                text,
            });
            scopes.push(Scope {
                name,
                is_type: is_type(kind),
                end: node.end_byte(),
            });
        } else if node.kind() == "impl_item" {
            let name = node
                .child_by_field_name("type")
                .map_or("", |name| part(text, name));
            scopes.push(Scope {
                // Without generic arguments: `Parser` for `Parser<'a>`.
                name: name.split('<').next().unwrap_or_default().trim(),
                is_type: true,
                end: node.end_byte(),
            });
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return true;
            }
        }
    }
    true
}

fn is_type(kind: DefinitionKind) -> bool {
    match kind {
        DefinitionKind::Struct
        | DefinitionKind::Enum
        | DefinitionKind::Union
        | DefinitionKind::Class
        | DefinitionKind::Trait
        | DefinitionKind::Interface => true,
        DefinitionKind::Function
        | DefinitionKind::Method
        | DefinitionKind::Type
        | DefinitionKind::Constant
        | DefinitionKind::Variable
        | DefinitionKind::Macro
        | DefinitionKind::Module => false,
    }
}

fn part<'a>(text: &'a str, node: Node<'_>) -> &'a str {
    text.get(node.byte_range()).unwrap_or_default()
}

/// Returns the receiver type of a Go method, which is not an enclosing node.
fn receiver<'a>(node: Node<'_>, text: &'a str) -> Option<&'a str> {
    if node.kind() != "method_declaration" {
        return None;
    }
    let receiver = part(text, node.child_by_field_name("receiver")?);
    let name = receiver.trim_matches(['(', ')']).rsplit([' ', '*']).next()?;
    Some(name.split('[').next().unwrap_or(name))
}

/// Returns the line of the name. The definition itself may begin earlier, with an attribute.
fn node_line(node: Node<'_>, name: &str, text: &str) -> usize {
    let fields = ["name", "property", "left"];
    let at = fields
        .iter()
        .filter_map(|field| node.child_by_field_name(field))
        .find(|named| part(text, *named).ends_with(name));
    at.unwrap_or(node).start_position().row + 1
}

/// Returns a definition up to its body, with whitespace collapsed.
fn signature(node: Node<'_>, text: &str) -> String {
    let end = node.child_by_field_name("body").map(|body| body.start_byte());
    // The value of a variable may be a function with its own body.
    let value = node.child_by_field_name("value");
    let inner = value.and_then(|value| value.child_by_field_name("body"));
    let end = end
        .or(inner.map(|body| body.start_byte()))
        .unwrap_or(node.end_byte());
    // In Python, a comment may stand between the colon and the body.
    let mut cursor = node.walk();
    let comment = node
        .children(&mut cursor)
        .find(|child| child.kind() == "comment" && part(text, *child).starts_with('#'));
    let end = comment.map_or(end, |comment| end.min(comment.start_byte()));
    let whole = text.get(node.start_byte()..end).unwrap_or_default();
    let whole = &whole[..whole.floor_char_boundary(MAX_SIGNATURE_SOURCE)];
    let mut signature = String::new();
    for word in whole.split_whitespace() {
        if !signature.is_empty() {
            signature.push(' ');
        }
        signature.push_str(word);
        if signature.len() > 4 * MAX_SIGNATURE {
            break;
        }
    }
    let signature = signature.trim_end_matches(['{', ':', ';', ' ']);
    let signature = signature.strip_suffix("=>").unwrap_or(signature).trim_end();
    truncate_chars(signature, MAX_SIGNATURE)
}
