//! Conversion of an HTML page to readable text.
//!
//! Tags are read one after the other, without building a tree. Time and memory are therefore linear in the page's length, even for a page
//! with a hundred thousand nested elements.

use std::borrow::Cow;

/// Elements whose content is left out.
const SKIPPED_ELEMENTS: [&str; 8] = [
    "script", "style", "template", "noscript", "svg", "iframe", "object", "select",
];

/// Elements that start and end on their own line.
const LINES: [&str; 21] = [
    "address",
    "article",
    "aside",
    "body",
    "caption",
    "dd",
    "details",
    "div",
    "dt",
    "figcaption",
    "footer",
    "form",
    "header",
    "head",
    "html",
    "li",
    "main",
    "nav",
    "section",
    "summary",
    "tr",
];
/// Elements with an empty line around them.
const PARAGRAPHS: [&str; 14] = [
    "blockquote",
    "dl",
    "fieldset",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "p",
    "table",
    "title",
    "pre",
];
const LISTS: [&str; 2] = ["ol", "ul"];

/// The names of the characters from U+00A0 to U+00FF, in order.
const LATIN_1: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 \
    acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil \
    Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc \
    Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth \
    ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml";

/// Converts a page to text: a line for each block, `#` before headings, `-` before list items, `|` between cells, and links as
/// `text (address)`. Scripts, styles and comments are left out. Never fails, but input that is not HTML may lose parts.
pub(super) fn text(page: &str) -> String {
    let mut writer = Writer::default();
    let mut rest = page;
    while let Some(index) = rest.find('<') {
        writer.text(&rest[..index]);
        rest = &rest[index..];
        rest = match Tag::read(rest) {
            TagParse::Tag(tag, after) => {
                writer.tag(&tag);
                if !tag.is_closing && SKIPPED_ELEMENTS.contains(&tag.name.as_str()) {
                    after_element(after, &tag.name)
                } else {
                    after
                }
            }
            TagParse::Skipped(after) => after,
            TagParse::NoTag => {
                writer.text("<");
                &rest[1..]
            }
        };
    }
    writer.text(rest);
    writer.end()
}

struct Tag<'a> {
    /// The element's name in lowercase.
    name: String,
    is_closing: bool,
    attributes: &'a str,
}

enum TagParse<'a> {
    Tag(Tag<'a>, &'a str),
    /// A comment, a doctype or a processing instruction.
    Skipped(&'a str),
    NoTag,
}

impl<'a> Tag<'a> {
    /// Reads the tag at the beginning of `text`, which begins with `<`.
    fn read(text: &'a str) -> TagParse<'a> {
        if let Some(comment) = text.strip_prefix("<!--") {
            return TagParse::Skipped(comment.split_once("-->").map_or("", |(_, after)| after));
        }
        if text.starts_with("<!") || text.starts_with("<?") {
            return TagParse::Skipped(text.split_once('>').map_or("", |(_, after)| after));
        }
        let inner = &text[1..];
        let (is_closing, inner) = match inner.strip_prefix('/') {
            Some(inner) => (true, inner),
            None => (false, inner),
        };
        if !inner.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return TagParse::NoTag;
        }
        let name_end = inner.find(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/');
        let (name, inner) = inner.split_at(name_end.unwrap_or(inner.len()));
        let end = tag_end(inner);
        let tag = Tag {
            name: name.to_ascii_lowercase(),
            is_closing,
            attributes: &inner[..end],
        };
        TagParse::Tag(tag, inner[end..].strip_prefix('>').unwrap_or(""))
    }

    fn attribute(&self, wanted: &str) -> Option<Cow<'a, str>> {
        let mut rest = self.attributes;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            let end = rest.find(|c: char| c.is_ascii_whitespace() || c == '=')?;
            let (name, after) = rest.split_at(end);
            let Some(value) = after.trim_start().strip_prefix('=') else {
                rest = after;
                continue;
            };
            let value = value.trim_start();
            let (value, after) = match value.chars().next() {
                Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
                Some(_) => value.split_at(
                    value
                        .find(|c: char| c.is_ascii_whitespace())
                        .unwrap_or(value.len()),
                ),
                None => return None,
            };
            if name.eq_ignore_ascii_case(wanted) {
                return Some(unescape(value));
            }
            rest = after;
        }
    }
}

/// Returns the index of the `>` that ends the tag, skipping quoted values.
fn tag_end(text: &str) -> usize {
    let mut quote = None;
    for (index, c) in text.char_indices() {
        match (quote, c) {
            (None, '>') => return index,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (_, _) => {}
        }
    }
    text.len()
}

/// Returns the text after the end tag of the element `name`.
fn after_element<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("</") {
        let is_end_tag = after
            .get(..name.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(name));
        if is_end_tag {
            return after.split_once('>').map_or("", |(_, after)| after);
        }
        rest = after;
    }
    ""
}

