//! Addresses of the web in rules: `https://docs.rs/*` is about a host, so what is compared is what would be asked, not how it is
//! spelled.

use url::Url;

use super::reading::matches;

/// Whether a pattern is about addresses.
pub(super) fn is_pattern(pattern: &str) -> bool {
    pattern.starts_with("https://") || pattern.starts_with("http://")
}

/// Whether a rule that allows addresses like the pattern fits a text. A `*` in the host stands for no end of it, and one that follows
/// the host without a `/` for what follows a `/` only: `https://docs.rs*` is not `https://docs.rs.example.com/`. Users and passwords,
/// and what some programs read as another address than others, fit nothing.
pub(super) fn allows(pattern: &str, text: &str) -> bool {
    let is_ambiguous = |c: char| c == '\\' || c.is_whitespace() || c.is_control();
    let Some(url) = parsed(text).filter(|_| !text.contains(is_ambiguous)) else {
        return false;
    };
    if !url.username().is_empty() || url.password().is_some() {
        return false;
    }
    let (wanted_host, wanted_rest) = halves(pattern);
    let (wanted_host, wanted_rest) = match (wanted_host.strip_suffix('*'), wanted_rest) {
        // `https://*` is meant for every host.
        (Some(scheme), "") if scheme.ends_with('/') => (wanted_host, "*"),
        (Some(host), "") => (host, "*"),
        (None, "") => (wanted_host, "/"),
        (_, rest) => (wanted_host, rest),
    };
    let (host, rest) = halves(url.as_str());
    matches(&wanted_host.to_ascii_lowercase(), host) && matches(wanted_rest, rest)
}

/// Whether a rule that asks or denies fits the address as it would be asked: with a lower-case host, without `..`, and so on.
pub(super) fn holds_back(pattern: &str, text: &str) -> bool {
    let (host, rest) = halves(pattern);
    let pattern = host.to_ascii_lowercase() + rest;
    parsed(text).is_some_and(|url| matches(&pattern, url.as_str()))
}

fn parsed(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    matches!(url.scheme(), "http" | "https").then_some(url)
}

/// Up to the end of the host and its port, and from there.
fn halves(address: &str) -> (&str, &str) {
    let host = address.find("://").map_or(0, |place| place + 3);
    let end = address[host..].find(['/', '?', '#', '\\']);
    address.split_at(end.map_or(address.len(), |end| host + end))
}
