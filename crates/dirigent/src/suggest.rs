//! Hints for mistyped names.

/// Jaro-Winkler similarity above which a name is suggested.
const MIN_SIMILARITY: f64 = 0.75;

/// Returns the name that is most similar to the mistyped name; `None` if no name is similar.
pub(crate) fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let similarity = |name: &str| strsim::jaro_winkler(wrong, name);
    names
        .into_iter()
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
        .filter(|name| similarity(name) > MIN_SIMILARITY)
}

/// Returns a hint that names the most similar name, or all names if none is similar.
pub(crate) fn hint<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(wrong, names.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("available: {}", names.into_iter().collect::<Vec<_>>().join(", ")),
    }
}
