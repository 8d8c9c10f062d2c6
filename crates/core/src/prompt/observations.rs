//! What was observed, as a planner, a reflector or a sub-agent reads it: within the context budget (PAOR-6).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::handle::OutputHandle;
use crate::agent_report::{AgentAnswer, AgentReport, AgentWork, CallSummary};
use crate::observation::{Observation, ObservationStatus, SubTaskResult};
use crate::text::{shorten, shorten_value};

/// Characters that one string of an observation may have in a prompt.
pub(super) const MAX_STRING: usize = 3_000;
/// The same where there is little room left.
const MIN_STRING: usize = 200;
/// Bytes that all observations together may have in a prompt; what is beyond is counted, and failures come first.
const MAX_OBSERVATIONS: usize = 120_000;
/// Bytes that the observations of all earlier iterations together may have in a prompt.
const MAX_EARLIER: usize = 24_000;
/// Characters of an agent's findings in an earlier iteration.
const EARLIER_FINDINGS: usize = 800;
/// Characters of a call's result in an earlier iteration.
const EARLIER_RESULT: usize = 300;

/// The observations as JSON, one an element, within the context budget (PAOR-6): long strings shortened with their handle,
/// and when all of them are too much, failures first, each the shorter the less room there is, and the rest counted. `iteration` is theirs.
pub(super) fn observation_lines<'a>(
    observed: impl IntoIterator<Item = &'a Observation>,
    iteration: Option<u32>,
) -> Vec<Value> {
    let (observed, mut room): (Vec<&Observation>, _) = (observed.into_iter().collect(), MAX_OBSERVATIONS);
    let forms: [fn(&Observation) -> Value; 2] = [
        |observation| line_within(observation, MAX_STRING),
        |observation| line_within(observation, MIN_STRING),
    ];
    lines_within(&observed, &forms, &mut room, iteration)
}

/// The observations of earlier iterations in short, for each iteration in the order given: the later ones are the first for which there is room.
pub(crate) fn earlier_observations(iterations: &[(u32, &[Observation])]) -> Vec<Vec<Value>> {
    let mut room = MAX_EARLIER;
    let mut lines: Vec<Vec<Value>> = iterations
        .iter()
        .rev()
        .map(|(iteration, observed)| {
            let observed: Vec<&Observation> = observed.iter().collect();
            lines_within(&observed, &[earlier_line], &mut room, Some(*iteration))
        })
        .collect();
    lines.reverse();
    lines
}

/// A line for each observation in the first of the forms for which there is room, failures first, and one that counts the others and says
/// how to read them.
fn lines_within(
    observed: &[&Observation],
    forms: &[fn(&Observation) -> Value],
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
    let left_out: Vec<&Observation> = (0..observed.len())
        .filter(|index| !lines.contains_key(index))
        .map(|index| observed[index])
        .collect();
    let succeeded = left_out
        .iter()
        .filter(|observation| observation.succeeded())
        .count();
    let counted = (!left_out.is_empty()).then(|| {
        let mut counted = json!({"left_out": left_out.len(), "of_these_succeeded": succeeded});
        if let Some(iteration) = iteration {
            counted["handle"] = json!(OutputHandle::Iteration(iteration).to_string());
        }
        counted
    });
    lines.into_values().chain(counted).collect()
}

/// A value with its long strings shortened, and as shortened text where it is long for other reasons.
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

/// Observations with nothing left out: what the handle of their iteration stands for.
pub fn whole_observations<'a>(observed: impl IntoIterator<Item = &'a Observation>) -> Value {
    let whole: Vec<Value> = observed
        .into_iter()
        .map(|observation| line_within(observation, usize::MAX))
        .collect();
    json!({ "observations": whole })
}

/// What an agent ended with, with nothing left out: what the agent's handle stands for.
pub fn whole_report(report: &AgentReport) -> Value {
    let result = report.result.as_ref().map(AgentAnswer::text);
    match result {
        Ok(findings) => {
            json!({"findings": findings, "calls": digests(&report.work, usize::MAX), "changes": changes(&report.work)})
        }
        Err(failure) => {
            json!({"error": failure.to_string(), "calls": digests(&report.work, usize::MAX), "changes": changes(&report.work)})
        }
    }
}

