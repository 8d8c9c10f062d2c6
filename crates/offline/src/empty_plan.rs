//! Plans without sub-tasks: why there is nothing to execute.
//!
//! A reflector sees of such a plan nothing but its summary, so the summary opens with what follows from it.

use std::fmt;

/// Why a plan has no sub-tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EmptyPlan {
    /// The goal is reached as things are.
    NothingToDo(String),
    /// The goal can't be reached.
    Impossible(String),
    /// Only the user can decide; the text says what.
    NeedsUser(String),
}

const NOTHING: &str = "Nothing to do: ";
const IMPOSSIBLE: &str = "Not possible: ";
const NEEDS_USER: &str = "For the user to decide: ";

impl fmt::Display for EmptyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmptyPlan::NothingToDo(why) => write!(f, "{NOTHING}{why}"),
            EmptyPlan::Impossible(why) => write!(f, "{IMPOSSIBLE}{why}"),
            EmptyPlan::NeedsUser(what) => write!(f, "{NEEDS_USER}{what}"),
        }
    }
}

impl EmptyPlan {
    /// Reads the summary of a plan; nothing where it doesn't say why there is no work.
    pub fn parse(summary: &str) -> Option<EmptyPlan> {
        let after = |opening: &str| summary.strip_prefix(opening).map(str::to_owned);
        after(NOTHING)
            .map(EmptyPlan::NothingToDo)
            .or_else(|| after(NEEDS_USER).map(EmptyPlan::NeedsUser))
            .or_else(|| after(IMPOSSIBLE).map(EmptyPlan::Impossible))
    }

    /// Reads the summary of a plan without sub-tasks; one in other words gives no work to judge.
    pub fn parse_or_impossible(summary: &str) -> EmptyPlan {
        EmptyPlan::parse(summary).unwrap_or_else(|| EmptyPlan::Impossible(summary.to_owned()))
    }
}
