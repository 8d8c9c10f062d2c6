//! Formats observations for the prompts of leads, reflectors and sub-agents, within a size budget (PAOR-6).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::handle::OutputHandle;
use super::sections::{CallLine, ObservationLine};
use super::shorten::{shorten_output, shorten_result};
use super::work_order::{WorkOrder, outdates};
use crate::agent_report::{AgentAnswer, AgentReport, AgentWork, CallSummary};
use crate::confirmation::Outdated;
use crate::id::EffectId;
use crate::observation::{Observation, ObservationStatus, ObservedCall, SubTaskResult};
use crate::plan::{LEAD, Plan};
use crate::text::{shorten, shorten_error, shorten_value, single_line};
use crate::tool::{ModelToolResult, OmittedPart};

/// Maximum length of a string in an observation in a prompt, in characters.
pub(super) const MAX_STRING: usize = 3_000;
/// Maximum length of a string if little room remains, in characters.
const MIN_STRING: usize = 200;
/// Maximum length of the output of an agent's call if little room remains, in characters.
const MIN_OUTPUT: usize = 400;
/// Maximum size of all observations in a prompt, in bytes. Failures take precedence; observations that do not fit are only counted.
const MAX_OBSERVATIONS: usize = 120_000;
/// Maximum size of the observations of all earlier iterations in a prompt, in bytes.
const MAX_EARLIER: usize = 24_000;
/// Maximum length of an agent's findings from an earlier iteration, in characters.
const EARLIER_FINDINGS: usize = 800;
/// Maximum length of a call's result from an earlier iteration, in characters.
const EARLIER_RESULT: usize = 300;

/// Maximum length of a text in the parameters of a call if little room remains, in characters.
const MIN_PARAMETER: usize = 1_000;
/// Maximum length of a text in the parameters of a call that only changed files, if the prompt has the run's diff, in characters.
const EDIT_TEXT: usize = 80;

/// Maximum length of a text in the parameters of a call that is shown briefly, in characters.
const BRIEF_TEXT: usize = 80;
/// Maximum length of the error of a call that was refused before it ran, in characters.
const REFUSED_ERROR: usize = 200;

/// A function that formats an observation.
type Form<'a> = &'a dyn Fn(&Observation) -> Value;

/// Formats the observations of an iteration as JSON, one value per observation, within the size budget (PAOR-6). Long strings are
/// shortened, with a handle for reading the rest. If the observations exceed the budget, failures take precedence, later observations are
/// shortened more, and the rest is only counted.
pub(super) fn observation_lines<'a>(
    observed: impl IntoIterator<Item = &'a Observation>,
    iteration: Option<u32>,
) -> Vec<Value> {
    let (observed, mut room): (Vec<&Observation>, _) = (observed.into_iter().collect(), MAX_OBSERVATIONS);
    let forms: [Form<'_>; 2] = [
        &|observation| line_within(observation, MAX_STRING),
        &|observation| line_within(observation, MIN_STRING),
    ];
    lines_within(&observed, &forms, &mut room, iteration)
}

/// Like [`observation_lines`], but for the reflector: includes the shortened output of each call of an agent. An observation that does not
/// fit with these details is formatted without them. Calls that cannot matter to the judgement have a brief line: refused calls, and
/// successful ones whose results a later change has outdated. `plan` tells which sub-tasks ran after which.
///
/// With [`FileEdits::InDiff`], the texts of calls that only changed files and the lists of changes are left out.
pub(super) fn judged_lines(
    observed: &[Observation],
    plan: Option<&Plan>,
    iteration: u32,
    edits: FileEdits,
) -> Vec<Value> {
    let order = &WorkOrder::new(observed, plan);
    let (observed, mut room): (Vec<&Observation>, _) = (observed.iter().collect(), MAX_OBSERVATIONS);
    let form = |max, agent_calls| {
        move |observation: &Observation| {
            let lines = LineForm {
                max,
                agent_calls,
                edits,
                later: order.outdated_by_later(observation),
                readers: Readers::Reflector,
            };
            json!(lines.line(observation))
        }
    };
    let (long, short) = (
        form(MAX_STRING, AgentCalls::WithOutput),
        form(MIN_STRING, AgentCalls::WithOutput),
    );
    let brief = form(MIN_STRING, AgentCalls::Brief);
    lines_within(&observed, &[&long, &short, &brief], &mut room, Some(iteration))
}

/// Shortens each text in the parameters of a call to its beginning, which shows what the call works on.
pub(super) fn brief_parameters(parameters: &Value) -> Value {
    match parameters {
        Value::String(text) => Value::String(single_line(text, BRIEF_TEXT)),
        Value::Array(items) => items.iter().map(brief_parameters).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), brief_parameters(field)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => parameters.clone(),
    }
}

