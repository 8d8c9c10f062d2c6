//! Python's string formatting: finds the names in a string literal that its `format` call or its `%` operator replaces with variables or
//! with keyword arguments of the call. A template that is not a literal in the formatting expression itself counts as text.

use std::ops::Range;

use tree_sitter::Node;

/// Calls that return variables in a dictionary, by their names.
const VARIABLES: &[&str] = &["locals()", "vars()", "globals()"];

/// The source of the names in a format literal.
enum Source<'tree> {
    /// All variables in scope.
    Variables,
    /// The keyword arguments among these arguments.
    Keywords(Node<'tree>),
}

/// Returns the byte ranges of the names in the content of a string that formatting replaces, in order. `ancestors` are the enclosing nodes
/// of the content, the outermost first.
pub(super) fn formatted(content: Node<'_>, ancestors: &[Node<'_>], text: &str) -> Vec<Range<usize>> {
    let Some((string, around)) = ancestors.split_last() else {
        return Vec::new();
    };
    let opening = string.child(0).and_then(|opening| text.get(opening.byte_range()));
    if opening.is_none_or(|opening| opening.contains(['b', 'B', 'f', 'F', 't', 'T'])) {
        return Vec::new();
    }
    let is_grouping =
        |node: &Node<'_>| matches!(node.kind(), "concatenated_string" | "parenthesized_expression");
    let groups = around.iter().rev().take_while(|node| is_grouping(node)).count();
    let (outer, groups) = around.split_at(around.len() - groups);
    let value = groups.first().unwrap_or(string);
    let start = content.start_byte();
    let content = text.get(content.byte_range()).unwrap_or_default();
    let found = match outer {
        [.., call, attribute] if attribute.kind() == "attribute" => match source(*call, *attribute, text) {
            Some(source) => of_source(fields(content), content, &source, text),
            None => Vec::new(),
        },
        [.., operation] if formats_variables(*operation, *value, text) => keys(content),
        _ => Vec::new(),
    };
    found
        .into_iter()
        .map(|name| start + name.start..start + name.end)
        .collect()
}

/// Returns true for `value % locals()`.
fn formats_variables(operation: Node<'_>, value: Node<'_>, text: &str) -> bool {
    let part = |field| operation.child_by_field_name(field);
    let text_of = |field| part(field).and_then(|node| text.get(node.byte_range()));
    operation.kind() == "binary_operator"
        && part("left") == Some(value)
        && text_of("operator") == Some("%")
        && text_of("right").is_some_and(|right| VARIABLES.contains(&right))
}

/// Returns where a call of `format` or `format_map` takes the names from.
fn source<'tree>(call: Node<'tree>, method: Node<'tree>, text: &str) -> Option<Source<'tree>> {
    let text_of = |node: Node<'_>| text.get(node.byte_range()).unwrap_or_default();
    let arguments = call.child_by_field_name("arguments")?;
    let has = |is_source: &dyn Fn(&str) -> bool| {
        let mut cursor = arguments.walk();
        arguments
            .named_children(&mut cursor)
            .any(|argument| is_source(text_of(argument)))
    };
    let is_variables = |argument: &str| VARIABLES.contains(&argument);
    let is_splat = |argument: &str| argument.strip_prefix("**").is_some_and(is_variables);
    match text_of(method.child_by_field_name("attribute")?) {
        "format" if has(&is_splat) => Some(Source::Variables),
        "format" => Some(Source::Keywords(arguments)),
        "format_map" if has(&is_variables) => Some(Source::Variables),
        _ => None,
    }
}

fn of_source(
    mut names: Vec<Range<usize>>,
    content: &str,
    source: &Source<'_>,
    text: &str,
) -> Vec<Range<usize>> {
    match source {
        Source::Variables => {}
        Source::Keywords(arguments) => {
            let mut cursor = arguments.walk();
            let keywords: Vec<&str> = arguments
                .named_children(&mut cursor)
                .filter(|argument| argument.kind() == "keyword_argument")
                .filter_map(|argument| text.get(argument.child_by_field_name("name")?.byte_range()))
                .collect();
            names.retain(|name| {
                content
                    .get(name.clone())
                    .is_some_and(|name| keywords.contains(&name))
            });
        }
    }
    names
}

/// Returns the names of the replacement fields of `format`: `{name}`, `{name!r:>9}`, `{name.a[0]}`, also in the format of another field.
/// `{{` is text, and `\N{name}` is a character.
fn fields(content: &str) -> Vec<Range<usize>> {
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(open) = content.get(at..).and_then(|rest| rest.find('{')) {
        let inside = at + open + 1;
        if content.as_bytes().get(inside) == Some(&b'{') {
            at = inside + 1;
            continue;
        }
        let name = word(content, inside);
        let is_field = content[name.end..].starts_with(['}', '!', ':', '.', '[']);
        at = name.end;
        if is_field && !name.is_empty() && !content[..inside].ends_with("\\N{") {
            names.push(name);
        }
    }
    names
}

/// Returns the names of the keys of `%`: `%(name)s`. `%%` is text.
fn keys(content: &str) -> Vec<Range<usize>> {
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(percent) = content.get(at..).and_then(|rest| rest.find('%')) {
        let inside = at + percent + 2;
        if content[at + percent + 1..].starts_with('(') {
            let name = word(content, inside);
            if content[name.end..].starts_with(')') {
                names.push(name);
            }
        }
        at = at + percent + 1 + usize::from(content[at + percent + 1..].starts_with('%'));
    }
    names
}

/// Returns the word that begins at a byte offset; it may be empty.
fn word(content: &str, start: usize) -> Range<usize> {
    let rest = content.get(start..).unwrap_or_default();
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    start..start + (rest.len() - rest.trim_start_matches(is_part).len())
}
