//! Finds where Python, JavaScript and TypeScript sources introduce or import a name. A name that no source file introduces is assumed to
//! belong to a library.

use std::ops::Range;

use tree_sitter::Node;

use super::{go, rust};
use crate::syntax::Language;

/// What an identifier is qualified by instead of its scope: an object, a type, or a function's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Qualifier {
    /// Not qualified: the scope determines what the name refers to.
    Scope,
    /// Qualified by a module or a type: the name follows `::`, is selected from a package, or is the name of a macro. It cannot refer to
    /// a local variable.
    Item,
    /// Qualified by something unknown: the identifier is a property, a keyword argument or an object key, and the syntax does not show to
    /// which object, type or function it belongs.
    Unknown,
}

/// A byte range of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    start: usize,
    end: usize,
}

impl Span {
    pub(super) fn from_node(node: Node<'_>) -> Self {
        let Range { start, end } = node.byte_range();
        Span { start, end }
    }

    pub(super) fn text(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// Returns true if an identifier introduces its name as a parameter, an assigned variable, a field or the like. Definitions of functions,
/// types and the like do not count: `is_definition` recognises them.
pub(super) fn binds(language: Language, field: Option<&str>, ancestors: &[Node<'_>]) -> bool {
    let Some((parent, around)) = ancestors.split_last() else {
        return false;
    };
    match language {
        Language::Python => match (parent.kind(), field) {
            ("attribute", Some("attribute")) => is_assignment_target(*parent, around, "assignment"),
            (kind, Some(field)) if PYTHON_FIELDS.contains(&(kind, field)) => true,
            (kind, _) => PYTHON.contains(&kind),
        },
        Language::JavaScript | Language::TypeScript | Language::Tsx => match (parent.kind(), field) {
            ("member_expression", Some("property")) => {
                is_assignment_target(*parent, around, "assignment_expression")
            }
            (kind, Some(field)) if SCRIPT_FIELDS.contains(&(kind, field)) => true,
            (kind, _) => SCRIPT.contains(&kind),
        },
        Language::Rust | Language::Go => false,
    }
}

/// Returns true if the node is the left side of an assignment.
fn is_assignment_target(node: Node<'_>, around: &[Node<'_>], assignment: &str) -> bool {
    around
        .last()
        .is_some_and(|outer| outer.kind() == assignment && outer.child_by_field_name("left") == Some(node))
}

const PYTHON_FIELDS: &[(&str, &str)] = &[
    ("aliased_import", "alias"),
    ("assignment", "left"),
    ("default_parameter", "name"),
    ("for_in_clause", "left"),
    ("for_statement", "left"),
    ("named_expression", "name"),
    ("typed_default_parameter", "name"),
];
const PYTHON: &[&str] = &[
    "as_pattern_target",
    "dictionary_splat_pattern",
    "lambda_parameters",
    "list_pattern",
    "list_splat_pattern",
    "parameters",
    "pattern_list",
    "tuple_pattern",
    "typed_parameter",
];

const SCRIPT_FIELDS: &[(&str, &str)] = &[
    ("arrow_function", "parameter"),
    ("assignment_expression", "left"),
    ("assignment_pattern", "left"),
    ("catch_clause", "parameter"),
    ("enum_assignment", "name"),
    ("enum_body", "name"),
    ("export_specifier", "alias"),
    ("field_definition", "property"),
    ("for_in_statement", "left"),
    ("import_specifier", "alias"),
    ("optional_parameter", "pattern"),
    ("pair", "key"),
    ("pair_pattern", "value"),
    ("property_signature", "name"),
    ("public_field_definition", "name"),
    ("required_parameter", "pattern"),
    ("type_parameter", "name"),
    ("variable_declarator", "name"),
];
const SCRIPT: &[&str] = &[
    "array_pattern",
    "formal_parameters",
    "import_clause",
    "namespace_import",
    "rest_pattern",
];

/// Returns the source from which JavaScript imports the name, such as `"./price"`; `None` if the node is not an imported name.
pub(super) fn script_import(node: Node<'_>, ancestors: &[Node<'_>], text: &str) -> Option<Span> {
    let specifier = *ancestors.last()?;
    let named = || specifier.child_by_field_name("name") == Some(node);
    let mut outer = ancestors.iter().rev().copied();
    let source = match specifier.kind() {
        "import_specifier" if named() => {
            let statement = outer.find(|outer| outer.kind() == "import_statement")?;
            statement.child_by_field_name("source")?
        }
        "export_specifier" if named() => {
            let statement = outer.find(|outer| outer.kind() == "export_statement")?;
            statement.child_by_field_name("source")?
        }
        "object_pattern" | "pair_pattern" => {
            let is_key = node.kind() != "identifier";
            let declarator =
                outer.find(|outer| !matches!(outer.kind(), "object_pattern" | "pair_pattern"))?;
            let value = declarator.child_by_field_name("value").filter(|_| is_key)?;
            required_module(value, text)?
        }
        "member_expression" if specifier.child_by_field_name("property") == Some(node) => {
            required_module(specifier.child_by_field_name("object")?, text)?
        }
        _ => return None,
    };
    Some(Span::from_node(source))
}

/// Returns the qualifier of an identifier that is neither a definition nor imported.
pub(super) fn qualifier(node: Node<'_>, ancestors: &[Node<'_>], text: &str) -> Qualifier {
    let Some((parent, around)) = ancestors.split_last() else {
        return Qualifier::Scope;
    };
    let has_owner = match node.kind() {
        "identifier" => {
            let is = |field| parent.child_by_field_name(field) == Some(node);
            match parent.kind() {
                "attribute" => is("attribute"),
                "keyword_argument" => is("name"),
                _ => false,
            }
        }
        "shorthand_property_identifier" => !is_exported(*parent, around, text),
        "property_identifier" => !is_export_of(*parent, text),
        "shorthand_property_identifier_pattern" => true,
        _ => false,
    };
    match has_owner {
        true => Qualifier::Unknown,
        false => Qualifier::Scope,
    }
}

