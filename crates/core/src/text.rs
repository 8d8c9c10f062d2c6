//! Shortening and cleaning of text for users and models.

use std::borrow::Cow;

use serde_json::Value;

/// Minimum number of characters that shortening a string in data must save. Replacing only a few characters with a note would hide content
/// and save nothing.
const MIN_SAVED: usize = 200;

/// Returns the first sentence of a description without its full stop, as shown in lists of tools.
pub fn first_sentence(text: &str) -> &str {
    text.split_once(". ")
        .map_or(text, |(first, _)| first)
        .trim_end_matches('.')
}

/// Shortens the text to about `max` characters: keeps its beginning and end, and replaces the middle with a note that states how many
/// characters are omitted. With a `handle`, the note also states how to read the omitted text.
///
/// Text that would not become shorter is returned unchanged.
pub fn shorten<'a>(text: &'a str, max: usize, handle: Option<&str>) -> Cow<'a, str> {
    shorten_if_saves(text, max, handle, 1)
}

/// Like [`shorten`], but only text that becomes shorter by at least `min_saved` characters is shortened.
fn shorten_if_saves<'a>(text: &'a str, max: usize, handle: Option<&str>, min_saved: usize) -> Cow<'a, str> {
    // Each character has at least one byte, so if the text has at most `max` bytes, counting is unnecessary.
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let count = text.chars().count();
    if count <= max {
        return Cow::Borrowed(text);
    }
    shorten_between(text, count, (max * 2 / 3, max / 3), handle, min_saved)
}

/// Like [`shorten`], for an error: keeps as much of the end, which often says what is wrong and what to do, as of the beginning.
pub(crate) fn shorten_error<'a>(text: &'a str, max: usize, handle: Option<&str>) -> Cow<'a, str> {
    let count = text.chars().count();
    match count <= max {
        true => Cow::Borrowed(text),
        false => shorten_between(text, count, (max - max / 2, max / 2), handle, 1),
    }
}

/// Replaces the middle of a text of `count` characters with a note, if this saves at least `min_saved` characters.
fn shorten_between<'a>(
    text: &'a str,
    count: usize,
    (head, tail): (usize, usize),
    handle: Option<&str>,
    min_saved: usize,
) -> Cow<'a, str> {
    let at = |character: usize| {
        text.char_indices()
            .nth(character)
            .map_or(text.len(), |(byte, _)| byte)
    };
    let note = omission(handle);
    let left_out = count - head - tail;
    let note = format!("… [{left_out} characters left out: {note}] …");
    if left_out < note.chars().count() + min_saved {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!(
        "{}{note}{}",
        &text[..at(head)],
        &text[at(count - tail)..]
    ))
}

/// Describes how to read omitted text, or says that it cannot be read if there is no `handle`.
pub(crate) fn omission(handle: Option<&str>) -> String {
    match handle {
        Some(handle) => format!("read them with read_output, handle {handle}"),
        None => "not shown".to_owned(),
    }
}

/// Shortens every string in a JSON value to about `max` characters, as [`shorten`] does, if this saves at least 200 characters.
pub fn shorten_value(value: &Value, max: usize, handle: Option<&str>) -> Value {
    match value {
        Value::String(text) => Value::String(shorten_if_saves(text, max, handle, MIN_SAVED).into_owned()),
        Value::Array(items) => items
            .iter()
            .map(|item| shorten_value(item, max, handle))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), shorten_value(field, max, handle)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Returns the text on one line of at most `max` characters, truncated with an ellipsis.
pub fn single_line(text: &str, max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max {
        return line;
    }
    let shown: String = line.chars().take(max.saturating_sub(1)).collect();
    format!("{shown}…")
}

/// Replaces control characters with spaces, so that the text fits on one line of a list.
pub fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Returns true for invisible characters, including those that hide or reorder text.
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns true for Chinese characters, which are written without spaces between words.
pub fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

/// Returns the number that an English or Chinese word for one of 0 to 12 stands for; `None` for any other word.
pub fn number_from_word(word: &str) -> Option<u8> {
    const WORDS: [[&str; 2]; 13] = [
        ["zero", "零"],
        ["one", "一"],
        ["two", "二"],
        ["three", "三"],
        ["four", "四"],
        ["five", "五"],
        ["six", "六"],
        ["seven", "七"],
        ["eight", "八"],
        ["nine", "九"],
        ["ten", "十"],
        ["eleven", "十一"],
        ["twelve", "十二"],
    ];
    let word = word.to_lowercase();
    let number = WORDS.iter().position(|words| words.contains(&word.as_str()));
    match word.as_str() {
        "两" => Some(2),
        _ => u8::try_from(number?).ok(),
    }
}

/// Returns the text on one line: white space becomes single spaces, and control characters and invisible characters are removed.
pub fn visible_line(text: &str) -> String {
    let visible: String = text
        .chars()
        .filter(|c| c.is_whitespace() || !(c.is_control() || is_invisible(*c)))
        .collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// For the output of `read`, returns the file's line number of the first line shown: 3 for `Lines 3-4 of 9`, followed by a line that begins
/// with `3` and a tab. `None` for any other text. Parts of such an output are addressed by the file's line numbers, so that line numbers
/// mean the same everywhere.
pub fn first_numbered_line(text: &str) -> Option<usize> {
    let mut lines = text.lines();
    lines.next().filter(|line| line.starts_with("Lines "))?;
    let (number, _) = lines.next()?.split_once('\t')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paor_6_a_long_error_keeps_as_much_of_its_end_as_of_its_beginning() {
        let error = format!("failed: {}the cause is here", "x".repeat(500));
        let shortened = shorten_error(&error, 40, Some("a1.2"));
        assert_eq!(
            shortened,
            "failed: xxxxxxxxxxxx… [485 characters left out: read them with read_output, handle a1.2] …xxxthe cause is here"
        );
        assert_eq!(shorten_error("short", 40, None), "short");
    }
}
