//! Plans that undo a failed change, unless the user wants to keep it. The tool `file_operations` knows the original content of the
//! files.

use super::subtasks::{Draft, PlanningContext, calls_subtask};
use crate::empty_plan::EmptyPlan;
use crate::prompt_sections::PastSummaries;
use crate::requirements::OnFailure;
use crate::role_texts::{GIVEN_UP, UNDO_SUMMARY};
use crate::tools::{self, planned_call};

/// Returns the reason for undoing the change now, because the last reflection requires it or because the last undo was interrupted;
/// `None` if no undo is due.
pub(super) fn due_reason(context: &PlanningContext<'_>) -> Option<String> {
    let iterations = context.sections.iterations();
    let last = iterations.last()?;
    let interrupted = last.undo_reason().filter(|_| last.was_inconclusive());
    let why = interrupted.or_else(|| last.reflected().strip_prefix(GIVEN_UP))?;
    Some(why.to_owned())
}

/// Plans an undo of the change. If the user wants to keep changes, returns an empty plan with the reason instead.
pub(super) fn plan(context: &PlanningContext<'_>, why: &str) -> Draft {
    match context.requirements.on_failure {
        OnFailure::KeepChanges => EmptyPlan::Impossible(why.to_owned()).into(),
        OnFailure::Undo => Draft {
            summary: format!("{UNDO_SUMMARY}{why}"),
            subtasks: vec![calls_subtask(
                "undo",
                "Undo the changes".to_owned(),
                Vec::new(),
                vec![planned_call(tools::undo())],
            )],
        },
    }
}
