//! Goals that change files: renames and replacements.

use super::phrase::Phrase;
use super::{CheckSelection, Goal, KIND, Rename, USAGES, is_identifier, query};
use crate::scope::Scope;
use crate::words::Word;

const TO: &[&str] = &["to", "into", "as", "->", "=>", "→"];
const ALL: &[&str] = &["all", "every", "each", "any", "the"];

pub(crate) fn rename(mut phrase: Phrase<'_>, mut scope: Scope) -> Option<Goal> {
    let from = if phrase.eat(&["rename"]) {
        rename_subject(&mut phrase)?
    } else if phrase.eat(&["change the name of"]) {
        phrase.take_name(KIND, TO)?
    } else {
        // "find all usages of X and rename them to Y"
        let subject = query::subject(&mut phrase)?;
        phrase.parse_scope(&mut scope)?;
        phrase.eat_all(&["and", "then"]);
        if !phrase.eat(&["rename"]) {
            return None;
        }
        phrase.eat(&[
            "it",
            "them",
            "all of them",
            "each of them",
            "each",
            "them all",
            "all",
        ]);
        subject
    };
    phrase.eat(&["function", "method", "struct", "class", "type", "variable"]);
    phrase.parse_scope(&mut scope)?;
    let has_to = phrase.eat(TO);
    phrase.eat(&["be called", "be named", "be", "the new name", "the name"]);
    let to = phrase.take().filter(|_| has_to)?;
    phrase.parse_scope(&mut scope)?;
    skip_implied_steps(&mut phrase);
    phrase.parse_scope(&mut scope)?;
    // A rename goes by the name alone, so of `Ledger.add` it would rename every other `add` too.
    let from = bare(from);
    let is_simple = is_identifier(&from) && !to.text.contains("::");
    (is_simple && phrase.is_finished()).then(|| {
        Goal::Rename(Rename {
            from,
            to: bare(to),
            scope,
        })
    })
}

/// What "rename" is followed by.
fn rename_subject<'a>(phrase: &mut Phrase<'a>) -> Option<&'a Word> {
    let mut ahead = *phrase;
    ahead.eat_all(ALL);
    if ahead.eat(USAGES) {
        *phrase = ahead;
    }
    let name = phrase.take_name(KIND, TO)?;
    (!name.is_any(&["it", "them", "this", "that", "everything"])).then_some(name)
}

/// Consumes what a rename does anyway: checks, and updating what uses the name.
fn skip_implied_steps(phrase: &mut Phrase<'_>) {
    let mut ahead = *phrase;
    ahead.eat_all(&["and", "then", "afterwards"]);
    let does_anyway = if ahead.eat(&["update"]) {
        ahead.eat_all(ALL);
        ahead.eat(&["its", "of its"]);
        ahead.eat(&[
            "usages",
            "uses",
            "references",
            "callers",
            "calls",
            "call sites",
            "occurrences",
            "imports",
        ])
    } else {
        match query::check(ahead, &Scope::default()) {
            Some(Goal::Check { check, .. }) => {
                ahead = Phrase::new(&[]);
                !matches!(check, CheckSelection::Command(_))
            }
            Some(_) | None => false,
        }
    };
    if does_anyway {
        *phrase = ahead;
    }
}

fn bare(name: &Word) -> String {
    name.text.trim_end_matches("()").to_owned()
}

pub(crate) fn replace(mut phrase: Phrase<'_>, mut scope: Scope) -> Option<Goal> {
    let with: &[&str] = &["with", "by", "to"];
    if !phrase.eat(&["replace", "substitute", "change"]) {
        return None;
    }
    let mut ahead = phrase;
    ahead.eat_all(ALL);
    if ahead.eat(&["occurrence of", "occurrences of", "instance of", "instances of"]) {
        phrase = ahead;
    }
    let old = phrase.take_name(TEXT_KIND, with)?;
    phrase.parse_scope(&mut scope)?;
    if !phrase.eat(with) || old.is_any(&["it", "them", "that", "these", "those", "everything"]) {
        return None;
    }
    let new = phrase.take_name(TEXT_KIND, &[])?;
    phrase.finish_with_scope(&mut scope)?;
    Some(Goal::Replace {
        old: old.text.clone(),
        new: new.text.clone(),
        scope,
    })
}

const TEXT_KIND: &[&str] = &[
    "all", "every", "each", "any", "the", "text", "word", "string", "phrase",
];
