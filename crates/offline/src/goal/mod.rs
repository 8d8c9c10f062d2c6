//! What the user wants: the sentence of the goal as one of the families that the offline model handles.
//!
//! Reading is tolerant of wording and strict about meaning: each family consumes a sentence word by word from its verb on,
//! and a sentence of which a word is left over is [`Goal::Unsupported`], never guessed at. A negation, a second wish, or a
//! qualifier that no family knows needs no rule of its own: it is left over.

mod change;
mod keep_clause;
mod phrase;
mod query;
mod scope_clause;
#[cfg(test)]
mod tests;

use super::scope::Scope;
use super::words::{Word, words};
pub(crate) use keep_clause::strip_keep_clause;
use phrase::Phrase;

/// A goal, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
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
        check: CheckSelection,
        /// What a failing one means for the goal.
        expectation: Expectation,
    },
    /// "How many times does X occur", "list the files in src".
    Count {
        /// What to count or list.
        target: CountTarget,
        /// Where.
        scope: Scope,
    },
    /// Anything else.
    Unsupported,
}

/// A symbol and what it is to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rename {
    /// Its name.
    pub from: String,
    /// Its name to be, as the user wrote it: not always an identifier.
    pub to: String,
    /// Where.
    pub scope: Scope,
}

/// Which command a check runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckSelection {
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
pub(crate) enum Expectation {
    /// "Run the tests": to know how it ends.
    Report,
    /// "Make sure that the tests pass": that it succeeds.
    Success,
}

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CountTarget {
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
        Goal::from_words(&words(text))
    }

    /// Reads a goal that is taken apart already.
    pub fn from_words(words: &[Word]) -> Goal {
        let mut phrase = Phrase::new(words);
        phrase.skip_polite();
        // "in src/utils, rename X to Y"
        let mut scope = Scope::default();
        if phrase.parse_scope(&mut scope).is_none() {
            return Goal::Unsupported;
        }
        phrase.skip_polite();
        change::rename(phrase, scope.clone())
            .or_else(|| change::replace(phrase, scope.clone()))
            .or_else(|| query::check(phrase, &scope))
            .or_else(|| query::count(phrase, scope.clone()))
            .or_else(|| query::find_usages(phrase, scope))
            .unwrap_or(Goal::Unsupported)
    }
}

/// Words around a name that say what it is.
const KIND: &[&str] = &[
    "all",
    "the",
    "a",
    "an",
    "my",
    "our",
    "of",
    "function",
    "fn",
    "method",
    "struct",
    "class",
    "type",
    "enum",
    "trait",
    "interface",
    "constant",
    "const",
    "static",
    "variable",
    "field",
    "attribute",
    "macro",
    "symbol",
    "identifier",
    "name",
    "called",
    "named",
    "public",
    "private",
    "def",
];
/// Places where a name is.
const USAGES: &[&str] = &[
    "usage of",
    "usages of",
    "use of",
    "uses of",
    "occurrence of",
    "occurrences of",
    "reference to",
    "references to",
    "caller of",
    "callers of",
    "call of",
    "calls of",
    "call to",
    "calls to",
    "mention of",
    "mentions of",
    "instance of",
    "instances of",
    "call site of",
    "call sites of",
    "usages for",
    "references of",
];

/// Whether it can name something in a program.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|first| first.is_alphabetic() || first == '_' || first == '$')
        && chars.all(|next| next.is_alphanumeric() || next == '_' || next == '$')
}
