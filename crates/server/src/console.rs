//! The console: a page for browsers and its files, which are part of the program. `console/README.md` describes them.
//!
//! The files contain no data and need no session. Without a session, a browser gets a page that tells how to sign in instead of the console.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::sync::{LazyLock, OnceLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, VARY, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::RustEmbed;

use crate::problem::Problem;
use crate::service::Service;

/// The first part of the addresses that answer with the page, besides `/`.
const PAGES: [&str; 10] = [
    "waiting",
    "runs",
    "chats",
    "workflows",
    "services",
    "agents",
    "prompts",
    "memory",
    "usage",
    "settings",
];

/// The page and its files load nothing from elsewhere, run no inline script, and are never framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(RustEmbed)]
#[folder = "console"]
#[exclude = "README.md"]
struct Embedded;

static FILES: LazyLock<HashMap<Cow<'static, str>, ConsoleFile>> = LazyLock::new(|| {
    let names = Embedded::iter();
    names
        .filter_map(|name| Some((name.clone(), ConsoleFile::load(&name)?)))
        .collect()
});

/// A file of the console.
struct ConsoleFile {
    content: Bytes,
    media_type: &'static str,
    /// Names the content, whether it is compressed or not.
    etag: HeaderValue,
    /// The compressed content; made for the first request that accepts it.
    compressed: OnceLock<Option<Bytes>>,
}

impl ConsoleFile {
    fn load(name: &str) -> Option<Self> {
        let file = Embedded::get(name)?;
        let hash = file.metadata.sha256_hash();
        let digits: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        Some(ConsoleFile {
            content: match file.data {
                Cow::Borrowed(content) => Bytes::from_static(content),
                Cow::Owned(content) => content.into(),
            },
            media_type: media_type(name),
            etag: HeaderValue::from_str(&format!("W/\"{digits}\"")).ok()?,
            compressed: OnceLock::new(),
        })
    }

    fn compressed(&self) -> Option<Bytes> {
        let made = self.compressed.get_or_init(|| gzip(&self.content).ok());
        made.clone()
    }

    /// Answers with the content, unless the browser has it already.
    fn answer(&self, status: StatusCode, asked: &HeaderMap) -> Response {
        let common = [
            (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
            (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
            // A browser asks each time whether the file has changed, as an update of the program changes it.
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (VARY, HeaderValue::from_static("accept-encoding")),
            (ETAG, self.etag.clone()),
        ];
        if status == StatusCode::OK && has_etag(asked, &self.etag) {
            return (StatusCode::NOT_MODIFIED, common).into_response();
        }
        let media_type = [(CONTENT_TYPE, self.media_type)];
        match accepts_gzip(asked).then(|| self.compressed()).flatten() {
            Some(compressed) => {
                let encoding = [(CONTENT_ENCODING, "gzip")];
                (status, common, media_type, encoding, compressed).into_response()
            }
            None => (status, common, media_type, self.content.clone()).into_response(),
        }
    }
}

/// The addresses of the console, except `/`, where browsers sign in.
pub(crate) fn router() -> Router<Service> {
    let files = Router::new().route("/console/{*name}", get(file));
    PAGES.iter().fold(files, |router, name| {
        router
            .route(&format!("/{name}"), get(page))
            .route(&format!("/{name}/"), get(page))
            .route(&format!("/{name}/{{*rest}}"), get(page))
    })
}

/// Returns true for addresses whose answer has no data, so that it needs no session.
pub(crate) fn is_file(path: &str) -> bool {
    path.starts_with("/console/")
}

/// The page for each of its addresses: what it shows depends on the address, which its scripts read.
pub(crate) async fn page(headers: HeaderMap) -> Response {
    answer_with("index.html", StatusCode::OK, &headers)
}

/// `GET /console/{name}`
async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    answer_with(&name, StatusCode::OK, &headers)
}

fn answer_with(name: &str, status: StatusCode, headers: &HeaderMap) -> Response {
    match FILES.get(name) {
        Some(file) => file.answer(status, headers),
        None => Problem::unknown_address().into_response(),
    }
}

/// Answers a refused request: a browser that opens a page is told what to do, on a page without scripts.
pub(crate) fn refusal(problem: Problem, path: &str, headers: &HeaderMap) -> Response {
    let name = match problem.status() {
        StatusCode::UNAUTHORIZED => "signed-out.html",
        StatusCode::FORBIDDEN => "from-elsewhere.html",
        _ => return problem.into_response(),
    };
    match is_page(path) && names(headers, &ACCEPT).any(|media_type| media_type == "text/html") {
        true => answer_with(name, problem.status(), headers),
        false => problem.into_response(),
    }
}

fn is_page(path: &str) -> bool {
    let first = path.split('/').nth(1).unwrap_or_default();
    path == "/" || PAGES.contains(&first)
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// The values of a header that is a list, without their parameters. A value with a quality of zero is left out.
fn names<'a>(headers: &'a HeaderMap, header: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lists = headers.get_all(header).into_iter();
    let values = lists
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','));
    values.filter_map(|value| {
        let mut parts = value.split(';').map(str::trim);
        let name = parts.next()?;
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        let is_refused = quality.is_some_and(|quality| quality.parse() == Ok(0.0));
        (!is_refused).then_some(name)
    })
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    names(headers, &ACCEPT_ENCODING).any(|encoding| encoding.eq_ignore_ascii_case("gzip") || encoding == "*")
}

/// Returns true if the browser has this version of a file. The comparison is weak, as RFC 9110 asks for here.
fn has_etag(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let opaque = |etag: &str| etag.trim().trim_start_matches("W/").to_owned();
    let known = etag.to_str().map(opaque).unwrap_or_default();
    names(headers, &IF_NONE_MATCH).any(|sent| sent == "*" || opaque(sent) == known)
}

fn gzip(content: &[u8]) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    Ok(encoder.finish()?.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Modules that the page names are fetched at once, instead of one after the other.
    #[test]
    fn host_5_the_page_names_every_module() {
        let page = Embedded::get("index.html").unwrap();
        let page = std::str::from_utf8(&page.data).unwrap();
        for name in Embedded::iter().filter(|name| name.ends_with(".js")) {
            assert!(page.contains(&format!("\"/console/{name}\"")), "{name}");
        }
    }

    #[test]
    fn an_encoding_is_accepted_unless_its_quality_is_zero() {
        for (sent, expected) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, GZIP;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("br, gzip;q=0.0", false),
            ("identity", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(sent))]);
            assert_eq!(accepts_gzip(&headers), expected, "{sent}");
        }
    }
}
