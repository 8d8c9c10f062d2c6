//! Detection of strings in a few lines of code, and of quotes in a line of text.
//!
//! This module is not a parser: it recognizes only Rust's literals, because it is used only for documentation tests.

/// Consecutive lines of code from a file, with their line numbers. The lines may begin with comment markers such as `///`.
pub(crate) struct Code<'a> {
    lines: Vec<(u64, &'a str)>,
}

impl<'a> Code<'a> {
    pub fn new(lines: impl Iterator<Item = (u64, &'a str)>) -> Self {
        Code {
            lines: lines.collect(),
        }
    }

    /// Returns true if the code contains the line with this number.
    pub fn contains_line(&self, line: u64) -> bool {
        self.lines.iter().any(|(number, _)| *number == line)
    }
}

/// The lexer's state: the kind of literal around the current character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LexerState {
    Code,
    /// A string with escapes.
    String,
    /// A raw string with this number of `#`.
    Raw(usize),
}

/// Returns true if the character at a column (from 1) of a line is in a string, or in a comment within the code.
pub(crate) fn is_in_string(code: &Code<'_>, line: u64, column: usize) -> bool {
    let mut state = LexerState::Code;
    for (number, text) in &code.lines {
        let target = (*number == line).then(|| column.saturating_sub(1));
        let (in_string, end) = in_line(text, state, target);
        if *number == line {
            return in_string;
        }
        state = end;
    }
    false
}

/// Returns whether the character at the index `target` is in a string or comment, and the state at the end of the line.
fn in_line(text: &str, start: LexerState, target: Option<usize>) -> (bool, LexerState) {
    let chars: Vec<char> = text.chars().collect();
    let mut at = comment_mark(&chars);
    let mut state = start;
    let is_target = |from: usize, to: usize| target.is_some_and(|target| (from..to).contains(&target));
    while let Some(&character) = chars.get(at) {
        let begin = at;
        match state {
            LexerState::Code if starts(&chars, at, "//") => return (is_target(begin, chars.len()), state),
            LexerState::Code => match character {
                '"' => {
                    state = match hashes_before(&chars, at) {
                        Some(hashes) => LexerState::Raw(hashes),
                        None => LexerState::String,
                    };
                    at += 1;
                }
                '\'' => {
                    at = after_char(&chars, at);
                    if at > begin + 1 && is_target(begin, at) {
                        return (true, state);
                    }
                }
                _ => at += 1,
            },
            LexerState::String => {
                at += if character == '\\' { 2 } else { 1 };
                if is_target(begin, at) {
                    return (true, state);
                }
                if character == '"' {
                    state = LexerState::Code;
                }
            }
            LexerState::Raw(hashes) => {
                at += 1;
                if is_target(begin, at) {
                    return (true, state);
                }
                if character == '"' && (0..hashes).all(|next| chars.get(at + next) == Some(&'#')) {
                    at += hashes;
                    state = LexerState::Code;
                }
            }
        }
    }
    (false, state)
}

/// Returns the position of the code in a comment line: after `///`, `//!` or `*`; 0 for other lines.
fn comment_mark(chars: &[char]) -> usize {
    let indent = chars
        .iter()
        .take_while(|character| character.is_whitespace())
        .count();
    let mark = ["///", "//!", "*"]
        .into_iter()
        .find(|mark| starts(chars, indent, mark));
    mark.map_or(0, |mark| indent + mark.len())
}

fn starts(chars: &[char], at: usize, mark: &str) -> bool {
    let mut target = mark.chars();
    chars.get(at..).is_some_and(|rest| {
        let mut rest = rest.iter();
        target.all(|character| rest.next() == Some(&character))
    })
}

/// Returns the number of `#` before the quote of a raw string; `None` for other strings.
fn hashes_before(chars: &[char], quote: usize) -> Option<usize> {
    let before = chars.get(..quote)?;
    let hashes = before
        .iter()
        .rev()
        .take_while(|character| **character == '#')
        .count();
    let prefix = before.get(..before.len() - hashes)?;
    let is_word = |character: &char| character.is_alphanumeric() || *character == '_';
    let word: String = prefix
        .iter()
        .rev()
        .take_while(|character| is_word(character))
        .collect();
    matches!(word.as_str(), "r" | "rb" | "rc").then_some(hashes)
}

/// Returns the position after a character literal, or after the quote if it begins a lifetime.
fn after_char(chars: &[char], quote: usize) -> usize {
    if chars.get(quote + 1) == Some(&'\\') {
        let close = chars
            .iter()
            .skip(quote + 3)
            .position(|character| *character == '\'');
        return close.map_or(chars.len(), |close| quote + 3 + close + 1);
    }
    if chars.get(quote + 2) == Some(&'\'') {
        return quote + 3;
    }
    quote + 1
}

/// Returns the columns (in characters, from 1) at which a word occurs in a line outside quotes. An unclosed quote, such as an apostrophe,
/// is ignored.
pub(crate) fn words_outside_quotes(line: &str, word: &str) -> Vec<usize> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let quoted = quoted(line);
    let mut columns = Vec::new();
    for (at, found) in line.match_indices(word) {
        let end = at + found.len();
        let is_whole = !line[..at].chars().next_back().is_some_and(is_part)
            && !line[end..].chars().next().is_some_and(is_part);
        if is_whole && !quoted.iter().any(|quoted| quoted.contains(&at)) {
            columns.push(line[..at].chars().count() + 1);
        }
    }
    columns
}

fn quoted(line: &str) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some((open, quote)) = line[at..]
        .char_indices()
        .find(|(_, c)| matches!(c, '"' | '\'' | '`'))
    {
        let inside = at + open + 1;
        match line[inside..].find(quote) {
            Some(close) => {
                ranges.push(inside..inside + close);
                at = inside + close + 1;
            }
            None => at = inside,
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::{Code, is_in_string, words_outside_quotes};

    /// Checks `is_in_string` for each occurrence of `old` in these lines.
    #[track_caller]
    fn check(lines: &[&str], expected: &[bool]) {
        let code = Code::new((1..).zip(lines.iter().copied()));
        let found: Vec<bool> = (1..)
            .zip(lines)
            .flat_map(|(number, line)| {
                let columns: Vec<usize> = line
                    .match_indices("old")
                    .map(|(at, _)| line[..at].chars().count() + 1)
                    .collect();
                columns.into_iter().map(move |column| (number, column))
            })
            .map(|(line, column)| is_in_string(&code, line, column))
            .collect();
        assert_eq!(found, expected, "{lines:?}");
    }

    #[test]
    fn strings_in_documentation_tests_are_distinguished_from_code() {
        check(&["/// assert_eq!(old(\"old\"), old);"], &[false, true, false]);
        check(
            &["    //! let q = '\"'; old('\\'', \"a \\\" old\");"],
            &[false, true],
        );
        check(&["/// old(r#\"a \"old\" b\"#, old)"], &[false, true, false]);
        check(
            &["/// let text = \"one", "/// old\"; old::<'a>()", "/// old // old"],
            &[true, false, false, true],
        );
        check(&["old(\"{old}\")", " * old()"], &[false, true, false]);
    }

    #[test]
    fn quoted_words_in_a_line_of_text_are_ignored() {
        assert_eq!(
            words_outside_quotes("call old('old') \"old\" `old` older old", "old"),
            [6, 35]
        );
        assert_eq!(words_outside_quotes("it isn't old", "old"), [10]);
    }
}
