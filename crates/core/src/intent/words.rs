//! The tokens of a message, with each quotation as one token, and phrase matching.

use std::ops::Range;

use super::language::all;
use super::quotes::quoted_ranges;
use crate::text::{is_han, is_invisible};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A word or number in a script that uses spaces, including inner apostrophes, hyphens, dots and underscores.
    Word,
    /// One Chinese character.
    Han,
    /// Quoted text or code, whatever it contains.
    Quoted,
    /// Punctuation that ends a clause.
    Break,
    /// Any other visible character.
    Symbol,
}

/// A token of a message.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    /// The text in lowercase and half width; for a quotation, the text within its marks.
    pub(super) text: String,
    /// Byte range in the message.
    span: Range<usize>,
}

/// A message and its tokens.
pub(super) struct Words<'a> {
    source: &'a str,
    tokens: Vec<Token>,
}

impl<'a> Words<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Words {
            source,
            tokens: tokens(source),
        }
    }

    pub(super) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn kind(&self, at: usize) -> Option<TokenKind> {
        self.tokens.get(at).map(|token| token.kind)
    }

    /// The text of a token; empty after the last one.
    pub(super) fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text.as_str())
    }

    /// Returns true if the tokens contain more than punctuation.
    pub(super) fn has_content(&self, range: Range<usize>) -> bool {
        let tokens = self.tokens.get(range).unwrap_or_default();
        tokens.iter().any(|token| token.kind != TokenKind::Break)
    }

    /// The message's text from the first to the last of these tokens, as written.
    pub(super) fn written(&self, range: Range<usize>) -> &'a str {
        match self.tokens.get(range) {
            Some([first, .., last]) => &self.source[first.span.start..last.span.end],
            Some([only]) => &self.source[only.span.clone()],
            Some([]) | None => "",
        }
    }

    /// The message's text from a token to the end, as written.
    pub(super) fn written_from(&self, at: usize) -> &'a str {
        let start = self
            .tokens
            .get(at)
            .map_or(self.source.len(), |token| token.span.start);
        self.source[start..].trim_end()
    }

    /// The whole message, as written.
    pub(super) fn source(&self) -> &'a str {
        self.source.trim()
    }

    /// Returns the ranges at which these words occur in a row, outside of quotes. None if `phrase` has no content.
    pub(super) fn occurrences(&self, phrase: &Words<'_>) -> impl Iterator<Item = Range<usize>> {
        let starts = match phrase.has_content(0..phrase.len()) {
            true => self.len().saturating_sub(phrase.len().saturating_sub(1)),
            false => 0,
        };
        let is_at = move |at: usize| {
            (0..phrase.len()).all(|offset| {
                self.text(at + offset) == phrase.text(offset)
                    && self.kind(at + offset) != Some(TokenKind::Quoted)
            })
        };
        (0..starts)
            .filter(move |at| is_at(*at))
            .map(|at| at..at + phrase.len())
    }

    /// Returns the index after the phrase if the phrase starts at this token. Phrases are lowercase, with a space between words.
    pub(super) fn phrase_at(&self, mut at: usize, phrase: &str) -> Option<usize> {
        let mut rest = phrase;
        while !rest.is_empty() {
            let token = self.tokens.get(at)?;
            match token.kind {
                TokenKind::Word | TokenKind::Han | TokenKind::Symbol => {}
                TokenKind::Quoted | TokenKind::Break => return None,
            }
            rest = rest.strip_prefix(token.text.as_str())?;
            rest = match rest.strip_prefix(' ') {
                Some(rest) => rest,
                None if token.kind == TokenKind::Word && !rest.is_empty() && !rest.starts_with(is_han) => {
                    return None;
                }
                None => rest,
            };
            at += 1;
        }
        Some(at)
    }

    /// The index after the longest phrase that starts at this token.
    pub(super) fn longest_at<'p>(
        &self,
        at: usize,
        phrases: impl IntoIterator<Item = &'p &'static str>,
    ) -> Option<usize> {
        self.longest_in(at..self.len(), phrases)
    }

    /// The index after the longest phrase that starts at the range's start and ends within it.
    pub(super) fn longest_in<'p>(
        &self,
        range: Range<usize>,
        phrases: impl IntoIterator<Item = &'p &'static str>,
    ) -> Option<usize> {
        let ends = phrases
            .into_iter()
            .filter_map(|phrase| self.phrase_at(range.start, phrase));
        ends.filter(|end| *end <= range.end).max()
    }

    /// Skips punctuation and any of the phrases.
    pub(super) fn skip<'p>(
        &self,
        mut at: usize,
        phrases: impl IntoIterator<Item = &'p &'static str> + Clone,
    ) -> usize {
        loop {
            if self.kind(at) == Some(TokenKind::Break) {
                at += 1;
            } else if let Some(end) = self.longest_at(at, phrases.clone()) {
                at = end;
            } else {
                return at;
            }
        }
    }

    /// The range of the first match of any of the phrases.
    pub(super) fn find<'p>(
        &self,
        range: Range<usize>,
        phrases: impl IntoIterator<Item = &'p &'static str> + Clone,
    ) -> Option<Range<usize>> {
        range
            .into_iter()
            .find_map(|at| self.longest_at(at, phrases.clone()).map(|end| at..end))
    }

    /// The non-empty ranges of tokens between punctuation.
    pub(super) fn clauses(&self) -> Vec<Range<usize>> {
        let mut clauses = Vec::new();
        let mut start = 0;
        for at in 0..=self.len() {
            if at == self.len() || self.kind(at) == Some(TokenKind::Break) {
                if at > start {
                    clauses.push(start..at);
                }
                start = at + 1;
            }
        }
        clauses
    }

    /// Returns true if the message ends with a question mark or a question particle.
    pub(super) fn is_question(&self) -> bool {
        let backwards = || self.tokens.iter().rev();
        let mut breaks = backwards().take_while(|token| token.kind == TokenKind::Break);
        let is_marked = breaks.any(|token| token.text == "?");
        let last = backwards().find(|token| token.kind != TokenKind::Break);
        is_marked
            || last.is_some_and(|token| all(|language| language.question_ends).any(|end| *end == token.text))
    }
}