/// Whether the lines show what calls changed in files.
#[derive(Clone, Copy)]
pub(super) enum FileEdits {
    /// The lines contain the texts that were replaced and written.
    Shown,
    /// The lines omit these texts, because the prompt contains the run's diff.
    InDiff,
}

impl FileEdits {
    /// Returns the maximum number of characters of a text in a call's parameters. `max` is the maximum for results.
    fn max_text(self, shown_by_diff: bool, max: usize) -> usize {
        match self {
            FileEdits::InDiff if shown_by_diff => EDIT_TEXT,
            FileEdits::InDiff | FileEdits::Shown => max.max(MIN_PARAMETER),
        }
    }

    /// Returns true if an output only repeats what the diff shows.
    fn hides_output(self, shown_by_diff: bool) -> bool {
        match self {
            FileEdits::InDiff => shown_by_diff,
            FileEdits::Shown => false,
        }
    }
}

/// How much detail an observation's line gives about each call of an agent.
#[derive(Clone, Copy)]
enum AgentCalls {
    /// Only whether the call succeeded, and its error.
    Brief,
    /// Also the shortened output.
    WithOutput,
}

/// Formats the observations of earlier iterations briefly, as one list per iteration, in the order of `iterations`. If not all of them fit,
/// later iterations take precedence.
pub(crate) fn earlier_observations(iterations: &[(u32, &[Observation])]) -> Vec<Vec<Value>> {
    let mut room = MAX_EARLIER;
    let mut lines: Vec<Vec<Value>> = iterations
        .iter()
        .rev()
        .map(|(iteration, observed)| {
            let observed: Vec<&Observation> = observed.iter().collect();
            lines_within(&observed, &[&earlier_line], &mut room, Some(*iteration))
        })
        .collect();
    lines.reverse();
    lines
}

/// Formats each observation with the first function in `forms` whose result fits the remaining room. Failures come first. The last line
/// counts the omitted observations and contains the handle for reading them.
fn lines_within(
    observed: &[&Observation],
    forms: &[Form<'_>],
    room: &mut usize,
    iteration: Option<u32>,
) -> Vec<Value> {
    let (failed, others): (Vec<usize>, Vec<usize>) =
        (0..observed.len()).partition(|index| observed[*index].status() == ObservationStatus::Failed);
    let mut lines = BTreeMap::new();
    for index in failed.into_iter().chain(others) {
        let fitting = forms
            .iter()
            .filter(|_| *room > MIN_STRING)
            .map(|form| form(observed[index]))
            .map(|line| (line.to_string().len(), line))
            .find(|(size, _)| *size <= *room);
        if let Some((size, line)) = fitting {
            *room -= size;
            lines.insert(index, line);
        }
    }
    let omitted: Vec<&Observation> = (0..observed.len())
        .filter(|index| !lines.contains_key(index))
        .map(|index| observed[index])
        .collect();
    let succeeded = omitted
        .iter()
        .filter(|observation| observation.succeeded())
        .count();
    let counted = (!omitted.is_empty()).then(|| {
        let mut counted = json!({"left_out": omitted.len(), "of_these_succeeded": succeeded});
        if let Some(iteration) = iteration {
            counted["handle"] = json!(OutputHandle::Iteration(iteration).to_string());
        }
        counted
    });
    lines.into_values().chain(counted).collect()
}

/// Shortens long strings in a value. If the value is still too long, replaces it with its shortened JSON text.
fn short(value: &Value, max: usize, handle: Option<&str>) -> Value {
    let value = shorten_value(value, max, handle);
    let text = value.to_string();
    let most = max.saturating_mul(4);
    if text.len() <= most {
        value
    } else {
        Value::String(shorten(&text, most, handle).into_owned())
    }
}

/// Shortens a result: a log to about `max` characters, a list or data to four times as many.
fn short_result(whole: ModelToolResult, max: usize, handle: &str) -> Value {
    let most = match (&whole.output, whole.omit) {
        (Some(Value::String(_)), OmittedPart::Middle) => max,
        (_, OmittedPart::Middle | OmittedPart::End) => max.saturating_mul(4),
    };
    json!(shorten_result(whole, most, Some(handle)))
}

/// Formats the complete observations of an iteration, to which the iteration's handle refers.
pub fn whole_observations<'a>(observed: impl IntoIterator<Item = &'a Observation>) -> Value {
    let whole: Vec<Value> = observed
        .into_iter()
        .map(|observation| line_within(observation, usize::MAX))
        .collect();
    json!({ "observations": whole })
}

