//! Plans without sub-tasks: why there is nothing to carry out.
//!
//! A reflector sees of such a plan nothing but its summary, so the summary opens with what follows from it.

use std::fmt;

/// Why a plan has no sub-tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoWork {
    /// The goal is reached as things are.
    NothingToDo(String),
    /// The goal can't be reached.
    Impossible(String),
    /// Only the user can decide; the text says what.
    Undecided(String),
}

const NOTHING: &str = "Nothing to do: ";
const IMPOSSIBLE: &str = "Not possible: ";
const UNDECIDED: &str = "For the user to decide: ";

impl fmt::Display for NoWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoWork::NothingToDo(why) => write!(f, "{NOTHING}{why}"),
            NoWork::Impossible(why) => write!(f, "{IMPOSSIBLE}{why}"),
            NoWork::Undecided(what) => write!(f, "{UNDECIDED}{what}"),
        }
    }
}

impl NoWork {
    /// Reads the summary of a plan; nothing where it doesn't say why there is no work.
    pub fn read(summary: &str) -> Option<NoWork> {
        let after = |opening: &str| summary.strip_prefix(opening).map(str::to_owned);
        after(NOTHING)
            .map(NoWork::NothingToDo)
            .or_else(|| after(UNDECIDED).map(NoWork::Undecided))
            .or_else(|| after(IMPOSSIBLE).map(NoWork::Impossible))
    }

    /// Reads the summary of a plan without sub-tasks; one in other words gives no work to judge.
    pub fn parse(summary: &str) -> NoWork {
        NoWork::read(summary).unwrap_or_else(|| NoWork::Impossible(summary.to_owned()))
    }
}
