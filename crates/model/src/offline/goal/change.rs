//! Goals that change files: renames and replacements.

use super::{Goal, KIND, PLACE, Rename, asks_more, first_name, last_name, last_segment, unqualified};
use crate::offline::scope::Scope;
use crate::offline::words::Word;

const TO: &[&str] = &["to", "into", "as", "->", "=>", "→"];

pub(super) fn rename(words: &[Word]) -> Option<Goal> {
    let (verb, to) = match words.iter().position(|word| word.is_any(&["rename", "renaming"])) {
        Some(verb) => (
            verb,
            words[verb + 1..].iter().position(|word| word.is_any(TO))? + verb + 1,
        ),
        // "change the name of X to Y"
        None => {
            let verb = words.iter().position(|word| word.is_any(&["change"]))?;
            words[verb..].iter().find(|word| word.is_any(&["name"]))?;
            (
                verb,
                words[verb..].iter().position(|word| word.is_any(TO))? + verb,
            )
        }
    };
    // "rename X to Y" names it after the verb, "find all usages of X and rename them to Y" before it.
    let named = &words[verb + 1..to];
    // A name like `a` is a filler everywhere else.
    let alone = || {
        named
            .first()
            .filter(|word| named.len() == 1 && !word.is_any(&["it", "them"]))
            .map(|word| word.text.clone())
    };
    let from = first_name(named, KIND)
        .or_else(|| last_name(&words[..verb]))
        .or_else(alone)?;
    let target = words[to + 1..]
        .iter()
        .position(|word| !word.is_any(&["the", "be", "name", "new", "called"]))?
        + to
        + 1;
    if asks_more(&words[target + 1..]) {
        return None;
    }
    let mut scope = Scope::parse(&words[target + 1..]);
    // "in src/utils, rename X to Y"
    let before = Scope::parse(
        words
            .get(..verb)
            .filter(|before| !names_a_subject(before))
            .unwrap_or_default(),
    );
    let between = words[verb + 1..to].iter().position(|word| word.is_any(PLACE));
    scope.narrow(before);
    if let Some(between) = between {
        scope.narrow(Scope::parse(&words[verb + 1 + between..to]));
    }
    let to = words.get(target)?;
    Some(Goal::Rename(Rename {
        from: last_segment(&from),
        to: unqualified(&to.text, &from),
        scope,
    }))
}

fn names_a_subject(words: &[Word]) -> bool {
    words
        .iter()
        .any(|word| word.is_any(&["of", "usages", "uses", "occurrences", "references"]))
}

pub(super) fn replace(words: &[Word]) -> Option<Goal> {
    let verb = words
        .iter()
        .position(|word| word.is_any(&["replace", "substitute", "change"]))?;
    let with = words[verb..]
        .iter()
        .position(|word| word.is_any(&["with", "by", "to"]))?
        + verb;
    let between = &words[verb + 1..with];
    let new = words[with + 1..]
        .iter()
        .position(|word| !word.is_any(TEXT_KIND))?
        + with
        + 1;
    let rest = &words[new + 1..];
    let old = between
        .iter()
        .find(|word| !word.is_plain())
        .or_else(|| single(between, rest))?;
    if asks_more(rest) {
        return None;
    }
    let mut scope = Scope::parse(rest);
    if let Some(place) = between.iter().position(|word| word.is_any(PLACE)) {
        scope.narrow(Scope::parse(&between[place..]));
    }
    scope.narrow(Scope::parse(&words[..verb]));
    Some(Goal::Replace {
        old: old.text.clone(),
        new: words[new].text.clone(),
        scope,
    })
}

/// The text to replace where it stands without quotes. Only a word for a word is beyond doubt: "replace the parser with a
/// better one" is none.
fn single<'a>(between: &'a [Word], rest: &[Word]) -> Option<&'a Word> {
    let named: Vec<&Word> = between.iter().filter(|word| !word.is_any(TEXT_KIND)).collect();
    let [only] = named.as_slice() else { return None };
    let ends = rest
        .first()
        .is_none_or(|next| next.is_any(PLACE) || next.is_any(&["everywhere", "except", "only", "and"]));
    ends.then_some(*only)
}

const TEXT_KIND: &[&str] = &[
    "all",
    "every",
    "each",
    "of",
    "text",
    "word",
    "string",
    "phrase",
    "occurrence",
    "occurrences",
    "instances",
    "everywhere",
    "any",
    "the",
];
