//! The imports in a Markdown text: `@path/of/file`, outside of code.

/// Returns the imported paths in order. An import begins a word, as in `see @docs/style.md`.
pub(super) fn imports(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    let mut previous = LineKind::Blank;
    for line in text.lines() {
        let trimmed = line.trim_start();
        let marker = fence_marker(trimmed);
        match (fence, marker) {
            (Some(open), Some(close)) if close.starts_with(open) && trimmed.trim_end() == close => {
                fence = None;
            }
            (Some(_), _) => {}
            (None, Some(open)) => fence = Some(open),
            (None, None) => {
                previous = line_kind(line, previous);
                if previous == LineKind::Text {
                    imports_of_line(line, &mut found);
                }
            }
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Blank,
    /// A line of an indented code block.
    Code,
    Text,
}

/// Returns the kind of a line outside of fenced code. An indented line is code, unless it continues a paragraph or a list.
fn line_kind(line: &str, previous: LineKind) -> LineKind {
    let is_indented = line.starts_with("    ") || line.starts_with('\t');
    match previous {
        _ if line.trim().is_empty() && previous != LineKind::Code => LineKind::Blank,
        LineKind::Blank | LineKind::Code if is_indented || line.trim().is_empty() => LineKind::Code,
        LineKind::Blank | LineKind::Code | LineKind::Text => LineKind::Text,
    }
}

/// Returns the fence, such as three backticks, with which a line opens or closes a code block; `None` for other lines.
fn fence_marker(line: &str) -> Option<&str> {
    let first = line.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
    let marks = &line[..line.len() - line.trim_start_matches(first).len()];
    // If backticks follow later on the line, it contains a code span, not a fence.
    let is_span = first == '`' && line[marks.len()..].contains('`');
    (marks.len() >= 3 && !is_span).then_some(marks)
}

fn imports_of_line<'a>(line: &'a str, found: &mut Vec<&'a str>) {
    let mut rest = line;
    let mut begins_word = true;
    while let Some(next) = rest.chars().next() {
        match next {
            '`' => {
                let after = rest.trim_start_matches('`');
                let marks = &rest[..rest.len() - after.len()];
                rest = after_code_span(after, marks).unwrap_or(after);
                begins_word = false;
            }
            '@' if begins_word => {
                let word = rest[1..].split([' ', '\t', '`']).next().unwrap_or_default();
                let path =
                    word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '"', '\'', '*', '_']);
                if !path.is_empty() {
                    found.push(path);
                }
                rest = &rest[1 + word.len()..];
                begins_word = false;
            }
            _ => {
                begins_word = next.is_whitespace() || next == '(';
                rest = &rest[next.len_utf8()..];
            }
        }
    }
}

/// Returns the text after a code span that `marks` opened; `None` if nothing closes it.
fn after_code_span<'a>(text: &'a str, marks: &str) -> Option<&'a str> {
    let mut rest = text;
    loop {
        rest = &rest[rest.find('`')?..];
        let after = rest.trim_start_matches('`');
        if rest.len() - after.len() == marks.len() {
            return Some(after);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lead_4_an_import_is_a_word_that_begins_with_an_at_sign() {
        let cases: [(&str, &[&str]); 8] = [
            ("@AGENTS.md", &["AGENTS.md"]),
            (
                "- See @docs/style.md, and (@README).",
                &["docs/style.md", "README"],
            ),
            (
                "@../other/a.md @/abs/b.md\n@~/c.md",
                &["../other/a.md", "/abs/b.md", "~/c.md"],
            ),
            ("mail me@example.com, x=@y, @ z", &[]),
            ("  nested @a.md\n\t- item @b.md", &["a.md", "b.md"]),
            ("1. item\n    goes on @a.md", &["a.md"]),
            ("**@a.md**", &[]),
            ("@a.md`@b.md`", &["a.md"]),
        ];
        for (text, expected) in cases {
            assert_eq!(imports(text), expected, "{text:?}");
        }
    }

    #[test]
    fn lead_4_imports_in_code_are_ignored() {
        for text in [
            "run `npm i @types/node` first",
            "``a ` @b.md``",
            "```ts\nimport x from '@a.md'\n@b.md\n```",
            "~~~\n@a.md\n```\n@b.md\n~~~",
            "  ````\n@a.md\n```\n@b.md\n````",
            "```\n@never-closed.md",
            "text:\n\n    @Override\n\n    @Test\n",
        ] {
            assert_eq!(imports(text), [] as [&str; 0], "{text:?}");
        }
        assert_eq!(
            imports("```\n@a.md\n```\n@b.md\n`unclosed @c.md"),
            ["b.md", "c.md"]
        );
    }
}
