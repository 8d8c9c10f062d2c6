//! The goals that the offline model supports, and the vocabulary that several of their parsers share.

use crate::scope::Scope;

/// A parsed goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// "Find all usages of function X and rename it to Y".
    Rename(Rename),
    /// "Find all usages of X".
    FindUsages { symbol: String, scope: Scope },
    /// "Replace "old" with "new" in docs/".
    Replace { old: String, new: String, scope: Scope },
    /// "Run the tests".
    Check {
        check: CheckSelection,
        expectation: Expectation,
    },
    /// "How many times does X occur", "list the files in src".
    Count { target: CountTarget, scope: Scope },
    /// "Create a minimal Rust project `my-app`".
    CreateProject(NewProject),
    /// Any other goal.
    Unsupported,
}

impl Goal {
    /// Returns true if the goal changes files.
    pub fn changes_files(&self) -> bool {
        match self {
            Goal::Rename(_) | Goal::Replace { .. } | Goal::CreateProject(_) => true,
            Goal::FindUsages { .. } | Goal::Check { .. } | Goal::Count { .. } | Goal::Unsupported => false,
        }
    }
}

/// A symbol and its new name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rename {
    pub from: String,
    /// The new name as the user wrote it, not always an identifier.
    pub to: String,
    pub scope: Scope,
}

/// A project to create in a folder of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewProject {
    /// The name: lowercase letters, digits, `-` and `_`, beginning with a letter.
    pub name: String,
    pub language: ProjectLanguage,
}

/// A language in which projects can be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProjectLanguage {
    Rust,
    Python,
}

/// The command that a check runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckSelection {
    /// The user's command as a program and its arguments.
    Command(Vec<String>),
    /// The project's tests.
    Tests,
    /// The commands that compile the project.
    Build,
}

/// The outcome that the user wants from a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// "Run the tests": the goal is achieved even if the check fails.
    Report,
    /// "Make sure that the tests pass": the goal fails if the check fails.
    Success,
}

/// The items to count or list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CountTarget {
    /// The number of lines in text files.
    Lines,
    /// The number of files.
    Files,
    /// The names of files.
    FileNames,
    /// Lines that contain this text, even within words.
    Text(String),
    /// Lines that contain a whole word.
    Word(String),
}

/// Articles and quantifiers before "usages of" or a name.
pub(super) const ALL: &[&str] = &["all", "every", "the"];

/// Words before a name that describe it.
pub(super) const KIND: &[&str] = &[
    "the",
    "function",
    "method",
    "struct",
    "class",
    "type",
    "enum",
    "trait",
    "interface",
    "constant",
    "variable",
    "field",
    "macro",
    "symbol",
];

/// Words for the locations at which a name is used.
pub(super) const USAGES: &[&str] = &[
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
];

/// Words that begin a scope clause, such as "in" in "in src". They are never names.
pub(super) const SCOPE_OPENINGS: &[&str] = &["in", "only", "except", "not in", "but not", "ending"];

/// Returns true if the text can be an identifier in a program.
pub(crate) fn is_identifier(text: &str) -> bool {
    let is_letter = |c: char| c.is_alphabetic() || c == '_' || c == '$';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_numeric())
}
