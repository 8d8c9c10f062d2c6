//! Recognising definitions by the node kinds of the grammars.

use schemars::JsonSchema;
use serde::Deserialize;
use tree_sitter::Node;

use super::Language;

/// The kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DefinitionKind {
    Function,
    Method,
    Struct,
    Enum,
    Union,
    Class,
    Trait,
    Interface,
    Type,
    Constant,
    Variable,
    Macro,
    Module,
}

impl DefinitionKind {
    /// Returns the name used in JSON and in outputs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DefinitionKind::Function => "function",
            DefinitionKind::Method => "method",
            DefinitionKind::Struct => "struct",
            DefinitionKind::Enum => "enum",
            DefinitionKind::Union => "union",
            DefinitionKind::Class => "class",
            DefinitionKind::Trait => "trait",
            DefinitionKind::Interface => "interface",
            DefinitionKind::Type => "type",
            DefinitionKind::Constant => "constant",
            DefinitionKind::Variable => "variable",
            DefinitionKind::Macro => "macro",
            DefinitionKind::Module => "module",
        }
    }
}

/// The node kinds of all grammars that are definitions and have the defined name in their field `name`. A function in a type is later
/// reported as a method.
const DEFINITIONS: &[(&str, DefinitionKind)] = &[
    // Rust
    ("associated_type", DefinitionKind::Type),
    ("const_item", DefinitionKind::Constant),
    ("enum_item", DefinitionKind::Enum),
    ("function_item", DefinitionKind::Function),
    ("function_signature_item", DefinitionKind::Function),
    ("macro_definition", DefinitionKind::Macro),
    ("mod_item", DefinitionKind::Module),
    ("static_item", DefinitionKind::Variable),
    ("struct_item", DefinitionKind::Struct),
    ("trait_item", DefinitionKind::Trait),
    ("type_item", DefinitionKind::Type),
    ("union_item", DefinitionKind::Union),
    // Python
    ("class_definition", DefinitionKind::Class),
    ("function_definition", DefinitionKind::Function),
    // JavaScript and TypeScript
    ("abstract_class_declaration", DefinitionKind::Class),
    ("abstract_method_signature", DefinitionKind::Method),
    ("class", DefinitionKind::Class),
    ("class_declaration", DefinitionKind::Class),
    ("enum_declaration", DefinitionKind::Enum),
    ("function_declaration", DefinitionKind::Function),
    ("function_expression", DefinitionKind::Function),
    ("function_signature", DefinitionKind::Function),
    ("generator_function", DefinitionKind::Function),
    ("generator_function_declaration", DefinitionKind::Function),
    ("interface_declaration", DefinitionKind::Interface),
    ("internal_module", DefinitionKind::Module),
    ("method_definition", DefinitionKind::Method),
    ("method_signature", DefinitionKind::Method),
    ("module", DefinitionKind::Module),
    ("type_alias_declaration", DefinitionKind::Type),
    // Go
    ("const_spec", DefinitionKind::Constant),
    ("method_declaration", DefinitionKind::Method),
    ("method_elem", DefinitionKind::Method),
    ("type_alias", DefinitionKind::Type),
    ("type_spec", DefinitionKind::Type),
];

/// Returns true if a node defines a function, method, type, class, module, constant or macro, and `field` contains its name.
pub(crate) fn is_definition(node: Node<'_>, field: Option<&str>) -> bool {
    match (node.kind(), field) {
        ("variable_declarator" | "public_field_definition", Some("name"))
        | ("field_definition", Some("property")) => node
            .child_by_field_name("value")
            .is_some_and(is_function_or_class),
        (kind, Some("name")) => kind_of(kind).is_some(),
        _ => false,
    }
}

/// Returns the kind and the name of a node's definition; `None` if the node defines nothing. Unlike [`is_definition`], this includes the
/// variables and constants at the top level of a file.
pub(crate) fn definition(node: Node<'_>, language: Language) -> Option<(DefinitionKind, Node<'_>)> {
    let field = |name| node.child_by_field_name(name);
    match node.kind() {
        "variable_declarator" | "public_field_definition" => {
            let kind = match field("value").filter(|value| is_function_or_class(*value)) {
                Some(value) if value.kind() == "class" => DefinitionKind::Class,
                Some(_) if node.kind() == "public_field_definition" => DefinitionKind::Method,
                Some(_) => DefinitionKind::Function,
                None => variable(node)?,
            };
            Some((kind, field("name")?))
        }
        "field_definition" => {
            field("value").filter(|value| is_function_or_class(*value))?;
            Some((DefinitionKind::Method, field("property")?))
        }
        // The name of a function or class expression is not visible outside the expression.
        "function_expression" | "generator_function" | "class" => None,
        "assignment" if language == Language::Python => {
            let name = field("left").filter(|left| left.kind() == "identifier")?;
            let at_top = node.parent()?.parent()?.kind() == "module";
            at_top.then_some((DefinitionKind::Variable, name))
        }
        "var_spec" => at_top_of_go(node).then_some((DefinitionKind::Variable, field("name")?)),
        "const_spec" if !at_top_of_go(node) => None,
        "type_spec" => {
            let kind = match field("type").map(|it| it.kind()) {
                Some("struct_type") => DefinitionKind::Struct,
                Some("interface_type") => DefinitionKind::Interface,
                Some(_) | None => DefinitionKind::Type,
            };
            Some((kind, field("name")?))
        }
        kind => Some((kind_of(kind)?, field("name")?)),
    }
}

fn kind_of(node: &str) -> Option<DefinitionKind> {
    let found = DEFINITIONS.iter().find(|(kind, _)| *kind == node);
    found.map(|(_, kind)| *kind)
}

/// Returns the kind of a JavaScript variable at the top level of its file, exported or not; `None` for other variables.
fn variable(declarator: Node<'_>) -> Option<DefinitionKind> {
    let declaration = declarator.parent()?;
    let mut around = declaration.parent()?;
    if around.kind() == "export_statement" {
        around = around.parent()?;
    }
    if around.kind() != "program" || declarator.child_by_field_name("name")?.kind() != "identifier" {
        return None;
    }
    let keyword = declaration.child_by_field_name("kind");
    Some(match keyword.map(|keyword| keyword.kind()) {
        Some("const") => DefinitionKind::Constant,
        Some(_) | None => DefinitionKind::Variable,
    })
}

fn at_top_of_go(spec: Node<'_>) -> bool {
    let mut around = spec.parent();
    while let Some(node) = around.filter(|node| node.kind() != "source_file") {
        if node.kind() == "block" {
            return false;
        }
        around = node.parent();
    }
    around.is_some()
}

fn is_function_or_class(value: Node<'_>) -> bool {
    matches!(
        value.kind(),
        "arrow_function" | "function_expression" | "generator_function" | "class"
    )
}