/// The text written so far. Line breaks and prefixes are written only once more text follows.
#[derive(Default)]
struct Writer {
    out: String,
    /// Number of line breaks to write before the next text.
    breaks: usize,
    /// Whether to write a space before the next word.
    space: bool,
    /// Prefix of the next text, such as `- `.
    mark: String,
    /// Number of open `<pre>` elements.
    preformatted: usize,
    /// Address of the open link, and the index in `out` where its text begins.
    link: Option<(String, usize)>,
}

impl Writer {
    fn tag(&mut self, tag: &Tag<'_>) {
        let name = tag.name.as_str();
        if LINES.contains(&name) {
            self.block(1);
        } else if PARAGRAPHS.contains(&name) {
            self.block(2);
        } else if LISTS.contains(&name) {
            // A nested list directly follows its item, without an empty line.
            self.block(1);
        }
        match (name, tag.is_closing) {
            ("br", _) => self.breaks = (self.breaks + 1).min(2),
            ("li", false) => self.mark = "- ".to_owned(),
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.mark = format!("{} ", "#".repeat(level));
            }
            ("td" | "th", false) if self.breaks == 0 && !self.out.is_empty() => self.mark = " | ".to_owned(),
            ("pre", false) => self.preformatted += 1,
            ("pre", true) => self.preformatted = self.preformatted.saturating_sub(1),
            ("a", _) => {
                self.close_link();
                if !tag.is_closing {
                    self.open_link(tag);
                }
            }
            ("img", false) => self.text(&tag.attribute("alt").unwrap_or_default()),
            (_, _) => {}
        }
    }

    fn block(&mut self, breaks: usize) {
        self.breaks = self.breaks.max(breaks);
        self.space = false;
        self.mark.clear();
    }

    fn open_link(&mut self, tag: &Tag<'_>) {
        let address = tag.attribute("href").unwrap_or_default();
        let is_target =
            !address.is_empty() && !address.starts_with('#') && !address.starts_with("javascript:");
        if is_target {
            self.link = Some((address.into_owned(), self.out.len()));
        }
    }

    fn close_link(&mut self) {
        let Some((address, begin)) = self.link.take() else {
            return;
        };
        // Line breaks and a prefix may precede the link's text.
        let text = self.out[begin..].trim();
        if !text.is_empty() {
            self.out.push_str(&format!(" ({address})"));
        }
    }

    fn text(&mut self, text: &str) {
        let text = unescape(text);
        if self.preformatted > 0 {
            if !text.is_empty() {
                self.begin();
                self.out.push_str(&text);
            }
            return;
        }
        for (index, word) in text.split(|c: char| c.is_ascii_whitespace()).enumerate() {
            self.space |= index > 0;
            if !word.is_empty() {
                self.begin();
                self.out.push_str(word);
            }
        }
    }

    /// Writes the pending line breaks, prefix or space before text.
    fn begin(&mut self) {
        if !self.out.is_empty() {
            match self.breaks {
                0 if self.mark.is_empty() && self.space => self.out.push(' '),
                0 => {}
                breaks => self.out.push_str(&"\n".repeat(breaks)),
            }
        }
        self.out.push_str(&self.mark);
        (self.breaks, self.space) = (0, false);
        self.mark.clear();
    }

    fn end(mut self) -> String {
        self.close_link();
        self.out
    }
}

/// Replaces character references, such as `&amp;` and `&#38;`, with their characters.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let end = after
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '#')
            .unwrap_or(after.len());
        rest = match character(&after[..end]) {
            Some(c) => {
                out.extend(c);
                after[end..].strip_prefix(';').unwrap_or(&after[end..])
            }
            None => {
                out.push('&');
                after
            }
        };
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Returns the character that a reference stands for. `None` if the reference is unknown; `Some(None)` for an
/// invisible character, which is left out.
fn character(name: &str) -> Option<Option<char>> {
    if let Some(number) = name.strip_prefix('#') {
        let number = match number.strip_prefix(['x', 'X']) {
            Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16),
            None => number.parse(),
        };
        return number
            .ok()
            .and_then(char::from_u32)
            .filter(|c| *c != '\0')
            .map(Some);
    }
    let c = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" | "ensp" | "emsp" | "thinsp" => ' ',
        "shy" | "zwnj" | "zwj" => return Some(None),
        "hellip" => '…',
        "ndash" => '–',
        "mdash" => '—',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "bull" => '•',
        "euro" => '€',
        "trade" => '™',
        "larr" => '←',
        "rarr" => '→',
        "minus" => '−',
        "le" => '≤',
        "ge" => '≥',
        "ne" => '≠',
        // A bare `&` is common.
        "" => return None,
        _ => {
            let index = LATIN_1.split_ascii_whitespace().position(|known| known == name)?;
            char::from_u32(0xa0 + u32::try_from(index).ok()?)?
        }
    };
    Some(Some(c))
}