/// Formats the complete report of an agent, to which the agent's handle refers.
pub fn whole_report(report: &AgentReport) -> Value {
    let lines = LineForm {
        max: usize::MAX,
        agent_calls: AgentCalls::Brief,
        edits: FileEdits::Shown,
        later: Vec::new(),
        readers: Readers::Agents,
    };
    let calls = report.work.calls.iter();
    let calls: Vec<CallLine> = calls.map(|call| lines.agent_call(call, false)).collect();
    let changes = changes(&report.work);
    match report.result.as_ref().map(AgentAnswer::text) {
        Ok(findings) => json!({"findings": findings, "calls": calls, "changes": changes}),
        Err(failure) => {
            let mut whole = json!({"error": failure.to_string(), "calls": calls, "changes": changes});
            if !report.work.findings_so_far.is_empty() {
                whole["findings_so_far"] = json!(report.work.findings_so_far);
            }
            whole
        }
    }
}

/// Formats one observation for models.
pub fn observation_line(observation: &Observation) -> Value {
    line_within(observation, MAX_STRING)
}

/// Formats one observation with about `max` characters per string.
fn line_within(observation: &Observation, max: usize) -> Value {
    let lines = LineForm {
        max,
        agent_calls: AgentCalls::Brief,
        edits: FileEdits::Shown,
        later: Vec::new(),
        readers: Readers::Agents,
    };
    json!(lines.line(observation))
}

/// Who reads the lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readers {
    /// Agents that go on with the results.
    Agents,
    /// The reflector, which judges the run.
    Reflector,
}

/// How an observation is formatted.
struct LineForm {
    /// The number of characters per string.
    max: usize,
    agent_calls: AgentCalls,
    edits: FileEdits,
    /// What later sub-tasks have outdated.
    later: Vec<Outdated>,
    readers: Readers,
}

impl LineForm {
    fn line(&self, observation: &Observation) -> ObservationLine {
        let line = ObservationLine {
            subtask: observation.subtask.clone(),
            title: observation.title.clone(),
            status: observation.status(),
            may_fail: observation.may_fail,
            because: None,
            agent: None,
            findings: None,
            answer: None,
            error: None,
            findings_so_far: None,
            calls: None,
            changes: None,
        };
        match &observation.finding {
            SubTaskResult::Skipped { because } => ObservationLine {
                because: Some(match because {
                    Some(because) => because.to_string(),
                    None => "the user gave guidance that changes the plan".to_owned(),
                }),
                ..line
            },
            SubTaskResult::Calls { calls } => {
                let outdated = self.outdated(&observation.finding);
                let calls = calls.iter().zip(outdated);
                ObservationLine {
                    calls: Some(
                        calls
                            .map(|(call, outdated)| self.planned_call(call, outdated))
                            .collect(),
                    ),
                    ..line
                }
            }
            SubTaskResult::Agent {
                agent,
                name,
                result,
                work,
            } => {
                let handle = OutputHandle::Agent(*agent).to_string();
                let shorten = |text: &str, max| shorten(text, max, Some(&handle)).into_owned();
                let findings_so_far = &work.findings_so_far;
                let long = self.max.saturating_mul(4);
                let text = result.as_ref().ok().map(|text| shorten(text, long));
                let (answer, findings) = match is_lead(observation) {
                    true => (text, None),
                    false => (None, text),
                };
                let calls = work.calls.iter().zip(self.outdated(&observation.finding));
                let error = result.as_ref().err().map(ToString::to_string);
                ObservationLine {
                    agent: Some(name.clone()),
                    findings,
                    answer,
                    // An agent that gives up says there what it has found out.
                    error: error.map(|error| shorten(&error, long)),
                    findings_so_far: (!findings_so_far.is_empty())
                        .then(|| shorten(findings_so_far, self.max)),
                    calls: Some(
                        calls
                            .map(|(call, outdated)| self.agent_call(call, outdated))
                            .collect(),
                    ),
                    changes: match self.edits {
                        FileEdits::Shown => Some(changes(work)),
                        // The prompt lists all changes elsewhere.
                        FileEdits::InDiff => None,
                    },
                    ..line
                }
            }
        }
    }

