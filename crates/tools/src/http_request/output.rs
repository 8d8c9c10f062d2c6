//! Rendering a response for a model.

use encoding_rs::{Encoding, UTF_8};
use reqwest::header::{self, HeaderMap};
use schemars::JsonSchema;
use serde::Deserialize;

use super::exchange::ReceivedResponse;
use super::html;
use crate::truncate::truncate_chars;

/// Headers that are not shown, because they set credentials or are meant for browsers, caches or the
/// connection.
const OMITTED_HEADERS: [&str; 23] = [
    "accept-ranges",
    "age",
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "referrer-policy",
    "transfer-encoding",
    "vary",
    "via",
    "x-content-type-options",
    "x-frame-options",
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

/// Maximum number of headers shown.
const MAX_HEADERS: usize = 40;
/// Maximum number of characters shown of a header.
const MAX_HEADER: usize = 500;

/// The form in which the body is returned: unchanged, or a web page as readable text.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BodyFormat {
    // No documentation comments here, because they would replace the list of names in the schema with a
    // longer form.
    #[default]
    Raw,
    Text,
}

/// Renders the output of a call. CPU-bound, so async code must call it on a blocking thread.
pub(super) fn render(response: &ReceivedResponse, redirects: &[String], format: BodyFormat) -> String {
    let mut lines = redirects.to_vec();
    lines.push(format!("{} {}", response.status, response.url));
    lines.extend(headers(&response.headers));
    let content_type = header_text(&response.headers, &header::CONTENT_TYPE).unwrap_or_default();
    let content = ContentType::parse(&content_type);
    let bytes = response.body.len();
    if response.truncated {
        lines.push(format!(
            "Note: the body is incomplete: {bytes} bytes of it were read"
        ));
    }
    let body = match text(&response.body, &content, response.truncated) {
        Some(text) => {
            if text.lossy {
                lines.push(format!(
                    "Note: parts of the body are not valid {}; each is replaced by `\u{fffd}`",
                    text.charset
                ));
            }
            match format {
                BodyFormat::Text if content.is_html(&text.text) => html::text(&text.text),
                BodyFormat::Text | BodyFormat::Raw => text.text,
            }
        }
        None => {
            lines.push(format!(
                "Note: the body is not shown, because it is not text but `{}`, {bytes} bytes",
                content.essence
            ));
            String::new()
        }
    };
    let head = lines.join("\n");
    match body.is_empty() {
        true => head,
        false => format!("{head}\n\n{body}"),
    }
}

/// Returns the headers to show. The values of a repeated header are joined by commas.
fn headers(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let useful = headers
        .keys()
        .filter(|name| !OMITTED_HEADERS.contains(&name.as_str()));
    useful.take(MAX_HEADERS).filter_map(|name| {
        let text = truncate_chars(&header_text(headers, name)?, MAX_HEADER);
        Some(format!("{name}: {text}"))
    })
}

fn header_text(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    let values = headers.get_all(name).iter();
    let values: Vec<_> = values
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// A parsed `Content-Type`.
struct ContentType {
    /// The media type without parameters, in lowercase: `text/html`. Empty without a `Content-Type`.
    essence: String,
    /// `None` if missing or unknown.
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
    /// Whether parts of the body are invalid in the charset.
    lossy: bool,
}

/// Decodes the body as text. Returns `None` if it contains NUL, or if it neither has a text media type nor is valid in its charset.
fn text(body: &[u8], content: &ContentType, truncated: bool) -> Option<Text> {
    let charset = content.charset.or_else(|| meta_charset(body, content));
    let (decoded, charset, lossy) = charset.unwrap_or(UTF_8).decode(body);
    let mut text = decoded.into_owned();
    let mut lossy = lossy;
    if truncated && text.ends_with('\u{fffd}') {
        // Truncation has split the last character.
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

/// Returns the charset that an HTML page names in a `<meta>` element at its beginning.
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
