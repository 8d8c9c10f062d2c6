//! A cursor over the words of a sentence.

use super::grammar::SCOPE_OPENINGS;
use crate::words::{Quoting, Word};

/// The remaining words of a sentence. Consumed words count as understood.
#[derive(Clone, Copy)]
pub(super) struct Phrase<'a> {
    rest: &'a [Word],
}

impl<'a> Phrase<'a> {
    pub fn new(words: &'a [Word]) -> Self {
        Phrase { rest: words }
    }

    /// Returns the next word without consuming it.
    pub fn peek(&self) -> Option<&'a Word> {
        self.rest.first()
    }

    /// Consumes the next word.
    pub fn take(&mut self) -> Option<&'a Word> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Consumes the longest wording that the phrase begins with. Returns true if one matched.
    pub fn eat(&mut self, wordings: &[&str]) -> bool {
        let length = wordings
            .iter()
            .filter_map(|wording| self.starts_with(wording))
            .max();
        self.rest = &self.rest[length.unwrap_or(0)..];
        length.is_some()
    }

    /// Consumes wordings as long as the phrase begins with one of them.
    pub fn eat_all(&mut self, wordings: &[&str]) {
        while self.eat(wordings) {}
    }

    /// Returns true if the phrase begins with one of the wordings.
    fn at(&self, wordings: &[&str]) -> bool {
        wordings.iter().any(|wording| self.starts_with(wording).is_some())
    }

    /// Returns the number of words in the wording if the phrase begins with it.
    fn starts_with(&self, wording: &str) -> Option<usize> {
        let mut length = 0;
        for part in wording.split(' ') {
            self.rest.get(length).filter(|word| word.is_any(&[part]))?;
            length += 1;
        }
        Some(length)
    }

    /// Consumes a name or a string, with any words of `kinds` before it ("the function"). A word of `kinds` is itself the name if it is
    /// followed by a scope clause, by one of `ends` or by the end of the sentence.
    pub fn take_name(&mut self, kinds: &[&str], ends: &[&str]) -> Option<&'a Word> {
        let mut skipped = false;
        loop {
            let after = Phrase {
                rest: self.rest.get(1..)?,
            };
            let is_last = after.rest.is_empty() || after.at(ends) || after.at(SCOPE_OPENINGS);
            if !self.at(kinds) || is_last {
                break;
            }
            skipped = true;
            self.take();
        }
        // "the method" has no name.
        if skipped && self.at(kinds) {
            return None;
        }
        let name = self.take()?;
        // The name begins with an unclosed quote, or is an empty quoted text.
        let is_broken = name.is_plain() && name.text.starts_with(['"', '\'', '`', '“', '‘', '«']);
        (!is_broken).then_some(name)
    }

    /// Consumes a quoted text.
    pub fn take_quoted(&mut self) -> Option<&'a Word> {
        match self.peek()?.quoting {
            Quoting::Quoted => self.take(),
            Quoting::Plain => None,
        }
    }

    /// Returns true if no words remain, except "and" and "please".
    pub fn is_finished(mut self) -> bool {
        self.eat_all(&["and", "please"]);
        self.rest.is_empty()
    }
}
