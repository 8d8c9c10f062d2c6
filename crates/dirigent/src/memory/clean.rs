//! Normalizes the text of a fact: one line, without invisible characters.

use dirigent_core::text::is_invisible;

/// The text on one line: white space becomes single spaces, and control characters and invisible characters are removed.
pub(crate) fn one_line(text: &str) -> String {
    let visible: String = text
        .chars()
        .filter(|c| c.is_whitespace() || !(c.is_control() || is_invisible(*c)))
        .collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The normalized form of a fact, by which equal facts are recognized: in lower case, without final punctuation.
pub(super) fn same(text: &str) -> String {
    let text = text.trim_end_matches(['.', '!', '。', '！', ' ']);
    text.to_lowercase()
}
