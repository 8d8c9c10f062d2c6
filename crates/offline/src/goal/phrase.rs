//! A sentence, consumed from its beginning to its end.
//!
//! This is the one place where words count as understood. What no step has consumed is left over, and a sentence with
//! something left over is understood by nobody: half of a goal is never executed as if it were the whole.

use super::scope_clause;
use crate::scope::Scope;
use crate::words::{Quoting, Word};

/// What is left of a sentence.
#[derive(Clone, Copy)]
pub(crate) struct Phrase<'a> {
    rest: &'a [Word],
}

impl<'a> Phrase<'a> {
    pub fn new(words: &'a [Word]) -> Self {
        Phrase { rest: words }
    }

    /// The next word, left where it is.
    pub fn peek(&self) -> Option<&'a Word> {
        self.rest.first()
    }

    /// Consumes a word, whatever it is.
    pub fn take(&mut self) -> Option<&'a Word> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Consumes the longest of these wordings that comes next; says whether there was one.
    pub fn eat(&mut self, wordings: &[&str]) -> bool {
        let length = wordings
            .iter()
            .filter_map(|wording| self.starts_with(wording))
            .max();
        self.rest = &self.rest[length.unwrap_or(0)..];
        length.is_some()
    }

    /// Consumes these wordings for as long as they come.
    pub fn eat_all(&mut self, wordings: &[&str]) {
        while self.eat(wordings) {}
    }

    /// Whether one of these wordings comes next.
    pub fn at(&self, wordings: &[&str]) -> bool {
        wordings.iter().any(|wording| self.starts_with(wording).is_some())
    }

    /// How many words the wording has, if it comes next.
    fn starts_with(&self, wording: &str) -> Option<usize> {
        let mut length = 0;
        for part in wording.split(' ') {
            self.rest.get(length).filter(|word| word.is_any(&[part]))?;
            length += 1;
        }
        Some(length)
    }

    /// Consumes a name or a text, with words before it that say what it is. A word like these is the name itself where one
    /// of the `ends` follows it, or nothing.
    pub fn take_name(&mut self, kinds: &[&str], ends: &[&str]) -> Option<&'a Word> {
        let mut skipped = false;
        loop {
            let after = Phrase {
                rest: self.rest.get(1..)?,
            };
            let is_last = after.rest.is_empty() || after.at(ends) || after.at(scope_clause::OPENINGS);
            if !self.at(kinds) || is_last {
                break;
            }
            skipped = true;
            self.take();
        }
        // "the method" names nothing.
        if skipped && self.at(kinds) {
            return None;
        }
        let name = self.take()?;
        // A quote without its other half, or an empty text.
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

    /// Consumes the words of politeness that a request begins with.
    pub fn skip_polite(&mut self) {
        self.eat_all(&[
            "please",
            "kindly",
            "now",
            "can you",
            "could you",
            "would you",
            "will you",
            "i want you to",
            "i want to",
            "i would like you to",
            "i would like to",
            "i'd like you to",
            "i'd like to",
            "let's",
            "and",
        ]);
    }

    /// Consumes the places that come next; none if they can't be read for certain.
    pub fn parse_scope(&mut self, scope: &mut Scope) -> Option<()> {
        scope_clause::parse(self, scope)
    }

    /// Whether nothing is left but politeness.
    pub fn is_finished(mut self) -> bool {
        self.eat_all(&["please", "thanks", "thank you", "for me", "now", "and"]);
        self.rest.is_empty()
    }

    /// Consumes the places at the end of a sentence; none if anything else is left.
    pub fn finish_with_scope(mut self, scope: &mut Scope) -> Option<()> {
        self.parse_scope(scope)?;
        self.is_finished().then_some(())
    }
}
