//! Renders Markdown for the terminal: headings, emphasis, lists, quotes and code. Links keep their address. Unsupported syntax is shown as
//! text.

use console::{Style, style};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::output::sanitize;

/// Renders a model's text.
pub(crate) fn render(markdown: &str) -> String {
    let text = sanitize(markdown);
    let mut page = Page::default();
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    for event in Parser::new_ext(&text, options) {
        page.add(event);
    }
    page.finish()
}

#[derive(Default)]
struct Page {
    text: String,
    /// The prefixes of each line in the current block, one for each open quote or list item.
    indents: Vec<String>,
    /// The number of the next item of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    style: Style,
    styles: Vec<Style>,
    links: Vec<String>,
    is_code: bool,
    /// Set at the beginning of a line.
    at_start: bool,
    /// Set if the next block is separated by an empty line.
    needs_gap: bool,
}

impl Page {
    fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.open(tag),
            Event::End(tag) => self.close(tag),
            Event::Text(text) if self.is_code => self.write_code(&text),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.write(&text),
            Event::Code(code) => {
                let code = style(code).cyan().to_string();
                self.write_raw(&code);
            }
            Event::SoftBreak | Event::HardBreak => self.new_line(),
            Event::Rule => {
                self.begin_block();
                self.write("────────");
                self.end_block();
            }
            Event::TaskListMarker(done) => self.write(if done { "[x] " } else { "[ ] " }),
            Event::FootnoteReference(name) => self.write(&format!("[{name}]")),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.write(&text),
        }
    }

    fn open(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => {
                self.begin_block();
                self.push_style(Style::new().bold());
            }
            Tag::Paragraph | Tag::HtmlBlock | Tag::Table(_) => self.begin_block(),
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.indents.push("│ ".to_owned());
            }
            Tag::CodeBlock(_) => {
                self.begin_block();
                self.is_code = true;
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.begin_block();
                }
                self.lists.push(first);
            }
            Tag::Item => self.begin_item(),
            Tag::Emphasis => self.push_style(self.style.clone().italic()),
            Tag::Strong => self.push_style(self.style.clone().bold()),
            Tag::Strikethrough => self.push_style(self.style.clone().strikethrough()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.links.push(dest_url.to_string()),
            Tag::TableCell if !self.at_start => self.write("  "),
            Tag::TableHead => self.push_style(Style::new().bold()),
            _ => {}
        }
    }

    fn close(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.pop_style();
                self.end_block();
            }
            TagEnd::Paragraph | TagEnd::HtmlBlock | TagEnd::Table => self.end_block(),
            TagEnd::BlockQuote(_) => {
                self.indents.pop();
                self.end_block();
            }
            TagEnd::CodeBlock => {
                self.is_code = false;
                self.end_block();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.needs_gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.indents.pop();
                self.end_line();
                self.needs_gap = false;
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => self.pop_style(),
            TagEnd::Link | TagEnd::Image => {
                let address = self.links.pop().unwrap_or_default();
                if !address.is_empty() && !self.text.ends_with(&address) {
                    self.write(&format!(" ({address})"));
                }
            }
            TagEnd::TableHead => {
                self.pop_style();
                self.end_line();
            }
            TagEnd::TableRow => self.end_line(),
            _ => {}
        }
    }

    fn begin_item(&mut self) {
        self.end_line();
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            Some(None) | None => "• ".to_owned(),
        };
        self.write_raw(&marker);
        self.indents.push(" ".repeat(marker.chars().count()));
        self.needs_gap = false;
    }

    fn begin_block(&mut self) {
        if std::mem::take(&mut self.needs_gap) && !self.text.is_empty() {
            self.end_line();
            self.text.push('\n');
        }
    }

    fn end_block(&mut self) {
        self.end_line();
        self.needs_gap = true;
    }

    fn end_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.at_start = true;
    }

    fn new_line(&mut self) {
        self.text.push('\n');
        self.at_start = true;
    }

    fn write(&mut self, text: &str) {
        let styled = self.style.apply_to(text).to_string();
        self.write_raw(&styled);
    }

    fn write_raw(&mut self, text: &str) {
        if std::mem::take(&mut self.at_start) {
            self.text.push_str(&self.indents.concat());
        }
        self.text.push_str(text);
    }

    fn write_code(&mut self, code: &str) {
        for line in code.lines() {
            self.end_line();
            let line = style(line).cyan().to_string();
            self.write_raw(&format!("    {line}"));
        }
    }

    fn push_style(&mut self, new: Style) {
        self.styles.push(std::mem::replace(&mut self.style, new));
    }

    fn pop_style(&mut self) {
        self.style = self.styles.pop().unwrap_or_default();
    }

    fn finish(mut self) -> String {
        self.text.truncate(self.text.trim_end().len());
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_text_for_the_terminal() {
        console::set_colors_enabled(false);
        let markdown = "# Result\n\nTwo *files* in `src`:\n\n1. **a.rs**, see [docs](https://x.org/a)\n2. b.rs\n   - nested\n\n\
            ```rust\nfn main() {}\n\nlet x;\n```\n\n> quoted\n> text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd\u{1b}[2J.";
        let text = "Result\n\nTwo files in src:\n\n1. a.rs, see docs (https://x.org/a)\n2. b.rs\n   • nested\n\n    fn main() {}\n    \n    let x;\n\n\
            │ quoted\n│ text\n\na  b\n1  2\n\nEnd\u{fffd}[2J.";
        assert_eq!(render(markdown), text);
    }
}
