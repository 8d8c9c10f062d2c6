//! Classifies Rust's identifiers: where a name is introduced, and which names cannot refer to a local variable.
//!
//! The syntax inside a macro call is unknown, so the text around an identifier decides there. An identifier that might introduce its name
//! counts as introducing it.

use tree_sitter::Node;

use super::binding::{Qualifier, Span};
use super::syntax::{Part, Role};
use crate::syntax::is_definition;

/// The standard crates, which come with the language.
pub(super) const STANDARD_CRATES: &[&str] = &["alloc", "core", "proc_macro", "std"];

/// Classifies an identifier. `ancestors` are its enclosing nodes, the outermost first.
pub(super) fn identifier(node: Node<'_>, field: Option<&str>, ancestors: &[Node<'_>], text: &str) -> Part {
    let Some((parent, around)) = ancestors.split_last() else {
        return Part::Identifier(Role::Use, Qualifier::Scope);
    };
    if is_tokens(*parent) {
        return in_macro(node, ancestors, text);
    }
    if is_definition(*parent, field) {
        let role = match is_declared_elsewhere(around) {
            true => Role::Declared,
            false => Role::Definition,
        };
        return Part::Identifier(role, Qualifier::Scope);
    }
    let qualifier = qualifier(node, field, *parent);
    if let Some(root) = path_root(node, ancestors).filter(|root| STANDARD_CRATES.contains(&root.text(text))) {
        return Part::Identifier(Role::Imported(root), qualifier);
    }
    let role = match (parent.kind(), field) {
        ("ERROR", _)
        | ("enum_variant" | "field_declaration", Some("name"))
        | ("use_as_clause" | "extern_crate_declaration", Some("alias")) => Role::Bound,
        ("type_parameter" | "const_parameter", Some("name")) => Role::Local,
        (kind, _) if is_pattern(kind, field) && !begins_upper(node, text) => Role::Local,
        _ => Role::Use,
    };
    Part::Identifier(role, qualifier)
}

/// Returns true for an item of an `impl` of a trait, whose name the trait determines, and for an item of an `extern` block, which is
/// defined in another language. `around` are the nodes around the item.
fn is_declared_elsewhere(around: &[Node<'_>]) -> bool {
    let [.., outer, list] = around else {
        return false;
    };
    list.kind() == "declaration_list"
        && match outer.kind() {
            "impl_item" => outer.child_by_field_name("trait").is_some(),
            kind => kind == "foreign_mod_item",
        }
}

/// Returns true if a node of this kind introduces the identifiers in this one of its fields, unless they are constants.
fn is_pattern(kind: &str, field: Option<&str>) -> bool {
    match kind {
        "captured_pattern" | "closure_parameters" | "mut_pattern" | "or_pattern" | "ref_pattern"
        | "reference_pattern" | "slice_pattern" | "tuple_pattern" => true,
        "field_pattern" | "for_expression" | "let_condition" | "let_declaration" | "parameter" => {
            field == Some("pattern")
        }
        "match_pattern" => field != Some("condition"),
        "tuple_struct_pattern" => field != Some("type"),
        _ => false,
    }
}

/// Returns true if an identifier begins with an upper-case letter, like a constant or a variant. A pattern compares with such a name and
/// does not introduce it.
fn begins_upper(node: Node<'_>, text: &str) -> bool {
    let name = text.get(node.byte_range()).unwrap_or_default();
    name.starts_with(char::is_uppercase)
}

fn qualifier(node: Node<'_>, field: Option<&str>, parent: Node<'_>) -> Qualifier {
    match (node.kind(), parent.kind(), field) {
        ("field_identifier", ..) => Qualifier::Unknown,
        ("shorthand_field_identifier", ..)
        | (_, "scoped_identifier" | "scoped_type_identifier" | "type_binding", Some("name"))
        | (_, "macro_invocation", Some("macro"))
        | (_, "attribute", _) => Qualifier::Item,
        _ => Qualifier::Scope,
    }
}

/// Returns the first segment of the path that ends with an identifier: `std` for `fs` in `use std::{fs, io};`. `None` if the identifier
/// itself is the first segment.
fn path_root(node: Node<'_>, ancestors: &[Node<'_>]) -> Option<Span> {
    let mut root = None;
    let mut inner = node;
    for outer in ancestors.iter().rev() {
        match outer.kind() {
            "scoped_identifier" | "scoped_type_identifier" | "scoped_use_list" => {
                let path = outer.child_by_field_name("path");
                if path.is_some() && path != Some(inner) {
                    root = path;
                }
            }
            "use_list" | "use_as_clause" => {}
            _ => break,
        }
        inner = *outer;
    }
    let mut root = root?;
    while let Some(path) = root.child_by_field_name("path") {
        root = path;
    }
    Some(Span::from_node(root))
}

