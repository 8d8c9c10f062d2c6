//! Classifies Go's identifiers: where a name is introduced, and which names cannot refer to a local variable.

use tree_sitter::Node;

use super::binding::{Qualifier, Span};
use super::syntax::{Part, Role};
use crate::syntax::is_definition;

/// The first elements of the import paths of Go's standard library.
const STANDARD_PACKAGES: &[&str] = &[
    "C",
    "archive",
    "bufio",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "structs",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
    "unsafe",
    "weak",
];

/// Returns true if an import path, such as `net/http`, belongs to the standard library.
pub(super) fn is_standard(import: &str) -> bool {
    let first = import.split('/').next().unwrap_or_default();
    STANDARD_PACKAGES.contains(&first)
}

/// Classifies an identifier. `ancestors` are its enclosing nodes, the outermost first.
pub(super) fn identifier(node: Node<'_>, field: Option<&str>, ancestors: &[Node<'_>], text: &str) -> Part {
    let Some((parent, around)) = ancestors.split_last() else {
        return Part::Identifier(Role::Use, Qualifier::Scope);
    };
    if is_definition(*parent, field) {
        return Part::Identifier(Role::Definition, Qualifier::Scope);
    }
    let qualifier = match (node.kind(), parent.kind(), field) {
        ("field_identifier", ..) => Qualifier::Unknown,
        (_, "qualified_type", Some("name")) => Qualifier::Item,
        _ => Qualifier::Scope,
    };
    if let Some(path) = imported(field, *parent, ancestors, text) {
        return Part::Identifier(Role::Imported(path), qualifier);
    }
    let is_local = || around.iter().any(|outer| outer.kind() == "block");
    let role = match (parent.kind(), field) {
        ("ERROR" | "package_clause", _) | ("field_declaration" | "import_spec", Some("name")) => Role::Bound,
        ("var_spec", Some("name")) if !is_local() => Role::Bound,
        (
            "parameter_declaration"
            | "type_parameter_declaration"
            | "var_spec"
            | "variadic_parameter_declaration",
            Some("name"),
        ) => Role::Local,
        ("expression_list", _) if declares(*parent, around) => Role::Local,
        _ => Role::Use,
    };
    Part::Identifier(role, qualifier)
}

/// Returns true if a list of expressions is the left side of a declaration.
fn declares(list: Node<'_>, around: &[Node<'_>]) -> bool {
    around.last().is_some_and(|statement| match statement.kind() {
        "range_clause" | "receive_statement" | "short_var_declaration" => {
            statement.child_by_field_name("left") == Some(list)
        }
        "type_switch_statement" => statement.child_by_field_name("alias") == Some(list),
        _ => false,
    })
}

/// Returns the import path of the package that a name is selected from: `net/http` for `Get` in `http.Get`. `None` for other names.
fn imported(field: Option<&str>, parent: Node<'_>, ancestors: &[Node<'_>], text: &str) -> Option<Span> {
    let package = match (parent.kind(), field) {
        ("selector_expression", Some("field")) => {
            let operand = parent.child_by_field_name("operand")?;
            (operand.kind() == "identifier").then_some(operand)?
        }
        ("qualified_type", Some("name")) => parent.child_by_field_name("package")?,
        _ => return None,
    };
    let package = text.get(package.byte_range())?;
    let file = ancestors.first()?;
    let mut imports = file
        .named_children(&mut file.walk())
        .collect::<Vec<_>>()
        .into_iter();
    imports.find_map(|node| import_path(package, node, text))
}

/// Returns the import path that a declaration, or a part of it, binds to a package name.
fn import_path(package: &str, node: Node<'_>, text: &str) -> Option<Span> {
    match node.kind() {
        "import_declaration" | "import_spec_list" => {
            let parts = node.named_children(&mut node.walk()).collect::<Vec<_>>();
            parts
                .into_iter()
                .find_map(|part| import_path(package, part, text))
        }
        "import_spec" => bound_path(package, node, text),
        _ => None,
    }
}

/// Returns the import path of an import if it binds this package name.
fn bound_path(package: &str, spec: Node<'_>, text: &str) -> Option<Span> {
    let path = Span::from_node(spec.child_by_field_name("path")?);
    let name = match spec.child_by_field_name("name") {
        Some(name) => text.get(name.byte_range())?,
        None => path.text(text).trim_matches(['"', '`']).rsplit('/').next()?,
    };
    (name == package).then_some(path)
}
