//! Plans that undo a failed change, unless the user keeps it. The tool knows the former content of the files from the journal.

use super::subtasks::{Draft, PlanningContext, calls_subtask};
use crate::empty_plan::EmptyPlan;
use crate::prompt_sections::PastSummaries;
use crate::requirements::OnFailure;
use crate::role_texts::{GIVEN_UP, UNDO_SUMMARY};
use crate::tools::{self, planned_call};

/// Returns why the change was given up if it is to be undone now: the last reflection said so, or the undo was interrupted.
pub(super) fn due_reason(context: &PlanningContext<'_>) -> Option<String> {
    let iterations = context.sections.iterations();
    let last = iterations.last()?;
    let interrupted = last.undo_reason().filter(|_| last.was_inconclusive());
    let why = interrupted.or_else(|| last.reflected().strip_prefix(GIVEN_UP))?;
    Some(why.to_owned())
}

/// Plans to give the change up.
pub(super) fn plan(context: &PlanningContext<'_>, why: &str) -> Draft {
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
