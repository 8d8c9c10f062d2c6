//! Addresses of the web in rules: `https://docs.rs/*` is about a host, so what is compared is what would be asked, not how it is
//! spelled.

use url::Url;

use super::pattern::{matches, parent_components};

/// Whether a pattern is about addresses: what stands before its `://` fits `http` or `https`.
pub(super) fn is_pattern(pattern: &str) -> bool {
    pattern.split_once("://").is_some_and(|(scheme, _)| {
        let scheme = scheme.to_ascii_lowercase();
        matches(&scheme, "http") || matches(&scheme, "https")
    })
}

/// Whether a rule that allows addresses like the pattern fits a text. A `*` in the host stands for no end of it, and one that follows
/// the host without a `/` for what follows a `/` only: `https://docs.rs*` is not `https://docs.rs.example.com/`. Users and passwords,
/// and what some programs read as another address than others, fit nothing.
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
        // `https://*` is meant for every host.
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

/// Whether a rule that asks or denies fits the address as it would be asked, whoever asks it: with a host in lower case and in ASCII,
/// without the dot at its end, without `..`, users, passwords and needless escapes, and so on.
pub(super) fn restrict_rule_matches(pattern: &str, text: &str) -> bool {
    let Some(url) = parse_http_url(text) else {
        return false;
    };
    let asked = normalized(url.clone());
    let fits = |pattern: &str| {
        let (host, rest) = split_after_authority(pattern);
        let pattern = unescaped(&(host.to_ascii_lowercase() + rest));
        matches(&pattern, &unescaped(url.as_str())) || matches(&pattern, &asked)
    };
    fits(pattern) || normalized_pattern(pattern, &url).is_some_and(|pattern| fits(&pattern))
}

/// A pattern with its host and its path as they would be asked, where its scheme fits that of the address.
fn normalized_pattern(pattern: &str, url: &Url) -> Option<String> {
    let (scheme, address) = match pattern.split_once("://") {
        Some((scheme, address)) => (scheme.to_ascii_lowercase(), address),
        // `*example.com` is about a host, and `*.zip` need not be: it fits as it is, too.
        None => return (!pattern.contains('/')).then(|| format!("{pattern}/")),
    };
    if !matches(&scheme, url.scheme()) {
        return None;
    }
    let is_host = !address.contains(['/', '?', '#', '\\']);
    // It is parsed with the scheme of the address, as that says which port goes without saying.
    let asked = normalized(parse_http_url(&format!("{}://{address}", url.scheme()))?);
    match is_host && address.ends_with('*') {
        true => asked.strip_suffix('/').map(str::to_owned),
        false => Some(asked),
    }
}

fn normalized(mut url: Url) -> String {
    url.set_fragment(None);
    let host = url.host_str().map(|host| host.trim_end_matches('.').to_owned());
    // What has no host can't have a user either, and an address of the web has one.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let _ = url.set_host(host.as_deref());
    unescaped(url.as_str())
}

/// Without the escapes that change nothing, such as `%61` for `a`.
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

/// Up to the end of the host and its port, and from there.
fn split_after_authority(address: &str) -> (&str, &str) {
    let host = address.find("://").map_or(0, |place| place + 3);
    let end = address[host..].find(['/', '?', '#', '\\']);
    address.split_at(end.map_or(address.len(), |end| host + end))
}
