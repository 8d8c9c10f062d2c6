//! Planning the end of a change that comes to nothing: what the run has changed is put back, unless the user keeps it.
//!
//! The tool knows from the journal what was there before; nothing is worked out here.

use super::{Draft, PlanningContext, calls_subtask};
use crate::empty_plan::EmptyPlan;
use crate::prompt_sections::{GIVEN_UP, UNDO_SUMMARY};
use crate::requirements::OnFailure;
use crate::tools::{self, planned_call};

/// Why the change was given up, where it is to be put back now: a reflection has said so, or putting it back was interrupted.
pub(crate) fn is_due(context: &PlanningContext<'_>) -> Option<String> {
    let iterations = context.sections.iterations();
    let last = iterations.last()?;
    let why = match last.undo_reason().filter(|_| last.was_inconclusive()) {
        Some(why) => why,
        None => last.reflection.strip_prefix(GIVEN_UP)?,
    };
    Some(why.to_owned())
}

/// Gives the change up.
pub(crate) fn plan(context: &PlanningContext<'_>, why: &str) -> Draft {
    match context.requirements.on_failure {
        OnFailure::KeepChanges => EmptyPlan::Impossible(why.to_owned()).into(),
        OnFailure::Undo => Draft {
            summary: format!("{UNDO_SUMMARY}{why}"),
            subtasks: vec![calls_subtask(
                "undo",
                "Put back what was changed".to_owned(),
                Vec::new(),
                vec![planned_call(tools::undo())],
            )],
        },
    }
}
