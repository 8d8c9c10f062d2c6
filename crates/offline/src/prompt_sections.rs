//! Parsing of the tagged sections of a request, which core renders from the same [tags](dirigent_core::tags) and types.
//!
//! Lines that cannot be parsed are skipped.

#[cfg(test)]
mod tests;

use dirigent_core::observation::ObservationStatus;
use dirigent_core::plan::Plan;
use dirigent_core::prompt::{
    AnsweredQuestion, CallLine, ObservationLine, PastIteration, PastReflection, parse_observations,
};
use dirigent_core::reflection::ReflectionVerdict;
use dirigent_core::tags;
use dirigent_core::tool::ModelToolResult;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::conversation::was_interrupted;
use super::empty_plan::EmptyPlan;
use super::role_texts::{INTERRUPTED, NOT_INSTALLED, UNDO_SUMMARY};

/// An agent's request with tagged sections and, for a lead, the run's later messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sections<'a> {
    request: &'a str,
    later: Vec<Later<'a>>,
}

/// A message to a lead after its request: it continues the lead, or has new guidance.
#[derive(Clone, Debug)]
pub(crate) struct Later<'a> {
    pub text: &'a str,
    /// The summary of the plan whose result this message is; empty if there is none.
    pub plan: String,
}

impl Later<'_> {
    /// Returns true if the text continues a lead.
    pub fn is_continuation(text: &str) -> bool {
        section(text, tags::ITERATION).is_some()
    }

    /// Returns true if the text is new guidance.
    pub fn is_guidance(text: &str) -> bool {
        text.starts_with(&format!("<{}>\n", tags::GUIDANCE))
    }

    /// The iteration that has ended before the message; `None` if no iteration has ended.
    fn ended(&self) -> Option<PastIteration<'static>> {
        let observations = parse_observations(section(self.text, tags::OBSERVATIONS).unwrap_or_default());
        let judgement = section(self.text, tags::JUDGEMENT);
        let interrupted = section(self.text, tags::INTERRUPTED);
        if observations.is_empty() && judgement.is_none() && interrupted.is_none() {
            return None;
        }
        let (number, _) = section(self.text, tags::ITERATION)?.split_once(' ')?;
        let judgement: Option<Judgement> =
            judgement.and_then(|judgement| serde_json::from_str(judgement).ok());
        Some(PastIteration {
            iteration: number.parse::<u32>().ok()?.checked_sub(1)?,
            plan: self.plan.clone().into(),
            reflection: judgement.map(|judgement| PastReflection {
                verdict: judgement.verdict,
                summary: judgement.summary.into(),
            }),
            interrupted: interrupted.map(|why| why.to_owned().into()),
            observations,
        })
    }
}

/// The end of the line of a file that changed while commands ran.
const DURING_COMMANDS: &str = "; changed while command";
/// What follows the path of a file that file tools changed, too.
const ALSO: &str = "; also changed while command";

#[derive(Deserialize)]
struct Judgement {
    verdict: ReflectionVerdict,
    summary: String,
}

/// Returns the text between `<TAG>`, which must begin a line, and `</TAG>`; `None` without such a section.
fn section<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let opening = format!("<{tag}>");
    let start = text
        .match_indices(&opening)
        .map(|(at, _)| at)
        .find(|&at| at == 0 || text[..at].ends_with('\n'))?;
    let inside = &text[start + opening.len()..];
    let end = inside
        .find(&format!("\n</{tag}>"))
        .or_else(|| inside.find(&format!("</{tag}>")))?;
    Some(inside[..end].trim())
}

fn json_lines<T: DeserializeOwned>(text: &str, tag: &str) -> impl Iterator<Item = T> {
    let lines = section(text, tag).unwrap_or_default().lines();
    lines.filter_map(|line| serde_json::from_str(line).ok())
}

fn observation_lines(text: &str) -> impl Iterator<Item = ObservationLine> + use<> {
    let observations = parse_observations(section(text, tags::OBSERVATIONS).unwrap_or_default());
    observations
        .into_iter()
        .filter_map(|observation| serde_json::from_value(observation).ok())
}

impl<'a> Sections<'a> {
    /// The sections of a request.
    pub fn new(request: &'a str) -> Self {
        Sections {
            request,
            later: Vec::new(),
        }
    }

    /// Adds a later message.
    pub fn add(&mut self, later: Later<'a>) {
        self.later.push(later);
    }

    /// Returns the text of a section of the request; `None` without such a section.
    pub fn text(&self, tag: &str) -> Option<&'a str> {
        section(self.request, tag)
    }

    /// The request and all later messages.
    fn texts(&self) -> impl Iterator<Item = &'a str> {
        std::iter::once(self.request).chain(self.later.iter().map(|later| later.text))
    }

    /// Returns the user's guidance: the number and the text of each entry.
    pub fn guidance(&self) -> Vec<(u32, String)> {
        let mut guidance: Vec<(u32, String)> = Vec::new();
        let sections = self.texts().filter_map(|text| section(text, tags::GUIDANCE));
        for line in sections.flat_map(str::lines) {
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
        self.texts()
            .flat_map(|text| json_lines(text, tags::ANSWERS))
            .collect()
    }

    /// Returns the iterations before this one.
    pub fn iterations(&self) -> Vec<PastIteration<'static>> {
        let later = self.later.iter().filter_map(Later::ended);
        json_lines(self.request, tags::ITERATIONS).chain(later).collect()
    }

    /// Returns the observations: for a lead, of the last iteration; for a reflector, of this iteration.
    pub fn observations(&self) -> Vec<ObservationLine> {
        let mut continuations = self.later.iter().rev().map(|later| later.text);
        let last = continuations.find(|text| Later::is_continuation(text));
        observation_lines(last.unwrap_or(self.request)).collect()
    }

    /// For a lead, returns the observations of all earlier iterations that this conversation contains.
    pub fn past_observations(&self) -> impl Iterator<Item = ObservationLine> {
        let continuations = self.texts().skip(1).filter(|text| Later::is_continuation(text));
        std::iter::once(self.request)
            .chain(continuations)
            .flat_map(observation_lines)
    }

    /// Returns the plan of this iteration.
    pub fn plan(&self) -> Option<Plan> {
        serde_json::from_str(self.text(tags::PLAN)?).ok()
    }

    /// Returns the files that file tools have changed.
    pub fn changed_files(&self) -> Vec<String> {
        self.text(tags::CHANGED_FILES)
            .unwrap_or_default()
            .lines()
            .filter_map(|line| line.strip_prefix("- "))
            .filter_map(|line| match line.rsplit_once(" (") {
                Some((path, note)) if note.contains(ALSO) => Some(path),
                Some((_, note)) if note.contains(DURING_COMMANDS) => None,
                Some(_) | None => Some(line),
            })
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