/// One observation as a model reads it.
pub fn observation_line(observation: &Observation) -> Value {
    line_within(observation, MAX_STRING)
}

/// As [`observation_line`], with about `max` characters for each string.
fn line_within(observation: &Observation, max: usize) -> Value {
    let mut line =
        json!({"subtask": observation.subtask, "title": observation.title, "status": observation.status()});
    match &observation.finding {
        SubTaskResult::Skipped {
            because: Some(because),
        } => line["because"] = json!(because),
        SubTaskResult::Skipped { because: None } => {
            line["because"] = json!("the user gave guidance that changes the plan")
        }
        SubTaskResult::Calls { calls } => {
            line["duration_ms"] = json!(observation.duration);
            line["calls"] = calls
                .iter()
                .map(|observed| {
                    let handle = observed.effect.to_string();
                    json!({
                        "tool": observed.call.tool,
                        "parameters": short(&observed.call.parameters, max, Some(&handle)),
                        "result": short(&observed.result.for_model(), max, Some(&handle)),
                        "duration_ms": observed.result.duration,
                        "handle": handle,
                    })
                })
                .collect();
        }
        SubTaskResult::Agent {
            agent,
            name,
            result,
            work,
        } => {
            let handle = OutputHandle::Agent(*agent).to_string();
            line["duration_ms"] = json!(observation.duration);
            line["agent"] = json!(name);
            match result {
                Ok(findings) => {
                    line["findings"] = json!(shorten(findings, max.saturating_mul(4), Some(&handle)));
                }
                Err(failure) => line["error"] = json!(shorten(&failure.to_string(), max, Some(&handle))),
            }
            if !work.findings_so_far.is_empty() {
                line["findings_so_far"] = json!(shorten(&work.findings_so_far, max, Some(&handle)));
            }
            line["calls"] = digests(work, max);
            line["changes"] = changes(work);
        }
    }
    line
}

/// One observation of an earlier iteration: what came of it, and the handles by which all of it is read.
fn earlier_line(observation: &Observation) -> Value {
    let mut line = json!({"subtask": observation.subtask, "status": observation.status()});
    match &observation.finding {
        SubTaskResult::Skipped { .. } => {}
        SubTaskResult::Calls { calls } => {
            line["calls"] = calls
                .iter()
                .map(|observed| {
                    let handle = observed.effect.to_string();
                    let result = observed.result.for_model().to_string();
                    json!({"tool": observed.call.tool, "result": shorten(&result, EARLIER_RESULT, Some(&handle)), "handle": handle})
                })
                .collect();
        }
        SubTaskResult::Agent {
            agent, name, result, ..
        } => {
            let handle = OutputHandle::Agent(*agent).to_string();
            line["agent"] = json!(name);
            match result {
                Ok(findings) => line["findings"] = json!(shorten(findings, EARLIER_FINDINGS, Some(&handle))),
                Err(failure) => {
                    line["error"] = json!(shorten(&failure.to_string(), EARLIER_FINDINGS, Some(&handle)));
                }
            }
            line["handle"] = json!(handle);
        }
    }
    line
}

fn digests(work: &AgentWork, max: usize) -> Value {
    let digest = |call: &CallSummary| {
        let handle = call.effect.map(|effect| effect.to_string());
        let parameters = short(&call.parameters, max, handle.as_deref());
        let mut digest = json!({"tool": call.tool, "parameters": parameters, "success": call.success});
        if let Some(error) = &call.error {
            digest["error"] = json!(error);
        }
        if let Some(handle) = handle {
            digest["handle"] = json!(handle);
        }
        digest
    };
    work.calls.iter().map(digest).collect()
}

fn changes(work: &AgentWork) -> Value {
    let changes = work.changes.iter();
    changes.map(|change| Value::String(change.to_string())).collect()
}
