//! Tells requests to Dirigent from negated verbs and from statements or questions about something.

use std::ops::Range;

use super::language::{LANGUAGES, all};
use super::words::{TokenKind, Words};

/// Maximum number of tokens before a word that count as its clause.
const REACH: usize = 32;

/// Whether "and" begins a new clause.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ClauseStart {
    /// Only punctuation and words such as "but" begin a clause, so a negation before "and" also applies after it.
    Punctuation,
    /// "And" also begins a clause.
    Joint,
}

/// The tokens before this one in the same clause.
fn clause_before(words: &Words<'_>, at: usize, start: ClauseStart) -> Range<usize> {
    let mut from = at;
    while from > 0 && at - from < REACH {
        let before = from - 1;
        if words.kind(before) == Some(TokenKind::Break) {
            break;
        }
        let begins = words.longest_in(before..at, all(|language| language.clause_starts));
        let joins = words.longest_in(before..at, all(|language| language.joints));
        if let Some(end) = begins.or(joins.filter(|_| start == ClauseStart::Joint)) {
            return end..at;
        }
        from = before;
    }
    from..at
}

/// Returns true if the word at this token is negated.
pub(super) fn is_negated(words: &Words<'_>, at: usize) -> bool {
    let clause = clause_before(words, at, ClauseStart::Punctuation);
    let directly = at.checked_sub(1).is_some_and(|before| {
        clause.contains(&before) && words.text(before) == "不" && !is_alternative(words, before)
    });
    directly
        || clause.clone().any(|place| {
            let negation = words.longest_in(place..at, all(|language| language.negations));
            negation.is_some_and(|end| {
                let is_lifted = words.longest_at(end, all(|language| language.forget)).is_some();
                !is_lifted && !is_alternative(words, place)
            })
        })
}

/// Returns true for the 不 of 能不能, which makes a question instead of a negation.
fn is_alternative(words: &Words<'_>, at: usize) -> bool {
    let before = at.checked_sub(1).map_or("", |before| words.text(before));
    !before.is_empty() && before == words.text(at + 1)
}

/// Returns true if the verb at this token can be a request although other words precede it: nothing before it in its clause makes it a
/// question, a condition or another person's action.
pub(super) fn may_request(words: &Words<'_>, at: usize) -> bool {
    if is_negated(words, at) {
        return false;
    }
    let clause = clause_before(words, at, ClauseStart::Joint);
    let ends_here = |phrases: &[&'static str]| {
        let mut places = clause.clone();
        places.any(|place| {
            phrases
                .iter()
                .any(|phrase| words.phrase_at(place, phrase) == Some(at))
        })
    };
    LANGUAGES.iter().all(|language| {
        let is_asked = ends_here(language.requested);
        let has_subject = ends_here(language.subjects) && !is_asked;
        let mut places = clause.clone();
        let is_other = places.any(|place| words.longest_in(place..at, language.not_requests).is_some());
        !has_subject && !is_other
    })
}

/// Returns true if the verb at this token is clearly a request: only `openers` precede it in its clause.
pub(super) fn is_request(words: &Words<'_>, at: usize) -> bool {
    let clause = clause_before(words, at, ClauseStart::Joint);
    !is_negated(words, at) && opens(words, clause)
}

/// Returns true if the tokens are only openers.
fn opens(words: &Words<'_>, range: Range<usize>) -> bool {
    let mut at = range.start;
    while at < range.end {
        let joint = words.longest_in(at..range.end, all(|language| language.joints));
        let opener = words.longest_in(at..range.end, all(|language| language.openers));
        match opener.max(joint) {
            Some(end) => at = end,
            None => return false,
        }
    }
    true
}
