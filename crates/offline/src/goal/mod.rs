//! Understanding of goals: a sentence becomes one of five families, or is declined.
//!
//! Each family consumes the sentence word by word from its verb on. A sentence with a word left over is [`Goal::Unsupported`]: half of a
//! goal is never executed as if it were the whole. Negations, second wishes and unknown qualifiers therefore need no rules of their own.

mod change;
mod grammar;
mod keep_clause;
mod phrase;
mod query;
mod scope_clause;
#[cfg(test)]
mod tests;

use crate::words::{Word, words};
pub(crate) use grammar::{CheckSelection, CountTarget, Expectation, Goal, Rename, is_identifier};
pub(crate) use keep_clause::strip_keep_clause;
use phrase::Phrase;
pub(crate) use scope_clause::{guidance_scope, whole_scope};

/// Reads a goal.
pub(crate) fn parse(text: &str) -> Goal {
    from_words(&words(text))
}

/// Reads a goal that is split into words already.
pub(crate) fn from_words(words: &[Word]) -> Goal {
    let mut phrase = Phrase::new(words);
    phrase.eat_all(&["please", "can you", "could you"]);
    change::rename(phrase)
        .or_else(|| change::replace(phrase))
        .or_else(|| query::check(phrase))
        .or_else(|| query::count(phrase))
        .or_else(|| query::find_usages(phrase))
        .unwrap_or(Goal::Unsupported)
}
