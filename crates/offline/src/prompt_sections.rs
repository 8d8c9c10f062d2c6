//! What the prompts of a run say, typed: sections, observations, earlier iterations, answers.
//!
//! Lines that can't be read are skipped: what is not understood is never acted on.

use dirigent_core::plan::Plan;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::conversation::CallResult;
use super::empty_plan::EmptyPlan;

/// The tagged sections of a request.
#[derive(Clone, Copy)]
pub(crate) struct Sections<'a>(pub &'a str);

impl<'a> Sections<'a> {
    /// The text between `<NAME>` at the start of a line and `</NAME>`.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        let opening = format!("<{name}>");
        let start = self
            .0
            .match_indices(&opening)
            .map(|(at, _)| at)
            .find(|&at| at == 0 || self.0[..at].ends_with('\n'))?;
        let inside = &self.0[start + opening.len()..];
        let end = inside
            .find(&format!("\n</{name}>"))
            .or_else(|| inside.find(&format!("</{name}>")))?;
        Some(inside[..end].trim())
    }

    /// The JSON objects of a section, one a line.
    fn objects<T: DeserializeOwned>(&self, name: &str) -> Vec<T> {
        let lines = self.text(name).unwrap_or_default().lines();
        lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The user's guidance with its numbers.
    pub fn guidance(&self) -> Vec<(u32, String)> {
        let mut guidance: Vec<(u32, String)> = Vec::new();
        for line in self.text("GUIDANCE").unwrap_or_default().lines() {
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

    /// The user's answers to the run's questions, in order.
    pub fn answers(&self) -> Vec<UserAnswer> {
        self.objects("ANSWERS")
    }

    /// The iterations before this one.
    pub fn iterations(&self) -> Vec<PastIteration> {
        self.objects("ITERATIONS")
    }

    /// What was observed: in the last iteration for a planner, in this one for a reflector.
    pub fn observations(&self) -> Vec<Observation> {
        self.objects("OBSERVATIONS")
    }

    /// The plan of this iteration.
    pub fn plan(&self) -> Option<Plan> {
        serde_json::from_str(self.text("PLAN")?).ok()
    }

    /// The files that the run has changed.
    pub fn changed_files(&self) -> Vec<String> {
        let lines = self.text("CHANGED_FILES").unwrap_or_default().lines();
        lines
            .filter_map(|line| line.strip_prefix("- "))
            .map(|path| path.trim().to_owned())
            .collect()
    }
}

/// An answer of the user's.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct UserAnswer {
    /// The user's words.
    pub answer: String,
}

/// An earlier iteration.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PastIteration {
    /// The summary of its plan.
    #[serde(default)]
    pub plan: String,
    /// What its reflection said.
    #[serde(default)]
    pub reflection: String,
    /// What followed: `continue` or `ask_user`.
    #[serde(default)]
    pub verdict: String,
}

/// How a sub-task ended.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Observation {
    /// Which one.
    pub subtask: String,
    /// How.
    pub status: Status,
    /// The calls it made.
    #[serde(default)]
    pub calls: Vec<ObservedCall>,
    /// What a sub-agent found.
    #[serde(default)]
    pub findings: Option<String>,
    /// Why a sub-agent ended without findings.
    #[serde(default)]
    pub error: Option<String>,
}

/// How a sub-task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// It did what it was for.
    Succeeded,
    /// It did not.
    Failed,
    /// It never started.
    Skipped,
}

/// A call of a sub-task. A sub-agent's calls come without their results.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ObservedCall {
    /// The tool's name.
    pub tool: String,
    /// Its parameters.
    #[serde(default)]
    pub parameters: Value,
    /// What came of it.
    #[serde(default)]
    pub result: Option<CallResult>,
}

impl Observation {
    /// The call that failed, with its result.
    pub fn failed_call(&self) -> Option<(&ObservedCall, &CallResult)> {
        self.calls
            .iter()
            .filter_map(|call| Some((call, call.result.as_ref()?)))
            .find(|(_, result)| !result.success)
    }

    /// The call of which it is unknown what came of it, as the process ended meanwhile.
    pub fn interrupted_call(&self) -> Option<&ObservedCall> {
        self.calls
            .iter()
            .find(|call| call.result.as_ref().is_some_and(CallResult::was_interrupted))
    }

    /// The program of a command that could not be run because it is nowhere.
    pub fn missing_program(&self) -> Option<&str> {
        let (_, result) = self.failed_call()?;
        in_backticks(result.error.as_deref()?.strip_prefix("no program ")?)
    }

    /// Why it failed, in a line.
    pub fn failure_reason(&self) -> String {
        let call = self.failed_call().and_then(|(_, result)| result.error.clone());
        self.error
            .clone()
            .or(call)
            .unwrap_or_else(|| "it gives no reason".to_owned())
    }
}

/// How the reflection of an iteration begins in which a call was interrupted.
pub(crate) const INTERRUPTED: &str = "Interrupted: ";

/// How the reflection of an iteration begins after which what was changed is put back.
pub(crate) const GIVEN_UP: &str = "Given up, so what was changed is put back next: ";

/// How a plan begins that puts back what was changed.
pub(crate) const UNDO_SUMMARY: &str = "Put back what was changed: ";

/// How the reflection of an iteration begins that a check could not be part of, as its program is not there.
pub(crate) const NOT_INSTALLED: &str = "Not installed: ";

impl PastIteration {
    /// Whether its plan had anything to execute.
    pub fn had_subtasks(&self) -> bool {
        EmptyPlan::parse(&self.plan).is_none()
    }

    /// Whether it was gone on from for a reason that says nothing of the change.
    pub fn was_inconclusive(&self) -> bool {
        self.reflection.starts_with(INTERRUPTED) || self.reflection.starts_with(NOT_INSTALLED)
    }

    /// Why the change was given up, where its plan puts the files back.
    pub fn undo_reason(&self) -> Option<&str> {
        self.plan.strip_prefix(UNDO_SUMMARY)
    }

    /// The program that was found missing.
    pub fn missing_program(&self) -> Option<&str> {
        in_backticks(self.reflection.strip_prefix(NOT_INSTALLED)?)
    }
}

/// The iterations since the files were last put back: those before it have left nothing.
pub(crate) fn since_last_undo(iterations: &[PastIteration]) -> &[PastIteration] {
    let last = iterations
        .iter()
        .rposition(|iteration| iteration.undo_reason().is_some());
    &iterations[last.map_or(0, |last| last + 1)..]
}

/// The text between the backticks that it opens with.
fn in_backticks(text: &str) -> Option<&str> {
    Some(text.strip_prefix('`')?.split_once('`')?.0)
}

/// The observation of that sub-task.
pub(crate) fn find_observation<'a>(
    observations: &'a [Observation],
    subtask: &str,
) -> Option<&'a Observation> {
    observations
        .iter()
        .find(|observation| observation.subtask == subtask)
}

/// Those of the sub-tasks whose names start like this.
pub(crate) fn observations_with_prefix<'a>(
    observations: &'a [Observation],
    prefix: &'a str,
) -> impl Iterator<Item = &'a Observation> {
    observations
        .iter()
        .filter(move |observation| observation.subtask.starts_with(prefix))
}
