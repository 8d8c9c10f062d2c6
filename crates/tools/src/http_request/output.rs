//! What a model reads of an answer.

use encoding_rs::{Encoding, UTF_8};
use reqwest::header::{self, HeaderMap};
use serde_json::{Map, Value, json};

use super::exchange::ReceivedResponse;
use super::{BodyFormat, html};
use crate::truncate::truncate_chars;

/// Headers that are of no use to a model: those that set credentials or speak to browsers.
const OMITTED_HEADERS: [&str; 11] = [
    "set-cookie",
    "set-cookie2",
    "authentication-info",
    "proxy-authenticate",
    "content-security-policy",
    "content-security-policy-report-only",
    "permissions-policy",
    "report-to",
    "nel",
    "strict-transport-security",
    "alt-svc",
];

/// How many headers are shown, and how many characters of each.
const MAX_HEADERS: usize = 40;
const MAX_HEADER: usize = 500;

/// The output of a call. It may take a moment.
pub(super) fn render(answer: &ReceivedResponse, redirects: &[Value], format: BodyFormat) -> Value {
    let mut output = json!({
        "status": answer.status.as_u16(),
        "url": answer.url.as_str(),
        "headers": headers(&answer.headers),
    });
    let content_type = header_text(&answer.headers, &header::CONTENT_TYPE).unwrap_or_default();
    let content = ContentType::parse(&content_type);
    match text(&answer.body, &content, answer.truncated) {
        Some(text) => {
            output["body"] = match format {
                BodyFormat::Text if content.is_html(&text.text) => html::text(&text.text).into(),
                BodyFormat::Text | BodyFormat::Raw => text.text.into(),
            };
            if text.lossy {
                output["lossy"] = json!(format!(
                    "not all of it is {}; `\u{fffd}` stands for the rest",
                    text.charset
                ));
            }
        }
        None => output["not_shown"] = json!(format!("it is not text but `{}`", content.essence)),
    }
    output["truncated"] = answer.truncated.into();
    output["bytes"] = answer.body.len().into();
    output["redirects"] = redirects.into();
    output
}

/// Those that may be of use, by name; several of one name are one, with commas between.
fn headers(headers: &HeaderMap) -> Map<String, Value> {
    let useful = headers
        .keys()
        .filter(|name| !OMITTED_HEADERS.contains(&name.as_str()));
    let shown = useful.take(MAX_HEADERS).filter_map(|name| {
        let text = truncate_chars(&header_text(headers, name)?, MAX_HEADER);
        Some((name.as_str().to_owned(), text.into()))
    });
    shown.collect()
}

fn header_text(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    let values = headers.get_all(name).iter();
    let values: Vec<_> = values
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// What a `Content-Type` says.
struct ContentType {
    /// Without parameters, in lower case: `text/html`; empty where nothing is said.
    essence: String,
    /// None where none is said or known.
    charset: Option<&'static Encoding>,
}

impl ContentType {
    fn parse(content_type: &str) -> Self {
        let mut parts = content_type.split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case("charset")
                .then(|| value.trim().trim_matches(['"', '\'']))
        });
        ContentType {
            essence,
            charset: charset.and_then(|label| Encoding::for_label(label.as_bytes())),
        }
    }

    fn is_text_type(&self) -> bool {
        let kind = self.essence.as_str();
        let known = [
            "application/json",
            "application/xml",
            "application/javascript",
            "application/x-www-form-urlencoded",
            "application/x-ndjson",
            "application/yaml",
            "application/toml",
        ];
        kind.starts_with("text/")
            || kind.ends_with("+json")
            || kind.ends_with("+xml")
            || known.contains(&kind)
    }

    fn is_html(&self, text: &str) -> bool {
        match self.essence.as_str() {
            "text/html" | "application/xhtml+xml" => true,
            "" => text.trim_start().starts_with('<'),
            _ => false,
        }
    }
}

struct Text {
    text: String,
    charset: &'static str,
    /// Whether some of it is not in its charset.
    lossy: bool,
}

/// The body as text; none where it is something else, whatever its type says.
fn text(body: &[u8], content: &ContentType, truncated: bool) -> Option<Text> {
    let charset = content.charset.or_else(|| meta_charset(body, content));
    let (decoded, charset, lossy) = charset.unwrap_or(UTF_8).decode(body);
    let mut text = decoded.into_owned();
    let mut lossy = lossy;
    if truncated && text.ends_with('\u{fffd}') {
        // A character that was cut in two.
        text.pop();
        lossy = text.contains('\u{fffd}');
    }
    let is_text = !text.contains('\0') && (content.is_text_type() || !lossy);
    is_text.then_some(Text {
        text,
        charset: charset.name(),
        lossy,
    })
}

/// What a page says of itself in a `<meta>` at its beginning.
fn meta_charset(body: &[u8], content: &ContentType) -> Option<&'static Encoding> {
    if !content.is_html("") {
        return None;
    }
    let beginning = &body[..body.len().min(1024)];
    let beginning = String::from_utf8_lossy(beginning).to_ascii_lowercase();
    let (_, after) = beginning.split_once("charset=")?;
    let label = after.trim_start_matches(['"', '\'']);
    let end = label.find(|c: char| !c.is_ascii_alphanumeric() && !"-_:".contains(c));
    Encoding::for_label(&label.as_bytes()[..end.unwrap_or(label.len())])
}
