//! A run as an HTML page that needs nothing else: no script, no image, no address is loaded.

use std::fmt::Write as _;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use super::{Block, Document};

/// Forbids everything but the page's own style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
const STYLE: &str = include_str!("page.css");

/// Writes the page.
pub(super) fn write(document: &Document) -> String {
    let goal = escaped(&document.goal);
    let title = goal.lines().next().unwrap_or_default();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n<title>{title} - Dirigent</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{goal}</h1>\n<table class=\"facts\">\n"
    );
    for (name, value) in &document.facts {
        let _ = writeln!(page, "<tr><th>{name}</th><td>{}</td></tr>", escaped(value));
    }
    page.push_str("</table>\n");
    for block in &document.blocks {
        let _ = match block {
            Block::Heading(heading) => writeln!(page, "<h2>{heading}</h2>"),
            Block::Written(markdown) => {
                writeln!(page, "<div class=\"written\">\n{}</div>", written(markdown))
            }
            Block::Graph { tree, .. } => writeln!(page, "<pre>{}</pre>", escaped(tree)),
            Block::Diff(diff) => writeln!(page, "<pre class=\"diff\">{}</pre>", coloured(diff)),
            Block::Plain(plain) => writeln!(page, "<pre>{}</pre>", escaped(plain)),
        };
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// A model's Markdown as HTML. HTML in it is shown as text, images are shown as their description, and links other than to web pages and
/// mail addresses have no effect.
fn written(markdown: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let events = Parser::new_ext(markdown, options).filter_map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
        Event::Start(Tag::Link {
            link_type,
            dest_url,
            title,
            id,
        }) if !leads_to_a_page(&dest_url) => Some(Event::Start(Tag::Link {
            link_type,
            dest_url: CowStr::Borrowed("#"),
            title,
            id,
        })),
        other => Some(other),
    });
    let mut page = String::new();
    html::push_html(&mut page, events);
    page
}

fn leads_to_a_page(address: &str) -> bool {
    let address = address.to_ascii_lowercase();
    ["http://", "https://", "mailto:"]
        .iter()
        .any(|scheme| address.starts_with(scheme))
}

/// A diff with a class for each kind of line.
fn coloured(diff: &str) -> String {
    let mut page = String::new();
    for line in diff.lines() {
        // Changes made while commands were running are shown in comments.
        let class = match line.strip_prefix("# ").unwrap_or(line).as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "file",
            [b'+', ..] => "added",
            [b'-', ..] => "removed",
            [b'@', ..] => "place",
            _ => "",
        };
        let _ = match class {
            "" => writeln!(page, "{}", escaped(line)),
            class => writeln!(page, "<span class=\"{class}\">{}</span>", escaped(line)),
        };
    }
    page
}

/// The text, without meaning in HTML.
fn escaped(text: &str) -> String {
    let mut page = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            other => page.push(other),
        }
    }
    page
}
