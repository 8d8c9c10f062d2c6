//! Parsing of scope clauses, which name the files and folders that a goal covers: "in src and docs/", "in all markdown files", "except in
//! tests/".
//!
//! A scope clause must be unambiguous: a goal with a word that may be something else ("in comments") is not understood.

use super::grammar::SCOPE_OPENINGS;
use super::phrase::Phrase;
use crate::file_kinds::{ending_of_kind, has_known_extension};
use crate::scope::Scope;
use crate::words::Word;

const ENDING: &[&str] = &["ending in", "ending with"];
const EXCEPT: &[&str] = &["except", "but not", "not"];
const DETERMINERS: &[&str] = &["the", "this", "all", "every", "file", "files", "folder"];
const WORKSPACE: &[&str] = &["project", "workspace", "repository", "codebase"];
/// Words after "in" that do not name a folder: parts of files, and words that continue the sentence.
const NO_PLACE: &[&str] = &[
    "comments",
    "comment",
    "strings",
    "string",
    "docstrings",
    "documentation",
    "text",
    "names",
    "it",
    "them",
    "order",
    "place",
    "general",
    "particular",
    "total",
    "and",
    "or",
    "to",
    "with",
];

/// An item of a scope clause: a file or folder, a file extension, or the whole workspace.
enum Place<'a> {
    Path(&'a Word),
    Ending(String),
    Workspace,
}

/// Consumes all scope clauses at the beginning of the phrase. Returns `None` if they are ambiguous.
pub(super) fn parse(phrase: &mut Phrase<'_>, scope: &mut Scope) -> Option<()> {
    loop {
        let mut ahead = *phrase;
        let joined = ahead.eat(&["and"]);
        let only = ahead.eat(&["only", "but only"]);
        let had_paths = !scope.only.is_empty();
        let had_endings = !scope.endings.is_empty();
        if ahead.eat(ENDING) || only && ahead.eat(&["files ending with"]) {
            // "in docs and ending with .md" is ambiguous: both conditions or either one.
            if joined && had_paths && !only || had_endings {
                return None;
            }
            endings(&mut ahead, scope)?;
        } else if !only && ahead.eat(EXCEPT) {
            ahead.eat(&["in"]);
            for place in places(&mut ahead)? {
                match place {
                    Place::Path(path) => scope.except.push(path_of(path).filter(|_| is_certain(path))?),
                    Place::Ending(_) | Place::Workspace => return None,
                }
            }
        } else if ahead.eat(&["in"]) {
            let places = places(&mut ahead)?;
            let has_paths = places.iter().any(|place| matches!(place, Place::Path(_)));
            let has_endings = places.iter().any(|place| matches!(place, Place::Ending(_)));
            let has_workspace = places.iter().any(|place| matches!(place, Place::Workspace));
            // "in docs and in *.md" is ambiguous: both conditions or either one. "in docs in src" has no meaning.
            let clashes = if joined && !only {
                has_endings && had_paths || has_paths && had_endings
            } else {
                has_paths && had_paths || has_endings && had_endings
            };
            if clashes || has_endings && has_paths || only && has_workspace {
                return None;
            }
            for place in places {
                match place {
                    Place::Path(path) => scope.only.push(path_of(path)?),
                    Place::Ending(ending) => scope.endings.push(ending),
                    Place::Workspace => {}
                }
            }
        } else {
            return (!only).then_some(());
        }
        *phrase = ahead;
    }
}

/// Consumes the scope clauses at the end of a sentence. Returns `None` if the phrase has other words.
pub(super) fn finish(mut phrase: Phrase<'_>, scope: &mut Scope) -> Option<()> {
    parse(&mut phrase, scope)?;
    phrase.is_finished().then_some(())
}

/// Parses words that consist only of scope clauses, as [`Scope`]'s `Display` writes them. Without any words, the scope is the whole
/// workspace.
pub(crate) fn whole_scope(words: &[Word]) -> Option<Scope> {
    let mut scope = Scope::default();
    finish(Phrase::new(words), &mut scope)?;
    Some(scope)
}

