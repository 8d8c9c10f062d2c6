//! What the user wants: the sentence of the goal as one of the families that the offline model handles.
//!
//! Reading is tolerant of wording and strict about meaning: a sentence that fits no family is [`Goal::Beyond`], never
//! guessed at.

mod ask;
mod change;
#[cfg(test)]
mod tests;

use super::scope::Scope;
use super::words::{Word, words};

/// A goal, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// "Find all usages of function X and rename it to Y".
    Rename(Rename),
    /// "Find all usages of X".
    FindUsages {
        /// The name looked for.
        symbol: String,
        /// Where.
        scope: Scope,
    },
    /// "Replace "old" with "new" in docs/".
    Replace {
        /// What is there.
        old: String,
        /// What is wanted.
        new: String,
        /// Where.
        scope: Scope,
    },
    /// "Run the tests".
    Check {
        /// Which command.
        check: Wanted,
        /// What a failing one means for the goal.
        expectation: Expectation,
    },
    /// "How many times does X occur", "list the files in src".
    Count {
        /// What to count or list.
        what: Counted,
        /// Where.
        scope: Scope,
    },
    /// Anything else.
    Beyond,
}

/// A symbol and what it is to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rename {
    /// Its name.
    pub from: String,
    /// Its name to be, as the user wrote it: not always an identifier.
    pub to: String,
    /// Where.
    pub scope: Scope,
}

/// Which command a check runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// This one, as words.
    Command(Vec<String>),
    /// Whatever tests the project has.
    Tests,
    /// Whatever tells that the project compiles.
    Build,
    /// Both.
    Everything,
}

/// What the user expects of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// "Run the tests": to know how it ends.
    Report,
    /// "Make sure that the tests pass": that it succeeds.
    Success,
}

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Lines of text files.
    Lines,
    /// Files, by number.
    Files,
    /// Files, by name.
    FileNames,
    /// Places with this text.
    Text(String),
    /// Places with this word, whole.
    Word(String),
}

impl Goal {
    /// Reads a goal. The families are tried in the order of how specific their wording is.
    pub fn parse(text: &str) -> Goal {
        let words = words(text);
        if words.first().is_some_and(|word| word.is_any(MORE)) {
            return Goal::Beyond;
        }
        change::rename(&words)
            .or_else(|| change::replace(&words))
            .or_else(|| ask::check(text, &words))
            .or_else(|| ask::count(&words))
            .or_else(|| ask::find_usages(&words))
            .unwrap_or(Goal::Beyond)
    }
}

/// Verbs of other work: a sentence that asks for it besides is beyond this model as a whole.
const MORE: &[&str] = &[
    "write",
    "add",
    "fix",
    "create",
    "implement",
    "improve",
    "refactor",
    "delete",
    "remove",
    "update",
    "document",
    "explain",
    "generate",
    "commit",
    "push",
    "move",
    "extract",
    "translate",
    "simplify",
    "convert",
];
/// What a rename does anyway: "and update all callers".
const RENAMED_TOO: &[&str] = &[
    "usages",
    "uses",
    "references",
    "callers",
    "calls",
    "occurrences",
    "imports",
    "usage",
    "reference",
    "caller",
];
/// Words that a place follows.
const PLACE: &[&str] = &["in", "inside", "under", "within"];

/// Whether the rest of a sentence asks for other work.
fn asks_more(rest: &[Word]) -> bool {
    let goes_along = |after: &[Word]| after.iter().take(4).any(|word| word.is_any(RENAMED_TOO));
    rest.iter()
        .enumerate()
        .any(|(at, word)| word.is_any(MORE) && !goes_along(&rest[at + 1..]))
}

/// Words around a name that say what it is.
const KIND: &[&str] = &[
    "all",
    "every",
    "each",
    "any",
    "the",
    "a",
    "an",
    "of",
    "to",
    "for",
    "function",
    "functions",
    "fn",
    "method",
    "struct",
    "class",
    "type",
    "enum",
    "trait",
    "interface",
    "module",
    "constant",
    "const",
    "static",
    "variable",
    "field",
    "macro",
    "symbol",
    "identifier",
    "name",
    "called",
    "named",
    "usage",
    "usages",
    "use",
    "uses",
    "occurrence",
    "occurrences",
    "reference",
    "references",
    "caller",
    "callers",
    "call",
    "calls",
    "mention",
    "mentions",
    "place",
    "places",
    "where",
    "it",
    "them",
    "its",
    "everywhere",
    "please",
    "public",
    "private",
    "def",
    "sites",
    "instances",
    "instance",
    "definition",
    "and",
    "then",
];
const FIND: &[&str] = &[
    "find", "search", "locate", "list", "show", "look", "up", "me", "please", "which", "files", "lines",
    "identify", "get", "tell", "report", "see",
];
/// The first word that is no filler, and where it is.
fn name_at(words: &[Word], filler: &[&str]) -> Option<(usize, String)> {
    // Of "function `X`" and "`X` function" it is the quoted one.
    words
        .iter()
        .enumerate()
        .find(|(_, word)| !word.is_any(filler))
        .map(|(at, word)| (at, word.text.clone()))
}

fn first_name(words: &[Word], filler: &[&str]) -> Option<String> {
    let until = words
        .iter()
        .position(|word| word.is_any(&["in", "inside", "under", "within"]))
        .unwrap_or(words.len());
    name_at(&words[..until], filler).map(|(_, name)| name)
}

/// The last word that can be a name: what stands before a verb is its subject.
fn last_name(words: &[Word]) -> Option<String> {
    let words = match words
        .iter()
        .position(|word| word.is_any(&["in", "inside", "under", "within"]))
    {
        Some(place) if place > 0 => &words[..place],
        Some(_) | None => words,
    };
    let is_name = |word: &&Word| {
        !word.is_any(KIND) && !word.is_any(FIND) && !word.is_any(&["is", "are", "be", "do", "does"])
    };
    words.iter().rev().find(is_name).map(|word| word.text.clone())
}

/// `parse` of `ledger::parse`, `Ledger.parse` and `ledger->parse`.
fn last_segment(name: &str) -> String {
    let name = name.trim_end_matches("()");
    let last = name.rsplit([':', '.', '>', '#']).next().unwrap_or(name);
    if is_identifier(last) {
        last.to_owned()
    } else {
        name.to_owned()
    }
}

/// The target without the path that the old name had too.
fn unqualified(target: &str, from: &str) -> String {
    let target = target.trim_end_matches("()");
    let path = from
        .trim_end_matches("()")
        .strip_suffix(last_segment(from).as_str())
        .unwrap_or_default();
    target.strip_prefix(path).unwrap_or(target).to_owned()
}

/// Whether it can name something in a program.
pub(super) fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|first| first.is_alphabetic() || first == '_' || first == '$')
        && chars.all(|next| next.is_alphanumeric() || next == '_' || next == '$')
}
