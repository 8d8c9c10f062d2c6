//! The form of a fact by which equal facts are recognized.

/// The normalized form of a fact, by which equal facts are recognized: in lower case, without final punctuation.
pub(super) fn same(text: &str) -> String {
    let text = text.trim_end_matches(['.', '!', '。', '！', ' ']);
    text.to_lowercase()
}
