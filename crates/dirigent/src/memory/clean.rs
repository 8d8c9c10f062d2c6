//! The normalized form of facts, which is compared to find equal facts.

/// Returns the normalized form of a fact, which is the same for equal facts: lowercase, without final punctuation.
pub(super) fn same(text: &str) -> String {
    let text = text.trim_end_matches(['.', '!', '。', '！', ' ']);
    text.to_lowercase()
}
