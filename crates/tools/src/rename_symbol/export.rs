//! Python's `__all__`: its strings name a module's exports, so they count as usages of these names.

use tree_sitter::Node;

const EXPORTS: &str = "__all__";
/// Functions that convert one collection to another. The strings in their arguments also count as entries of `__all__`.
const COLLECTIONS: &[&str] = &["frozenset", "list", "set", "sorted", "tuple"];

/// Returns true if the content of a string is an entry of a module's `__all__`. `ancestors` are its enclosing nodes, the outermost first.
pub(super) fn is_export(content: Node<'_>, ancestors: &[Node<'_>], text: &str) -> bool {
    let Some((string, around)) = ancestors.split_last() else {
        return false;
    };
    is_plain_word(content, *string, text) && is_listed(*string, around, text)
}

/// Returns true if a string literal is a single word and neither a byte string, an f-string nor a t-string.
fn is_plain_word(content: Node<'_>, string: Node<'_>, text: &str) -> bool {
    let part = |node: Node<'_>| text.get(node.byte_range()).unwrap_or_default();
    let opening = string.child(0).map(part).unwrap_or_default();
    let is_word = part(content)
        .chars()
        .all(|character| character.is_alphanumeric() || character == '_');
    // The three children are the opening quote, the content and the closing quote.
    is_word && string.child_count() == 3 && !opening.contains(['b', 'B', 'f', 'F', 't', 'T'])
}

/// Returns true if a value is assigned to a module's `__all__`, or passed to one of its methods.
fn is_listed(value: Node<'_>, around: &[Node<'_>], text: &str) -> bool {
    let is_exports =
        |node: Option<Node<'_>>| node.is_some_and(|node| text.get(node.byte_range()) == Some(EXPORTS));
    let is_local =
        |node: &Node<'_>| matches!(node.kind(), "function_definition" | "class_definition" | "lambda");
    let mut child = value;
    for node in around.iter().rev() {
        match node.kind() {
            "list"
            | "tuple"
            | "set"
            | "parenthesized_expression"
            | "expression_list"
            | "list_splat"
            | "binary_operator"
            | "conditional_expression"
            | "call" => {}
            "assignment" | "augmented_assignment" => {
                if node.child_by_field_name("right") != Some(child) {
                    return false;
                }
                if is_exports(node.child_by_field_name("left")) {
                    return !around.iter().any(is_local);
                }
            }
            "argument_list" => {
                let function = node
                    .parent()
                    .and_then(|call| call.child_by_field_name("function"));
                let object = function.and_then(|function| function.child_by_field_name("object"));
                if is_exports(object) {
                    return !around.iter().any(is_local);
                }
                let name = function.and_then(|function| text.get(function.byte_range()));
                if !name.is_some_and(|name| COLLECTIONS.contains(&name)) {
                    return false;
                }
            }
            _ => return false,
        }
        child = *node;
    }
    false
}