/// Parses the scope clauses at the end of guidance: "search only in src", "don't touch tests/", "leave the tests alone". Other words before
/// them are ignored, except negations.
pub(crate) fn guidance_scope(words: &[Word]) -> Option<Scope> {
    let is_negation = |word: &Word| word.is_any(&["don't", "do", "not", "never", "no", "without"]);
    let last = words.iter().position(is_negation).unwrap_or(words.len());
    (0..=last)
        .map(|start| Phrase::new(words.get(start..).unwrap_or_default()))
        .find_map(|phrase| excluded(phrase).or_else(|| included(phrase)))
}

fn included(phrase: Phrase<'_>) -> Option<Scope> {
    let mut scope = Scope::default();
    finish(phrase, &mut scope)?;
    (!scope.is_everything()).then_some(scope)
}

fn excluded(mut phrase: Phrase<'_>) -> Option<Scope> {
    phrase
        .eat(&["don't touch", "do not touch", "leave"])
        .then_some(())?;
    let mut scope = Scope::default();
    for place in places(&mut phrase)? {
        match place {
            Place::Path(path) => scope.except.push(path_of(path)?),
            Place::Ending(_) | Place::Workspace => return None,
        }
    }
    phrase.eat(&["alone"]);
    phrase.is_finished().then_some(scope)
}

/// Consumes the items of a scope clause, such as "src and docs/".
fn places<'a>(phrase: &mut Phrase<'a>) -> Option<Vec<Place<'a>>> {
    let mut places = vec![place(phrase)?];
    loop {
        let mut ahead = *phrase;
        if !ahead.eat(&["and"]) {
            return Some(places);
        }
        // After "and", another request may begin, so the list continues only if the next word is certainly an item.
        let Some(next) = place(&mut ahead).filter(|place| match place {
            Place::Path(path) => is_certain(path),
            Place::Ending(_) => true,
            Place::Workspace => false,
        }) else {
            return Some(places);
        };
        places.push(next);
        *phrase = ahead;
    }
}

fn place<'a>(phrase: &mut Phrase<'a>) -> Option<Place<'a>> {
    phrase.eat_all(DETERMINERS);
    if phrase.eat(WORKSPACE) {
        return Some(Place::Workspace);
    }
    let word = phrase.take()?;
    if word.is_any(NO_PLACE) || word.is_any(SCOPE_OPENINGS) {
        return None;
    }
    if let Some(ending) = ending_of_kind(word) {
        return phrase.eat(&["files", "code"]).then_some(Place::Ending(ending));
    }
    if let Some(ending) = word.text.strip_prefix('*') {
        return ending.starts_with('.').then(|| Place::Ending(ending.to_owned()));
    }
    phrase.eat(&["folder"]);
    path_of(word).map(|_| Place::Path(word))
}

/// Returns the path that a word names; `None` for a glob pattern, which a scope cannot represent.
fn path_of(word: &Word) -> Option<String> {
    let path = word.text.trim_start_matches("./").trim_end_matches('/');
    let is_path = !path.is_empty() && path != "." && !path.contains(['*', '?']);
    is_path.then(|| path.to_owned())
}

/// Returns true if a word can only be a file or a folder.
fn is_certain(word: &Word) -> bool {
    !word.is_plain() || word.text.contains('/') || has_known_extension(&word.text)
}

/// Consumes a list of file extensions, such as ".md and .txt".
fn endings(phrase: &mut Phrase<'_>, scope: &mut Scope) -> Option<()> {
    loop {
        let word = phrase.take()?;
        let ending = word.text.trim_start_matches(['*', '.']);
        let is_ending = !ending.is_empty() && ending.chars().all(|c| c.is_alphanumeric() || "._".contains(c));
        is_ending.then(|| scope.endings.push(format!(".{ending}")))?;
        let mut ahead = *phrase;
        let goes_on = ahead.eat(&["and"]) && ahead.peek().is_some_and(|next| next.text.starts_with('.'));
        if !goes_on {
            return Some(());
        }
        *phrase = ahead;
    }
}
