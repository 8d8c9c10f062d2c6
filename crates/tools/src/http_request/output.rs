//! Rendering a response for a model.

use encoding_rs::{Encoding, UTF_8};
use reqwest::header::{self, HeaderMap};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::exchange::ReceivedResponse;
use super::html;
use crate::truncate::truncate_chars;

/// Headers that are not shown: they set credentials or are meant for browsers.
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

/// Maximum number of headers shown.
const MAX_HEADERS: usize = 40;
/// Maximum number of characters shown of a header.
const MAX_HEADER: usize = 500;

/// The form in which the body is returned.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BodyFormat {
    /// The body unchanged.
    #[default]
    Raw,
    /// A web page as readable text; any other body unchanged.
    Text,
}

/// Renders the output of a call. CPU-bound, so async code must call it on a blocking thread.
pub(super) fn render(response: &ReceivedResponse, redirects: &[Value], format: BodyFormat) -> Value {
    let mut output = json!({
        "status": response.status.as_u16(),
        "url": response.url.as_str(),
        "headers": headers(&response.headers),
    });
    let content_type = header_text(&response.headers, &header::CONTENT_TYPE).unwrap_or_default();
    let content = ContentType::parse(&content_type);
    match text(&response.body, &content, response.truncated) {
        Some(text) => {
            output["body"] = match format {
                BodyFormat::Text if content.is_html(&text.text) => html::text(&text.text).into(),
                BodyFormat::Text | BodyFormat::Raw => text.text.into(),
            };
            if text.lossy {
                output["lossy"] = json!(format!(
                    "parts of the body are not valid {}; each is replaced by `\u{fffd}`",
                    text.charset
                ));
            }
        }
        None => output["not_shown"] = json!(format!("the body is not text but `{}`", content.essence)),
    }
    output["truncated"] = response.truncated.into();
    output["bytes"] = response.body.len().into();
    output["redirects"] = redirects.into();
    output
}

/// Returns the headers to show, by name. The values of a repeated header are joined by commas.
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

/// A parsed `Content-Type`.
struct ContentType {
    /// The media type without parameters, in lower case: `text/html`. Empty without a `Content-Type`.
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
