//! Where a goal applies, word for word: "in src and docs/", "in all markdown files", "except in tests/".
//!
//! Unlike guidance, which is read tolerantly, a goal's place must leave no doubt: a word that is no place for certain
//! ("in comments") makes the whole goal one that is not understood.

use super::phrase::Phrase;
use crate::scope::{KINDS, Scope};
use crate::words::Word;

/// How a place begins.
pub(crate) const OPENINGS: &[&str] = &[
    "in",
    "inside",
    "under",
    "within",
    "below",
    "beneath",
    "throughout",
    "across",
    "only",
    "just",
    "but only",
    "everywhere",
    "here",
    "except",
    "excluding",
    "outside",
    "not in",
    "but not",
    "ending",
    "that end",
    "whose names end",
    "with the ending",
    "with the extension",
    "with extension",
];
const IN: &[&str] = &[
    "in",
    "inside",
    "under",
    "within",
    "below",
    "beneath",
    "throughout",
    "across",
];
const ENDING: &[&str] = &[
    "ending with",
    "ending in",
    "ending on",
    "that end with",
    "that end in",
    "whose names end with",
    "whose names end in",
    "with the ending",
    "with the extension",
    "with extension",
];
const EXCEPT: &[&str] = &[
    "except",
    "except for",
    "but except",
    "excluding",
    "outside",
    "outside of",
    "not",
    "but not",
];
const DETERMINERS: &[&str] = &[
    "the",
    "this",
    "my",
    "our",
    "all",
    "every",
    "any",
    "each",
    "of",
    "file",
    "files",
    "folder",
    "folders",
    "directory",
    "directories",
    "path",
    "paths",
    "whole",
    "entire",
];
const WORKSPACE: &[&str] = &[
    "project",
    "workspace",
    "repository",
    "repo",
    "codebase",
    "code base",
    "code",
    "source code",
    "tree",
    "crate",
];
/// Words for what files consist of, and of what "in" begins otherwise.
const NO_PLACE: &[&str] = &[
    "comments",
    "comment",
    "strings",
    "string",
    "docstrings",
    "docstring",
    "documentation",
    "text",
    "names",
    "order",
    "general",
    "particular",
    "total",
    "place",
    "places",
    "addition",
    "it",
    "them",
    "that",
    "there",
    "case",
    "one",
    "full",
    "and",
    "or",
    "to",
    "with",
    "by",
    "as",
    "into",
];
/// Folders that need no slash to be known as such.
const FOLDERS: &[&str] = &[
    "src",
    "lib",
    "test",
    "tests",
    "doc",
    "docs",
    "examples",
    "example",
    "benches",
    "crates",
    "packages",
    "scripts",
    "bin",
    "cmd",
    "pkg",
    "internal",
    "app",
    "target",
    "build",
    "dist",
    "vendor",
    "node_modules",
];
const EXTENSIONS: &[&str] = &[
    "md", "rs", "py", "go", "js", "jsx", "mjs", "cjs", "ts", "tsx", "txt", "rst", "adoc", "toml", "json",
    "yaml", "yml", "html", "css", "c", "h", "cpp", "hpp", "java", "rb", "sh", "sql", "xml", "csv", "ini",
    "cfg", "lock",
];

/// What one entry of a list of places is.
enum ScopeItem<'a> {
    Path(&'a Word),
    Ending(String),
    Workspace,
}

