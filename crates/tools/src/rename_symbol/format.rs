//! Rust's format strings: recognises them, and finds the names that their placeholders capture (`{name}`, `{name:?}`, `{:>width$}`).
//!
//! Macros are recognised by name. If it is uncertain which argument is the format string, the literal counts as text.

use std::ops::Range;

use tree_sitter::Node;

/// The position of a macro's format string among its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// The argument with this index.
    At(usize),
    /// The first argument that consists only of a string literal. Fields and targets may precede it, as in `tracing`'s macros.
    FirstLiteral,
}

fn position(macro_name: &str) -> Option<Position> {
    Some(match macro_name {
        "format" | "format_args" | "print" | "println" | "eprint" | "eprintln" | "panic" | "unreachable"
        | "todo" | "unimplemented" | "anyhow" | "bail" | "eyre" | "format_err" => Position::At(0),
        "write" | "writeln" | "assert" | "debug_assert" | "ensure" => Position::At(1),
        "assert_eq" | "assert_ne" | "debug_assert_eq" | "debug_assert_ne" => Position::At(2),
        "trace" | "debug" | "info" | "warn" | "error" | "log" | "event" => Position::FirstLiteral,
        _ => return None,
    })
}

/// Attributes whose first argument is a format string that can capture fields of the annotated item, such as `#[error("…")]`.
const ATTRIBUTES: &[&str] = &["error", "display"];

/// Returns true if a string literal is the format string of a macro call. `around` is its parent node.
pub(super) fn is_format_string(literal: Node<'_>, around: Node<'_>, text: &str) -> bool {
    if around.kind() != "token_tree" || !is_text(literal, text) {
        return false;
    }
    let position = match called_macro(around, text) {
        Some(name) => position(name),
        None => is_in_attribute(around, text).then_some(Position::At(0)),
    };
    position.is_some_and(|position| stands_at(literal, around, position))
}

/// Returns true if a literal is a text string, not a byte string or a C string.
fn is_text(literal: Node<'_>, text: &str) -> bool {
    let first = text.as_bytes().get(literal.start_byte());
    first.is_some_and(|first| matches!(first, b'"' | b'r'))
}

/// Returns the name of the macro called with these tokens. Reads the source text, because a macro call inside another one has no syntax
/// node.
fn called_macro<'a>(tokens: Node<'_>, text: &'a str) -> Option<&'a str> {
    let before = text.get(..tokens.start_byte())?.trim_end();
    let before = before.strip_suffix('!')?.trim_end();
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let name = before.trim_end_matches(is_part).len();
    before.get(name..)
}

fn is_in_attribute(tokens: Node<'_>, text: &str) -> bool {
    let attribute = tokens.parent().filter(|parent| parent.kind() == "attribute");
    let path = attribute.and_then(|attribute| attribute.named_child(0));
    let name = path.and_then(|path| text.get(path.byte_range()));
    name.is_some_and(|name| ATTRIBUTES.contains(&name))
}

/// An argument of a macro call.
#[derive(Default)]
struct Argument {
    tokens: usize,
    /// The id of the argument's token, if its only token is a literal.
    literal: Option<usize>,
    /// The number of `<` minus the number of `>`.
    open: isize,
}

fn stands_at(literal: Node<'_>, tokens: Node<'_>, position: Position) -> bool {
    let arguments = arguments(tokens);
    let is_literal = |argument: &Argument| argument.literal == Some(literal.id());
    let found = arguments.iter().position(is_literal);
    let first = || arguments.iter().position(|argument| argument.literal.is_some());
    let Some(found) = found else {
        return false;
    };
    match position {
        Position::At(at) => found == at && !has_generics(&arguments[..found]),
        Position::FirstLiteral => first() == Some(found),
    }
}

/// Returns true if a comma may separate generic arguments instead of macro arguments, as in `f::<A, B>()`.
fn has_generics(arguments: &[Argument]) -> bool {
    let opens = arguments.iter().position(|argument| argument.open > 0);
    let closes = arguments.iter().rposition(|argument| argument.open < 0);
    matches!((opens, closes), (Some(opens), Some(closes)) if opens < closes)
}

fn arguments(tokens: Node<'_>) -> Vec<Argument> {
    let mut arguments = vec![Argument::default()];
    let mut cursor = tokens.walk();
    let inner = tokens.children(&mut cursor).skip(1);
    for token in inner {
        if token.kind() == "," {
            arguments.push(Argument::default());
            continue;
        }
        let Some(argument) = arguments.last_mut() else {
            continue;
        };
        match token.kind() {
            // The closing bracket is not part of the last argument.
            ")" | "]" | "}" | "line_comment" | "block_comment" => continue,
            "<" => argument.open += 1,
            ">" => argument.open -= 1,
            ">>" => argument.open -= 2,
            _ => {}
        }
        argument.tokens += 1;
        let is_literal = matches!(token.kind(), "string_literal" | "raw_string_literal");
        argument.literal = (is_literal && argument.tokens == 1).then_some(token.id());
    }
    arguments
}

/// Returns the byte ranges of the names that placeholders capture, in order. `{{` and `}}` are text.
pub(super) fn captured(text: &str) -> Vec<Range<usize>> {
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(open) = text.get(at..).and_then(|rest| rest.find('{')) {
        let inside = at + open + 1;
        if text.as_bytes().get(inside) == Some(&b'{') {
            at = inside + 1;
            continue;
        }
        let close = text.get(inside..).and_then(|rest| rest.find('}'));
        let end = close.map_or(text.len(), |close| inside + close);
        names.extend(in_placeholder(text, inside..end));
        at = end.max(inside);
    }
    names
}

/// Finds the names in a placeholder: `name`, `name:spec` or `:spec`.
fn in_placeholder(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let Some(placeholder) = text.get(range.clone()) else {
        return Vec::new();
    };
    let (argument, spec) = placeholder.split_once(':').unwrap_or((placeholder, ""));
    let mut names = Vec::new();
    let name = argument.trim();
    if is_name(name) {
        let start = range.start + (argument.len() - argument.trim_start().len());
        names.push(start..start + name.len());
    }
    let spec_start = range.end - spec.len();
    for (dollar, _) in spec.match_indices('$') {
        let before = &spec[..dollar];
        let word = before
            .trim_end_matches(|c: char| c.is_alphanumeric() || c == '_')
            .len();
        // The flag `0` may precede a width.
        let name = before[word..].trim_start_matches('0');
        if is_name(name) {
            let end = spec_start + dollar;
            names.push(end - name.len()..end);
        }
    }
    names
}

fn is_name(text: &str) -> bool {
    let word = text.strip_prefix("r#").unwrap_or(text);
    let first = word.chars().next();
    first.is_some_and(|first| first.is_alphabetic() || first == '_')
        && word.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::captured;

    #[track_caller]
    fn check(text: &str, names: &[&str]) {
        let found: Vec<&str> = captured(text).into_iter().map(|name| &text[name]).collect();
        assert_eq!(found, names, "{text}");
    }

    #[test]
    fn placeholders_capture_names_and_escaped_braces_do_not() {
        check("{old} {old:?} { old } {old:#x}", &["old", "old", "old", "old"]);
        check("{{old}} old {} {0} {0:?} }}", &[]);
        check("{{{old}}}", &["old"]);
        check(
            "{:>old$} {:.old$} {:08} {:0old$.1$} {x:old$}",
            &["old", "old", "old", "x", "old"],
        );
        check("{r#type} {old.field} {old[0]} {", &["r#type"]);
    }
}