fn is_tokens(node: Node<'_>) -> bool {
    matches!(node.kind(), "token_tree" | "token_tree_pattern")
}

/// Classifies an identifier among the tokens of a macro call, a macro's definition or an attribute.
fn in_macro(node: Node<'_>, ancestors: &[Node<'_>], text: &str) -> Part {
    let around = Neighbours::new(node, text);
    let outer = ancestors.iter().rev().find(|outer| !is_tokens(**outer));
    let attribute = outer.filter(|outer| outer.kind() == "attribute");
    let qualifier = match around.is_qualified() || around.is_macro() || attribute.is_some() {
        true => Qualifier::Item,
        false => Qualifier::Scope,
    };
    let introduces = match attribute {
        Some(attribute) => is_derive_macro(*attribute, text),
        None if around.is_qualified() || around.qualifies() || around.is_macro() => false,
        None => around.may_introduce() || (is_item(ancestors) && around.is_listed()),
    };
    let role = match introduces {
        true => Role::Bound,
        false => Role::Use,
    };
    Part::Identifier(role, qualifier)
}

/// Returns true for the attribute that names the derive macro which a function implements.
fn is_derive_macro(attribute: Node<'_>, text: &str) -> bool {
    let name = attribute.named_child(0);
    name.and_then(|name| text.get(name.byte_range())) == Some("proc_macro_derive")
}

/// Returns true if the macro call around tokens is an item, which can define names.
fn is_item(ancestors: &[Node<'_>]) -> bool {
    let Some(call) = ancestors
        .iter()
        .rposition(|outer| outer.kind() == "macro_invocation")
    else {
        return false;
    };
    let outer = ancestors.get(..call).unwrap_or_default().iter().rev();
    let mut outer = outer
        .map(|outer| outer.kind())
        .skip_while(|kind| *kind == "expression_statement");
    matches!(outer.next(), Some("source_file" | "declaration_list"))
}

/// The text before and after an identifier, without white space next to it.
struct Neighbours<'a> {
    name: &'a str,
    before: &'a str,
    after: &'a str,
}

/// The keywords that precede a name at its definition or binding.
const KEYWORDS: &[&str] = &[
    "const", "enum", "fn", "for", "let", "mod", "mut", "ref", "static", "struct", "trait", "type", "union",
];

impl<'a> Neighbours<'a> {
    fn new(node: Node<'_>, text: &'a str) -> Self {
        let range = node.byte_range();
        Neighbours {
            name: text.get(range.clone()).unwrap_or_default(),
            before: text.get(..range.start).unwrap_or_default().trim_end(),
            after: text.get(range.end..).unwrap_or_default().trim_start(),
        }
    }

    /// Returns true for `a.name` and `a::name`.
    fn is_qualified(&self) -> bool {
        self.before.ends_with("::") || (self.before.ends_with('.') && !self.before.ends_with(".."))
    }

    /// Returns true for `name::a`.
    fn qualifies(&self) -> bool {
        self.after.starts_with("::")
    }

    /// Returns true for `name!`.
    fn is_macro(&self) -> bool {
        self.after.starts_with('!') && !self.after.starts_with("!=")
    }

    /// Returns true if the name may be introduced here: after a keyword, before a type or a value, or as the parameter of a closure.
    fn may_introduce(&self) -> bool {
        let begins = |next: char, longer: &[&str]| {
            self.after.starts_with(next) && !longer.iter().any(|longer| self.after.starts_with(longer))
        };
        let is_closure = self.before.ends_with('|') || begins('|', &["||", "|="]);
        self.follows_keyword()
            || begins(':', &["::"])
            || begins('=', &["==", "=>"])
            || (is_closure && !self.name.starts_with(char::is_uppercase))
    }

    fn follows_keyword(&self) -> bool {
        let is_part = |character: char| character.is_alphanumeric() || character == '_';
        let rest = self.before.trim_end_matches(is_part);
        let word = self.before.get(rest.len()..).unwrap_or_default();
        // `*const T`, `&mut x` and `impl A for B` introduce nothing.
        let is_use = match word {
            "const" | "mut" => rest.ends_with(['*', '&']),
            "for" => self.name.starts_with(char::is_uppercase),
            _ => false,
        };
        let is_macro_rules = word.is_empty() && rest.ends_with("macro_rules!");
        is_macro_rules || (KEYWORDS.contains(&word) && !is_use)
    }

    /// Returns true if the name begins an element of a list.
    fn is_listed(&self) -> bool {
        self.before.ends_with(['(', '[', '{', ',', ';', ']', '}']) || self.before.ends_with("pub")
    }
}