/// Consumes all places that come next.
pub(crate) fn parse(phrase: &mut Phrase<'_>, scope: &mut Scope) -> Option<()> {
    loop {
        let mut ahead = *phrase;
        let joined = ahead.eat(&["and"]);
        let only = ahead.eat(&["only", "just", "but only"]);
        let had_places = !scope.only.is_empty();
        let had_endings = !scope.endings.is_empty();
        if ahead.eat(&["everywhere", "here"]) {
            if only || had_places || had_endings {
                return None;
            }
        } else if ahead.eat(&["files ending with", "files ending in"]) && only || ahead.eat(ENDING) {
            // "in docs and ending with .md": whether both or either is meant nobody can tell.
            if joined && had_places && !only || had_endings {
                return None;
            }
            endings(&mut ahead, scope)?;
        } else if !only && ahead.eat(EXCEPT) {
            ahead.eat(&["in", "inside", "under", "within", "for", "from"]);
            for place in scope_items(&mut ahead)? {
                match place {
                    ScopeItem::Path(path) => scope.except.push(path_of(path).filter(|_| is_certain(path))?),
                    ScopeItem::Ending(_) | ScopeItem::Workspace => return None,
                }
            }
        } else if ahead.eat(IN) {
            let places = scope_items(&mut ahead)?;
            let restricts = |place: &ScopeItem<'_>| !matches!(place, ScopeItem::Workspace);
            let new_endings = places.iter().any(|place| matches!(place, ScopeItem::Ending(_)));
            let new_paths = places.iter().any(|place| matches!(place, ScopeItem::Path(_)));
            let is_union = joined && !only;
            let clashes = if is_union {
                (new_endings && had_places) || (new_paths && had_endings)
            } else {
                (new_paths && had_places) || (new_endings && had_endings)
            };
            if clashes || (new_endings && new_paths) || (only && !places.iter().all(restricts)) {
                return None;
            }
            for place in places {
                match place {
                    ScopeItem::Path(path) => scope.only.push(path_of(path)?),
                    ScopeItem::Ending(ending) => scope.endings.push(ending),
                    ScopeItem::Workspace => {}
                }
            }
        } else {
            // "and" leads to something else.
            return (!only).then_some(());
        }
        *phrase = ahead;
    }
}

/// "src and docs/ or README.md".
fn scope_items<'a>(phrase: &mut Phrase<'a>) -> Option<Vec<ScopeItem<'a>>> {
    let mut places = vec![scope_item(phrase)?];
    loop {
        let mut ahead = *phrase;
        if !ahead.eat(&["and", "or"]) {
            return Some(places);
        }
        // After "and" a new thought may begin, so only what is a place for certain goes on with the list.
        let Some(place) = scope_item(&mut ahead).filter(|place| match place {
            ScopeItem::Path(path) => is_certain(path),
            ScopeItem::Ending(_) => true,
            ScopeItem::Workspace => false,
        }) else {
            return Some(places);
        };
        places.push(place);
        *phrase = ahead;
    }
}

fn scope_item<'a>(phrase: &mut Phrase<'a>) -> Option<ScopeItem<'a>> {
    phrase.eat_all(DETERMINERS);
    if phrase.eat(WORKSPACE) {
        return Some(ScopeItem::Workspace);
    }
    let word = phrase.take()?;
    if word.is_any(NO_PLACE) || word.is_any(OPENINGS) {
        return None;
    }
    if let Some(ending) = kind(word) {
        let is_kind = phrase.eat(&["files", "file", "sources", "code"]);
        return is_kind.then_some(ScopeItem::Ending(ending));
    }
    if let Some(ending) = word.text.strip_prefix('*') {
        return ending
            .starts_with('.')
            .then(|| ScopeItem::Ending(ending.to_owned()));
    }
    phrase.eat(&["folder", "folders", "directory", "directories", "file", "files"]);
    path_of(word).map(|_| ScopeItem::Path(word))
}

/// The path that a word names; none for patterns, which a scope can't say.
fn path_of(word: &Word) -> Option<String> {
    let path = word.text.trim_start_matches("./").trim_end_matches('/');
    let is_path = !path.is_empty() && path != "." && !path.contains(['*', '?']);
    is_path.then(|| path.to_owned())
}

/// Whether a word can be nothing but a file or a folder.
fn is_certain(word: &Word) -> bool {
    let extension = word.text.rsplit_once('.').map(|(_, extension)| extension);
    !word.is_plain()
        || word.text.contains('/')
        || word.is_any(FOLDERS)
        || extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
}

/// The ending of a kind of files: "markdown".
pub(crate) fn kind(word: &Word) -> Option<String> {
    let known = KINDS.iter().find(|(name, _)| word.is_any(&[name]));
    known.map(|(_, ending)| (*ending).to_owned())
}

/// ".md, .txt and rst".
fn endings(phrase: &mut Phrase<'_>, scope: &mut Scope) -> Option<()> {
    loop {
        let word = phrase.take()?;
        let ending = word.text.trim_start_matches('*').trim_start_matches('.');
        let is_ending = !ending.is_empty()
            && ending
                .chars()
                .all(|c| c.is_alphanumeric() || c == '.' || c == '_');
        is_ending.then(|| scope.endings.push(format!(".{ending}")))?;
        let mut ahead = *phrase;
        let goes_on = ahead.eat(&["and", "or"])
            && ahead
                .peek()
                .is_some_and(|next| next.text.starts_with(['.', '*']) && !next.text.contains('/'));
        if !goes_on {
            return Some(());
        }
        *phrase = ahead;
    }
}
