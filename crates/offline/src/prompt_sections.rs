//! Parsing of the tagged sections of a request, which core renders from the same [tags](dirigent_core::tags) and types.
//!
//! Lines that cannot be parsed are skipped.

#[cfg(test)]
mod tests;

use dirigent_core::observation::ObservationStatus;
use dirigent_core::plan::Plan;
use dirigent_core::prompt::{AnsweredQuestion, CallLine, ObservationLine, PastIteration};
use dirigent_core::tags;
use dirigent_core::tool::ModelToolResult;
use serde::de::DeserializeOwned;

use super::conversation::was_interrupted;
use super::empty_plan::EmptyPlan;
use super::role_texts::{INTERRUPTED, NOT_INSTALLED, UNDO_SUMMARY};

/// The text of a request, with tagged sections.
#[derive(Clone, Copy)]
pub(crate) struct Sections<'a>(pub &'a str);

impl<'a> Sections<'a> {
    /// Returns the text between `<TAG>`, which must begin a line, and `</TAG>`; `None` without such a section.
    pub fn text(&self, tag: &str) -> Option<&'a str> {
        let opening = format!("<{tag}>");
        let start = self
            .0
            .match_indices(&opening)
            .map(|(at, _)| at)
            .find(|&at| at == 0 || self.0[..at].ends_with('\n'))?;
        let inside = &self.0[start + opening.len()..];
        let end = inside
            .find(&format!("\n</{tag}>"))
            .or_else(|| inside.find(&format!("</{tag}>")))?;
        Some(inside[..end].trim())
    }

    fn lines(&self, tag: &str) -> std::str::Lines<'a> {
        self.text(tag).unwrap_or_default().lines()
    }

    fn json_lines<T: DeserializeOwned>(&self, tag: &str) -> Vec<T> {
        self.lines(tag)
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Returns the user's guidance: number and text of each piece.
    pub fn guidance(&self) -> Vec<(u32, String)> {
        let mut guidance: Vec<(u32, String)> = Vec::new();
        for line in self.lines(tags::GUIDANCE) {
            let numbered = line
                .split_once(". ")
                .and_then(|(number, text)| Some((number.parse().ok()?, text)));
            match (numbered, guidance.last_mut()) {
                (Some((number, text)), _) => guidance.push((number, text.to_owned())),
                (None, Some((_, text))) => {
                    text.push('\n');
                    text.push_str(line);
                }
                (None, None) => {}
            }
        }
        guidance
    }

    /// Returns the run's questions with the user's answers, in order.
    pub fn answers(&self) -> Vec<AnsweredQuestion> {
        self.json_lines(tags::ANSWERS)
    }

    /// Returns the iterations before this one.
    pub fn iterations(&self) -> Vec<PastIteration<'static>> {
        self.json_lines(tags::ITERATIONS)
    }

    /// Returns the observations: in a planner's request, of the last iteration; in a reflector's request, of this iteration.
    pub fn observations(&self) -> Vec<ObservationLine> {
        self.json_lines(tags::OBSERVATIONS)
    }

    /// Returns the plan of this iteration.
    pub fn plan(&self) -> Option<Plan> {
        serde_json::from_str(self.text(tags::PLAN)?).ok()
    }

    /// Returns the files that the run has changed.
    pub fn changed_files(&self) -> Vec<String> {
        self.lines(tags::CHANGED_FILES)
            .filter_map(|line| line.strip_prefix("- "))
            .map(|path| path.trim().to_owned())
            .collect()
    }
}

/// Returns a call's result; `None` if the request omits the result or has only a shortened text of it.
pub(crate) fn result(call: &CallLine) -> Option<ModelToolResult> {
    serde_json::from_value(call.result.clone()?).ok()
}

/// Returns the calls of a sub-task.
pub(crate) fn calls(observation: &ObservationLine) -> &[CallLine] {
    observation.calls.as_deref().unwrap_or_default()
}

/// Returns the first failed call with its result.
pub(crate) fn failed_call(observation: &ObservationLine) -> Option<(&CallLine, ModelToolResult)> {
    calls(observation)
        .iter()
        .filter_map(|call| Some((call, result(call)?)))
        .find(|(_, result)| !result.success)
}

/// Returns the first interrupted call.
pub(crate) fn interrupted_call(observation: &ObservationLine) -> Option<&CallLine> {
    calls(observation)
        .iter()
        .find(|call| result(call).is_some_and(|result| was_interrupted(&result)))
}

/// Returns the program of a command that did not run because the program is not installed.
pub(crate) fn program_not_found(observation: &ObservationLine) -> Option<String> {
    let (_, result) = failed_call(observation)?;
    in_backticks(result.error?.strip_prefix("no program ")?).map(str::to_owned)
}

/// Returns the reason why a sub-task failed.
pub(crate) fn failure_reason(observation: &ObservationLine) -> String {
    observation
        .error
        .clone()
        .or_else(|| failed_call(observation)?.1.error)
        .unwrap_or_else(|| "no reason is known".to_owned())
}

/// Returns the observation of a sub-task.
pub(crate) fn find_observation<'a>(
    observations: &'a [ObservationLine],
    subtask: &str,
) -> Option<&'a ObservationLine> {
    observations
        .iter()
        .find(|observation| observation.subtask.0 == subtask)
}

/// Returns the observation of a sub-task if it has this status.
pub(crate) fn find_ended<'a>(
    observations: &'a [ObservationLine],
    subtask: &str,
    status: ObservationStatus,
) -> Option<&'a ObservationLine> {
    find_observation(observations, subtask).filter(|observation| observation.status == status)
}

/// Accessors for the summaries of a past iteration.
pub(crate) trait PastSummaries {
    /// Returns the reflection's summary; empty if the iteration ended before its reflection.
    fn reflected(&self) -> &str;

    /// Returns true if the plan had sub-tasks.
    fn had_subtasks(&self) -> bool;

    /// Returns true if the iteration's outcome says nothing about the change: a call was interrupted, or a program was not installed.
    fn was_inconclusive(&self) -> bool;

    /// Returns the reason why the plan undid the change; `None` if the plan was not an undo.
    fn undo_reason(&self) -> Option<&str>;

    /// Returns the program that a check of the iteration needed, if it was not installed.
    fn missing_program(&self) -> Option<&str>;
}

impl PastSummaries for PastIteration<'_> {
    fn reflected(&self) -> &str {
        self.reflection
            .as_ref()
            .map_or("", |reflection| &reflection.summary)
    }

    fn had_subtasks(&self) -> bool {
        EmptyPlan::parse(&self.plan).is_none()
    }

    fn was_inconclusive(&self) -> bool {
        self.reflected().starts_with(INTERRUPTED) || self.reflected().starts_with(NOT_INSTALLED)
    }

    fn undo_reason(&self) -> Option<&str> {
        self.plan.strip_prefix(UNDO_SUMMARY)
    }

    fn missing_program(&self) -> Option<&str> {
        in_backticks(self.reflected().strip_prefix(NOT_INSTALLED)?)
    }
}

/// Returns the iterations after the last undo, which reverted the changes of all iterations before it.
pub(crate) fn since_last_undo<'a, 'b>(iterations: &'b [PastIteration<'a>]) -> &'b [PastIteration<'a>] {
    let last = iterations
        .iter()
        .rposition(|iteration| iteration.undo_reason().is_some());
    &iterations[last.map_or(0, |last| last + 1)..]
}

/// Returns the text between backticks at the beginning of `text`; `None` if it does not begin with backticks.
fn in_backticks(text: &str) -> Option<&str> {
    Some(text.strip_prefix('`')?.split_once('`')?.0)
}
