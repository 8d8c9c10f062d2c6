//! Splitting of the user's words into tokens, also where Chinese characters stand next to other words without a space.

use dirigent_core::text::is_han;

use super::lexicon::Lexicon;
use crate::words::words;

/// A word, a Chinese phrase or a quoted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub text: String,
    pub quoted: bool,
    /// Whether the token is accounted for: it is a value, or belongs to one.
    pub used: bool,
}

/// Pairs of quotes, with the pair that [`words`] understands.
const QUOTES: [(char, char, &str, &str); 6] = [
    ('"', '"', "\"", "\""),
    ('`', '`', "`", "`"),
    ('“', '”', "“", "”"),
    ('「', '」', "“", "”"),
    ('『', '』', "“", "”"),
    ('《', '》', "“", "”"),
];

/// Splits the user's words into tokens. Chinese text is split into phrases of the lexicon.
pub(super) fn tokens(text: &str, lexicon: &Lexicon) -> Vec<Token> {
    let mut tokens = Vec::new();
    for word in words(&spaced(text)) {
        let token = |text: &str| Token {
            text: text.to_owned(),
            quoted: !word.is_plain(),
            used: false,
        };
        if word.is_plain() && word.text.starts_with(is_han) {
            tokens.extend(lexicon.phrases(&word.text).into_iter().map(token));
        } else if let Some((key, value)) = word.text.split_once(':')
            && word.is_plain()
            && lexicon.is_parameter(key)
            && !value.is_empty()
        {
            tokens.extend([token(key), token(value)]);
        } else {
            tokens.push(token(&word.text));
        }
    }
    tokens
}

/// Separates Chinese characters from other words by spaces, and replaces Chinese punctuation and quotes outside of quoted text.
fn spaced(text: &str) -> String {
    let mut spaced = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let quoted = QUOTES.iter().find(|(opening, ..)| *opening == c);
        if let Some((_, closing, left, right)) = quoted
            && let Some((inside, outside)) = after.split_once(*closing)
            && !inside.is_empty()
        {
            spaced.extend([" ", left, inside, right]);
            if outside.starts_with(is_han) {
                spaced.push(' ');
            }
            rest = outside;
            continue;
        }
        let last = spaced.chars().next_back();
        let is_joint = last.is_some_and(|last| !last.is_whitespace() && is_han(last) != is_han(c));
        match c {
            '，' | '。' | '！' | '？' | '；' | '：' | '、' | '（' | '）' | '\u{3000}' => {
                spaced.push(' ')
            }
            _ => {
                if is_joint && !c.is_whitespace() {
                    spaced.push(' ');
                }
                spaced.push(c);
            }
        }
        rest = after;
    }
    spaced
}