/// The half-width or plain form of a character that has several forms.
fn plain(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{3000}' => ' ',
        '。' | '…' | '｡' => '.',
        '’' | 'ʼ' => '\'',
        '—' | '–' | '―' => '—',
        other => other,
    }
}

fn is_word(c: char) -> bool {
    (c.is_alphanumeric() || c == '_') && !is_han(c)
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '.' | ',' | ';' | ':' | '!' | '?' | '、' | '—')
}

/// Returns true for punctuation without meaning for the intent: brackets, emphasis, headings.
fn is_dropped(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || is_invisible(c)
        || matches!(
            c,
            '(' | ')' | '[' | ']' | '【' | '】' | '*' | '#' | '~' | '"' | '\'' | '\u{fe0f}' | '\u{1f3fb}'
                ..='\u{1f3ff}'
        )
}

fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<(usize, char)> = source.char_indices().map(|(at, c)| (at, plain(c))).collect();
    let byte = |at: usize| chars.get(at).map_or(source.len(), |(byte, _)| *byte);
    let mut quoted = quoted_ranges(&chars).into_iter().peekable();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&(_, c)) = chars.get(at) {
        let (kind, end) = if let Some(range) = quoted.next_if(|range| range.start == at) {
            (TokenKind::Quoted, range.end)
        } else if is_break(c) || c == '-' && chars.get(at + 1).is_none_or(|(_, next)| next.is_whitespace()) {
            (TokenKind::Break, at + 1)
        } else if is_dropped(c) {
            at += 1;
            continue;
        } else if is_han(c) {
            (TokenKind::Han, at + 1)
        } else if is_word(c) {
            (TokenKind::Word, word_end(&chars, at))
        } else {
            (TokenKind::Symbol, at + 1)
        };
        // A word ends before a quotation.
        let end = quoted.peek().map_or(end, |range| end.min(range.start));
        let inner = chars[at..end].iter().map(|(_, c)| *c);
        let text: String = inner.flat_map(char::to_lowercase).collect();
        let text = match kind {
            TokenKind::Quoted => text.trim_matches(is_quote_edge).to_owned(),
            TokenKind::Word | TokenKind::Han | TokenKind::Break | TokenKind::Symbol => text,
        };
        let span = byte(at)..byte(end);
        tokens.push(Token { kind, text, span });
        at = end;
    }
    tokens
}

fn is_quote_edge(c: char) -> bool {
    c.is_whitespace() || "\"'`“”‘’「」『』«»《》>~".contains(c)
}

/// The end of the word that starts at this character. Apostrophes, hyphens and dots belong to the word if they join two parts of it.
fn word_end(chars: &[(usize, char)], start: usize) -> usize {
    let is = |at: usize| chars.get(at).is_some_and(|(_, c)| is_word(*c));
    let mut at = start;
    while is(at) || at > start && is(at + 1) && matches!(chars[at].1, '\'' | '-' | '.') && is(at - 1) {
        at += 1;
    }
    at
}