    /// Returns for each call of a sub-task whether a later change has outdated its result. Always false for agents that go on with the
    /// results.
    fn outdated(&self, finding: &SubTaskResult) -> Vec<bool> {
        let by = outdates(finding);
        let tools: Vec<&str> = match finding {
            SubTaskResult::Calls { calls } => calls.iter().map(|call| call.call.tool.as_str()).collect(),
            SubTaskResult::Agent { work, .. } => work.calls.iter().map(|call| call.tool.as_str()).collect(),
            SubTaskResult::Skipped { .. } => Vec::new(),
        };
        let is_outdated = |(index, tool): (usize, &&str)| {
            let later = by[index + 1..].iter().chain(&self.later);
            self.readers == Readers::Reflector && later.copied().any(|later| later.concerns(tool))
        };
        tools.iter().enumerate().map(is_outdated).collect()
    }

    /// Formats a call of the plan.
    fn planned_call(&self, observed: &ObservedCall, is_outdated: bool) -> CallLine {
        let handle = observed.effect.to_string();
        let shown_by_diff = observed.result.shown_by_diff();
        let is_brief = is_outdated && observed.result.succeeded();
        let hides_output = is_brief || self.edits.hides_output(shown_by_diff);
        let mut result = observed.result.for_model();
        result.output = result.output.filter(|_| !hides_output);
        CallLine {
            result: Some(short_result(result, self.max, &handle)),
            parameters: self.parameters(&observed.call.parameters, shown_by_diff, Some(observed.effect)),
            ..CallLine::new(&observed.call.tool, Some(handle))
        }
    }

    /// Formats a call of an agent.
    fn agent_call(&self, call: &CallSummary, is_outdated: bool) -> CallLine {
        let handle = call.effect.map(|effect| effect.to_string());
        let line = CallLine {
            success: Some(call.success),
            agent: call.agent,
            ..CallLine::new(&call.tool, handle.clone())
        };
        if call.effect.is_none() && self.readers == Readers::Reflector {
            // The call did not run.
            let error = call.error.as_deref();
            return CallLine {
                parameters: brief_parameters(&call.parameters),
                error: error.map(|error| shorten_error(error, REFUSED_ERROR, None).into_owned()),
                ..line
            };
        }
        let is_brief = is_outdated && call.success;
        let shows_output = match self.agent_calls {
            AgentCalls::Brief => false,
            AgentCalls::WithOutput => {
                !call.output.is_null() && !is_brief && !self.edits.hides_output(call.shown_by_diff)
            }
        };
        CallLine {
            parameters: self.parameters(&call.parameters, call.shown_by_diff, call.effect),
            error: call.error.clone(),
            output: shows_output.then(|| {
                let max = self.max.max(MIN_OUTPUT);
                shorten_output(&call.output, max, handle.as_deref(), OmittedPart::Middle)
            }),
            ..line
        }
    }

    fn parameters(&self, parameters: &Value, shown_by_diff: bool, call: Option<EffectId>) -> Value {
        let handle = call.map(|call| OutputHandle::Parameters(call).to_string());
        short(
            parameters,
            self.edits.max_text(shown_by_diff, self.max),
            handle.as_deref(),
        )
    }
}

/// Formats one observation of an earlier iteration: its result, and the handles for reading the complete output.
fn earlier_line(observation: &Observation) -> Value {
    let mut line = json!({"subtask": observation.subtask, "status": observation.status()});
    if observation.may_fail {
        line["may_fail"] = json!(true);
    }
    match &observation.finding {
        SubTaskResult::Skipped { .. } => {}
        SubTaskResult::Calls { calls } => {
            line["calls"] = calls
                .iter()
                .map(|observed| {
                    let handle = observed.effect.to_string();
                    let result = shorten_result(observed.result.for_model(), EARLIER_RESULT, Some(&handle));
                    json!({"tool": observed.call.tool, "result": result.to_string(), "handle": handle})
                })
                .collect();
        }
        SubTaskResult::Agent {
            agent, name, result, ..
        } => {
            let handle = OutputHandle::Agent(*agent).to_string();
            line["agent"] = json!(name);
            match result {
                Ok(text) => {
                    let key = if is_lead(observation) {
                        "answer"
                    } else {
                        "findings"
                    };
                    line[key] = json!(shorten(text, EARLIER_FINDINGS, Some(&handle)));
                }
                Err(failure) => {
                    line["error"] = json!(shorten(&failure.to_string(), EARLIER_FINDINGS, Some(&handle)));
                }
            }
            line["handle"] = json!(handle);
        }
    }
    line
}

/// Returns true for the observation of the lead's own work, whose text is an answer to the user.
fn is_lead(observation: &Observation) -> bool {
    observation.subtask.0 == LEAD
}

/// Returns the agent's changes, without the exits of commands that changed no file.
fn changes(work: &AgentWork) -> Vec<String> {
    let reflected = work.changes.iter().filter(|change| change.is_reflected());
    reflected.map(ToString::to_string).collect()
}
