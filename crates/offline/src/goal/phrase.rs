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

    /// Consumes the longest of the wordings with which the phrase begins. Returns true if one matched.
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

    /// Consumes a name or a text, and the words of `kinds` before it, which describe it. A word of `kinds` is itself the name if a place, one
    /// of `ends` or the end of the sentence follows.
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
        // An unclosed quote, or an empty quoted text.
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
