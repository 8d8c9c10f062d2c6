//! Goals that change files: renames and replacements.

use super::grammar::{ALL, Goal, KIND, Rename, USAGES, is_identifier};
use super::phrase::Phrase;
use super::{query, scope_clause};
use crate::scope::Scope;

const PRONOUNS: &[&str] = &["it", "them", "this", "that", "everything"];

/// Parses a goal such as "rename X to Y", "change the name of X to Y" or "find all usages of X and rename it to Y".
pub(super) fn rename(mut phrase: Phrase<'_>) -> Option<Goal> {
    let mut scope = Scope::default();
    let from = if phrase.eat(&["rename"]) {
        skip_usages(&mut phrase);
        phrase
            .take_name(KIND, &["to"])
            .filter(|name| !name.is_any(PRONOUNS))?
    } else if phrase.eat(&["change the name of"]) {
        phrase.take_name(KIND, &["to"])?
    } else {
        let symbol = query::usages_of(&mut phrase)?;
        scope_clause::parse(&mut phrase, &mut scope)?;
        phrase.eat_all(&["and", "then"]);
        phrase.eat(&["rename"]).then_some(())?;
        phrase.eat(&["it", "them"]);
        symbol
    };
    scope_clause::parse(&mut phrase, &mut scope)?;
    phrase.eat(&["to"]).then_some(())?;
    let to = phrase.take()?;
    scope_clause::finish(phrase, &mut scope)?;
    // A rename considers only the name, so a rename of `Ledger.add` would rename every other `add`, too.
    let from = from.name();
    (is_identifier(&from) && !to.text.contains("::")).then(|| {
        Goal::Rename(Rename {
            from,
            to: to.name(),
            scope,
        })
    })
}

/// Parses a goal such as "replace X with Y".
pub(super) fn replace(mut phrase: Phrase<'_>) -> Option<Goal> {
    const KIND: &[&str] = &["all", "every", "the", "text", "word", "string"];
    phrase.eat(&["replace"]).then_some(())?;
    skip_usages(&mut phrase);
    let old = phrase.take_name(KIND, &["with"])?;
    if !phrase.eat(&["with"]) || old.is_any(PRONOUNS) {
        return None;
    }
    let new = phrase.take_name(KIND, &[])?;
    let mut scope = Scope::default();
    scope_clause::finish(phrase, &mut scope)?;
    Some(Goal::Replace {
        old: old.text.clone(),
        new: new.text.clone(),
        scope,
    })
}

/// Consumes a prefix such as "all occurrences of", if there is one.
fn skip_usages(phrase: &mut Phrase<'_>) {
    let mut ahead = *phrase;
    ahead.eat_all(ALL);
    if ahead.eat(USAGES) {
        *phrase = ahead;
    }
}