/// Returns true if an object is assigned to `module.exports`.
fn is_exported(object: Node<'_>, around: &[Node<'_>], text: &str) -> bool {
    let left = assigning(object, around).and_then(|assignment| assignment.child_by_field_name("left"));
    left.is_some_and(|left| text.get(left.byte_range()) == Some("module.exports"))
}

/// Returns true for `exports.name` and `module.exports.name`.
fn is_export_of(member: Node<'_>, text: &str) -> bool {
    let object = member.child_by_field_name("object");
    let name = object.and_then(|object| text.get(object.byte_range()));
    matches!(name, Some("exports" | "module.exports"))
}

/// Returns the assignment that has this node as its right side; `None` if there is none.
fn assigning<'tree>(node: Node<'tree>, around: &[Node<'tree>]) -> Option<Node<'tree>> {
    let outer = around.last().copied()?;
    let is_value =
        outer.kind() == "assignment_expression" && outer.child_by_field_name("right") == Some(node);
    is_value.then_some(outer)
}

/// Returns the argument of a `require` call; `None` for other calls.
fn required_module<'tree>(call: Node<'tree>, text: &str) -> Option<Node<'tree>> {
    let function = call.child_by_field_name("function")?;
    let is_require = text.get(function.byte_range()) == Some("require");
    call.child_by_field_name("arguments")
        .filter(|_| is_require)?
        .named_child(0)
}

/// Returns the module from which Python imports a name, such as `.price` or `shop.price`.
pub(super) fn python_import(statement: Node<'_>) -> Option<Span> {
    statement.child_by_field_name("module_name").map(Span::from_node)
}

/// Returns true if a module may be in the workspace. Python, JavaScript and TypeScript: the module's path is relative, or a source file's
/// path contains the name of its package. Rust and Go: the module is not in the standard library, so third-party modules count, too.
pub(super) fn is_in_workspace(language: Language, from: &str, paths: &[&str]) -> bool {
    let from = from.trim_matches(['"', '\'', '`']);
    let package = match language {
        Language::Python => from.split('.').next().unwrap_or_default(),
        Language::JavaScript | Language::TypeScript | Language::Tsx => {
            let mut parts = from.split('/');
            let first = parts.next().unwrap_or_default();
            match first.starts_with('@') && first.len() > 1 {
                true => parts.next().unwrap_or_default(),
                false => first.trim_matches(['.', '~', '#', '@']),
            }
        }
        Language::Rust => return !rust::STANDARD_CRATES.contains(&from),
        Language::Go => return !go::is_standard(from),
    };
    // `package` is empty for a path relative to the file or to the project.
    package.is_empty()
        || paths.iter().any(|path| {
            path.split('/')
                .any(|part| part == package || part.rsplit_once('.').is_some_and(|(stem, _)| stem == package))
        })
}
