//! A run as Markdown.

use std::fmt::Write as _;

use super::{Block, Document};

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
                let _ = writeln!(text, "{markdown}");
            }
            Block::Graph { mermaid, .. } => code(&mut text, "mermaid", mermaid),
            Block::Diff(diff) => code(&mut text, "diff", diff),
            Block::Plain(plain) => code(&mut text, "", plain),
        }
    }
    text
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
