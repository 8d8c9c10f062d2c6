//! Matching of URLs in rules. URLs are compared in normalised form, so that a pattern such as `https://docs.rs/*` matches every spelling of
//! a host.

use url::Url;

use super::pattern::{matches, parent_components};

/// Returns true if the pattern is for URLs: its scheme part matches `http` or `https`.
pub(super) fn is_pattern(pattern: &str) -> bool {
    pattern.split_once("://").is_some_and(|(scheme, _)| {
        let scheme = scheme.to_ascii_lowercase();
        matches(&scheme, "http") || matches(&scheme, "https")
    })
}

/// Returns true if the URL pattern of an `allow` rule matches the text. A `*` in the host does not match across the end of the host, and a
/// `*` directly after the host matches only the path: `https://docs.rs*` does not match `https://docs.rs.example.com/`. A URL matches
/// nothing if it contains a user name or password, or if programs may interpret it in different ways.
pub(super) fn allow_rule_matches(pattern: &str, text: &str) -> bool {
    let is_ambiguous = |c: char| c == '\\' || c.is_whitespace() || c.is_control();
    let Some(url) = parse_http_url(text).filter(|_| !text.contains(is_ambiguous)) else {
        return false;
    };
    if !url.username().is_empty() || url.password().is_some() {
        return false;
    }
    let (wanted_host, wanted_rest) = split_after_authority(pattern);
    let (wanted_host, wanted_rest) = match (wanted_host.strip_suffix('*'), wanted_rest) {
        // `https://*` matches every host.
        (Some(scheme), "") if scheme.ends_with('/') => (wanted_host, "*"),
        (Some(host), "") => (host, "*"),
        (None, "") => (wanted_host, "/"),
        (_, rest) => (wanted_host, rest),
    };
    let (host, rest) = split_after_authority(url.as_str());
    matches(&wanted_host.to_ascii_lowercase(), host)
        && matches(wanted_rest, rest)
        && parent_components(wanted_rest) == parent_components(rest)
}

/// Returns true if the pattern of an `ask` or `deny` rule matches the text as a URL, after normalisation: host in lowercase ASCII without a
/// trailing dot; no `..`, user name, password or unnecessary escapes.
pub(super) fn restrict_rule_matches(pattern: &str, text: &str) -> bool {
    let Some(url) = parse_http_url(text) else {
        return false;
    };
    let normalized_url = normalized(url.clone());
    let fits = |pattern: &str| {
        let (host, rest) = split_after_authority(pattern);
        let pattern = unescaped(&(host.to_ascii_lowercase() + rest));
        matches(&pattern, &unescaped(url.as_str())) || matches(&pattern, &normalized_url)
    };
    fits(pattern) || normalized_pattern(pattern, &url).is_some_and(|pattern| fits(&pattern))
}

/// Normalises the host and path of the pattern. Returns `None` if the pattern's scheme does not match the scheme of the URL.
fn normalized_pattern(pattern: &str, url: &Url) -> Option<String> {
    let (scheme, address) = match pattern.split_once("://") {
        Some((scheme, address)) => (scheme.to_ascii_lowercase(), address),
        // A pattern without a scheme may be for a host (`*example.com`) or not (`*.zip`); the caller also matches the unchanged pattern.
        None => return (!pattern.contains('/')).then(|| format!("{pattern}/")),
    };
    if !matches(&scheme, url.scheme()) {
        return None;
    }
    let is_host = !address.contains(['/', '?', '#', '\\']);
    // Parse with the scheme of the URL, because it determines the default port.
    let normalized_pattern = normalized(parse_http_url(&format!("{}://{address}", url.scheme()))?);
    match is_host && address.ends_with('*') {
        true => normalized_pattern.strip_suffix('/').map(str::to_owned),
        false => Some(normalized_pattern),
    }
}

fn normalized(mut url: Url) -> String {
    url.set_fragment(None);
    let host = url.host_str().map(|host| host.trim_end_matches('.').to_owned());
    // Setting the user name, password and host cannot fail, because an HTTP URL has a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let _ = url.set_host(host.as_deref());
    unescaped(url.as_str())
}

/// Decodes unnecessary percent escapes, such as `%61` for `a`, and converts the other escapes to uppercase.
fn unescaped(address: &str) -> String {
    let mut pieces = address.split('%');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let byte = piece.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, piece.get(2..)) {
            (Some(byte), Some(after)) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                text.push(char::from(byte));
                text.push_str(after);
            }
            (Some(byte), Some(after)) => text.push_str(&format!("%{byte:02X}{after}")),
            _ => {
                text.push('%');
                text.push_str(piece);
            }
        }
    }
    text
}

fn parse_http_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    matches!(url.scheme(), "http" | "https").then_some(url)
}

/// Splits the URL after its host and port.
fn split_after_authority(address: &str) -> (&str, &str) {
    let host = address.find("://").map_or(0, |place| place + 3);
    let end = address[host..].find(['/', '?', '#', '\\']);
    address.split_at(end.map_or(address.len(), |end| host + end))
}
