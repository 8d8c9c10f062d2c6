//! The text of a fact: on one line, without what cannot be seen.

use dirigent_core::text::is_invisible;

/// The text on one line: white space becomes single spaces, control characters and invisible ones are removed.
pub(super) fn one_line(text: &str) -> String {
    let visible: String = text
        .chars()
        .filter(|c| c.is_whitespace() || !(c.is_control() || is_invisible(*c)))
        .collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text by which two facts are the same: in lower case, without the punctuation at its end.
pub(super) fn same(text: &str) -> String {
    let text = text.trim_end_matches(['.', '!', '。', '！', ' ']);
    text.to_lowercase()
}
