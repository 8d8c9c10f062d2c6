//! Plans without sub-tasks. The reflector sees only their summary, so the summary begins with a fixed phrase
//! for the kind of reason.

use std::fmt;

/// Why a plan has no sub-tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EmptyPlan {
    /// The goal is already achieved.
    NothingToDo(String),
    /// The goal cannot be achieved.
    Impossible(String),
    /// The user must decide something first.
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
            EmptyPlan::NeedsUser(question) => write!(f, "{NEEDS_USER}{question}"),
        }
    }
}

impl EmptyPlan {
    /// Parses the summary of a plan; `None` if it does not begin with one of the fixed phrases.
    pub fn parse(summary: &str) -> Option<EmptyPlan> {
        let after = |beginning: &str| summary.strip_prefix(beginning).map(str::to_owned);
        after(NOTHING)
            .map(EmptyPlan::NothingToDo)
            .or_else(|| after(NEEDS_USER).map(EmptyPlan::NeedsUser))
            .or_else(|| after(IMPOSSIBLE).map(EmptyPlan::Impossible))
    }
}
