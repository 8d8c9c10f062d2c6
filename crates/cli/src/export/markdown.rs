//! A run as Markdown.

use std::fmt::Write as _;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::{Block, Document};

/// What readers of Markdown usually understand.
const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS);
/// After this many rounds, a text in which something still acts is shown as code.
const MAX_ROUNDS: usize = 10;

/// Writes the document. What is not Markdown itself stands in code blocks.
pub(super) fn write(document: &Document) -> String {
    let title = document.goal.lines().next().unwrap_or_default();
    let mut text = format!("# {}\n\n", escaped(title));
    if document.goal.lines().count() > 1 {
        code(&mut text, "", &document.goal);
    }
    text.push_str("| | |\n| --- | --- |\n");
    for (name, value) in &document.facts {
        let _ = writeln!(text, "| {name} | {} |", escaped(value));
    }
    for block in &document.blocks {
        text.push('\n');
        match block {
            Block::Heading(heading) => {
                let _ = writeln!(text, "## {heading}");
            }
            Block::Written(markdown) => {
                let _ = writeln!(text, "{}", inert(markdown));
            }
            Block::Graph { mermaid, .. } => code(&mut text, "mermaid", mermaid),
            Block::Diff(diff) => code(&mut text, "diff", diff),
            Block::Plain(plain) => code(&mut text, "", plain),
        }
    }
    text
}

/// A model's Markdown without HTML and images, which stay as text: an image would be loaded from wherever the model says.
fn inert(markdown: &str) -> String {
    let mut text = markdown.to_owned();
    // What was HTML may have images in it, which count only after it is text.
    for _ in 0..MAX_ROUNDS {
        let acting: Vec<(Event<'_>, Range<usize>)> = Parser::new_ext(&text, OPTIONS)
            .into_offset_iter()
            .filter(|(event, _)| {
                matches!(
                    event,
                    Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::Image { .. })
                )
            })
            .collect();
        if acting.is_empty() {
            return text;
        }
        let mut inert = String::with_capacity(text.len());
        let mut from = 0;
        for (event, range) in acting.into_iter().filter(|(_, range)| !range.is_empty()) {
            // An image in an image was escaped with it.
            if range.start < from {
                continue;
            }
            inert.push_str(&text[from..range.start]);
            from = match event {
                Event::Start(_) => {
                    inert.push('\\');
                    range.start
                }
                _ => {
                    inert.push_str(&text[range.clone()].replace('<', "&lt;"));
                    range.end
                }
            };
            if from == range.start {
                inert.push_str(&text[range.start..range.start + 1]);
                from += 1;
            }
        }
        inert.push_str(&text[from..]);
        text = inert;
    }
    let mut fenced = String::new();
    code(&mut fenced, "", markdown);
    fenced
}

/// Appends a code block, with a fence that does not occur in the text.
fn code(text: &mut String, language: &str, content: &str) {
    let longest = content.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    let _ = writeln!(text, "{fence}{language}\n{}\n{fence}", content.trim_end());
}

/// The text of one line, without meaning in Markdown.
fn escaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for character in line.chars() {
        if "\\`*_{}[]<>#|~&!".contains(character) {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_3_html_and_images_of_a_model_stay_text() {
        for (written, shown) in [
            ("plain *text* & `<b>`", "plain *text* & `<b>`"),
            ("a <b onclick=x>b</b>", "a &lt;b onclick=x>b&lt;/b>"),
            (
                "![a](http://e/?x) and [l](http://e)",
                "\\![a](http://e/?x) and [l](http://e)",
            ),
            ("[![a](http://e)](http://f)", "[\\![a](http://e)](http://f)"),
            (
                "![a ![b](http://e)](http://f)",
                "\\![a \\![b](http://e)](http://f)",
            ),
            (
                "<div>\n![a](http://e)\n</div>",
                "&lt;div>\n\\![a](http://e)\n&lt;/div>",
            ),
            ("```\n<b>\n```", "```\n<b>\n```"),
        ] {
            assert_eq!(inert(written), shown);
        }
    }
}
