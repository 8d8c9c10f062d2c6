//! Parsing of goals: a sentence belongs to one of six families, or is declined.
//!
//! The parser of each family consumes the sentence word by word, beginning with its verb. If a word remains, the goal is
//! [`Goal::Unsupported`], so that the offline model never executes only a part of a goal. Negations, second requests and unknown qualifiers
//! are therefore declined without special rules.

mod change;
mod create;
mod grammar;
mod keep_clause;
mod phrase;
mod query;
mod scope_clause;
#[cfg(test)]
mod tests;

use crate::words::{Word, words};
pub(crate) use grammar::{
    CheckSelection, CountTarget, Expectation, Goal, NewProject, ProjectLanguage, Rename, is_identifier,
};
pub(crate) use keep_clause::strip_keep_clause;
use phrase::Phrase;
pub(crate) use scope_clause::{guidance_scope, whole_scope};

/// Parses a goal.
pub(crate) fn parse(text: &str) -> Goal {
    from_words(&words(text))
}

/// Parses the words of a goal.
pub(crate) fn from_words(words: &[Word]) -> Goal {
    let mut phrase = Phrase::new(words);
    phrase.eat_all(&["please", "can you", "could you"]);
    change::rename(phrase)
        .or_else(|| change::replace(phrase))
        .or_else(|| create::project(phrase))
        .or_else(|| query::check(phrase))
        .or_else(|| query::count(phrase))
        .or_else(|| query::find_usages(phrase))
        .unwrap_or(Goal::Unsupported)
}
