//! The symbols of one file, with what each is in.

use serde::Serialize;
use tree_sitter::{Node, Tree};

use crate::syntax::{DefinitionKind, Language, definition};

/// The longest signature, in characters.
const MAX_SIGNATURE: usize = 200;

/// Something that a file defines.
#[derive(Debug, Serialize)]
pub(super) struct Symbol {
    pub(super) kind: DefinitionKind,
    pub(super) name: String,
    /// What it is in, such as a type or a module, from the outside in: `parser::Parser`.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
    path: String,
    /// From 1, where its name stands.
    line: usize,
    /// Its first lines up to its body, on one line.
    signature: String,
    /// 1 at the top of its file.
    #[serde(skip)]
    pub(super) depth: usize,
}

impl Symbol {
    /// Whether it is directly in something of that name.
    pub(super) fn is_in(&self, container: &str) -> bool {
        let inner = |all: &String| all.rsplit("::").next() == Some(container);
        self.container.as_ref().is_some_and(inner)
    }
}

/// What the walk is in.
struct Scope {
    name: String,
    is_type: bool,
    /// The node at whose end it ends.
    end: usize,
}

/// The symbols in the order of the file.
pub(super) fn symbols(tree: &Tree, language: Language, text: &str, path: &str) -> Vec<Symbol> {
    let mut found = Vec::new();
    let mut scopes: Vec<Scope> = Vec::new();
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        scopes.retain(|scope| node.start_byte() < scope.end);
        if let Some((kind, name)) = definition(node, language) {
            let name = language.name_of(part(text, name)).to_owned();
            let (receiver, is_method) = match receiver(node, text) {
                Some(receiver) => (Some(receiver), true),
                None => (None, scopes.last().is_some_and(|scope| scope.is_type)),
            };
            let containers: Vec<&str> = scopes.iter().map(|scope| scope.name.as_str()).collect();
            let container = receiver.or_else(|| (!containers.is_empty()).then(|| containers.join("::")));
            found.push(Symbol {
                kind: match kind {
                    DefinitionKind::Function if is_method => DefinitionKind::Method,
                    kind => kind,
                },
                depth: 1 + scopes.len().max(usize::from(container.is_some())),
                container,
                path: path.to_owned(),
                line: node_line(node, &name, text),
                signature: signature(node, text),
                name: name.clone(),
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
                // `Parser<'a>` is a `Parser`.
                name: name.split('<').next().unwrap_or_default().trim().to_owned(),
                is_type: true,
                end: node.end_byte(),
            });
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return found;
            }
        }
    }
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

/// The type that a method of Go belongs to, which it does not stand in.
fn receiver(node: Node<'_>, text: &str) -> Option<String> {
    if node.kind() != "method_declaration" {
        return None;
    }
    let receiver = part(text, node.child_by_field_name("receiver")?);
    let of = receiver.trim_matches(['(', ')']).rsplit([' ', '*']).next()?;
    Some(of.split('[').next().unwrap_or(of).to_owned())
}

/// The line of the name: what a definition begins with may be an attribute.
fn node_line(node: Node<'_>, name: &str, text: &str) -> usize {
    let fields = ["name", "property", "left"];
    let at = fields
        .iter()
        .filter_map(|field| node.child_by_field_name(field))
        .find(|named| part(text, *named).ends_with(name));
    at.unwrap_or(node).start_position().row + 1
}

/// A definition up to its body, spaces drawn together.
fn signature(node: Node<'_>, text: &str) -> String {
    let end = node.child_by_field_name("body").map(|body| body.start_byte());
    // A variable's value may be a function with a body of its own.
    let value = node.child_by_field_name("value");
    let inner = value.and_then(|value| value.child_by_field_name("body"));
    let end = end
        .or(inner.map(|body| body.start_byte()))
        .unwrap_or(node.end_byte());
    let whole = text.get(node.start_byte()..end).unwrap_or_default();
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
    let mut characters = signature.chars();
    let mut short: String = characters.by_ref().take(MAX_SIGNATURE).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}
