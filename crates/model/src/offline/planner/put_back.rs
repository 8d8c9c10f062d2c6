//! Planning the end of a change that comes to nothing: what the run has changed is put back, unless the user keeps it.
//!
//! The tool knows from the journal what was there before; nothing is worked out here.

use super::{Draft, Planning, of_calls};
use crate::offline::no_work::NoWork;
use crate::offline::reading::{GIVEN_UP, PUTS_BACK};
use crate::offline::tools::{self, in_plan};
use crate::offline::wishes::Leftovers;

/// Why the change was given up, where it is to be put back now: a reflection has said so, or putting it back was interrupted.
pub(super) fn is_due(planning: &Planning<'_>) -> Option<String> {
    let rounds = planning.sections.rounds();
    let last = rounds.last()?;
    let why = match last.puts_back().filter(|_| last.was_no_attempt()) {
        Some(why) => why,
        None => last.reflection.strip_prefix(GIVEN_UP)?,
    };
    Some(why.to_owned())
}

/// Gives the change up.
pub(super) fn plan(planning: &Planning<'_>, why: &str) -> Draft {
    match planning.wishes.leftovers {
        Leftovers::Kept => NoWork::Impossible(why.to_owned()).into(),
        Leftovers::PutBack => Draft {
            summary: format!("{PUTS_BACK}{why}"),
            subtasks: vec![of_calls(
                "put-back",
                "Put back what was changed".to_owned(),
                Vec::new(),
                vec![in_plan(tools::undo())],
            )],
        },
    }
}
