//! What was observed, as a planner, a reflector or a sub-agent reads it: within the context budget (PAOR-6).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::shorten::{shorten, shorten_value};
use crate::observation::{Finding, Observation, ObservationStatus};

/// Characters that one string of an observation may have in a prompt.
pub(super) const MAX_STRING: usize = 3_000;
/// The same where there is little room left.
const MIN_STRING: usize = 200;
/// Bytes that all observations together may have in a prompt; what is beyond is counted, and failures come first.
const MAX_OBSERVATIONS: usize = 120_000;

/// The observations as JSON, one an element, within the context budget (PAOR-6): long strings shortened with their handle,
/// and when all of them are too much, failures first, each the shorter the less room there is, and the rest counted.
pub(super) fn observation_lines<'a>(observed: impl IntoIterator<Item = &'a Observation>) -> Vec<Value> {
    let observed: Vec<&Observation> = observed.into_iter().collect();
    let (failed, others): (Vec<usize>, Vec<usize>) =
        (0..observed.len()).partition(|index| observed[*index].status() == ObservationStatus::Failed);
    let (mut lines, mut room) = (BTreeMap::new(), MAX_OBSERVATIONS);
    for index in failed.into_iter().chain(others) {
        let fitting = [MAX_STRING, MIN_STRING]
            .into_iter()
            .filter(|_| room > MIN_STRING)
            .map(|max| line_within(observed[index], max))
            .map(|line| (line.to_string().len(), line))
            .find(|(size, _)| *size <= room);
        if let Some((size, line)) = fitting {
            room -= size;
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
    let counted =
        (!left_out.is_empty()).then(|| json!({"left_out": left_out.len(), "of_these_succeeded": succeeded}));
    lines.into_values().chain(counted).collect()
}

/// A value with its long strings shortened, and as shortened text where it is long for other reasons.
fn short(value: &Value, max: usize, handle: &str) -> Value {
    let value = shorten_value(value, max, Some(handle));
    let text = value.to_string();
    if text.len() <= 4 * max {
        value
    } else {
        Value::String(shorten(&text, 4 * max, Some(handle)).into_owned())
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
        Finding::Skipped {
            because: Some(because),
        } => line["because"] = json!(because),
        Finding::Skipped { because: None } => {
            line["because"] = json!("the user gave guidance that changes the plan")
        }
        Finding::Calls { calls } => {
            line["duration_ms"] = json!(observation.duration);
            line["calls"] = calls
                .iter()
                .map(|observed| {
                    let handle = observed.effect.to_string();
                    json!({
                        "tool": observed.call.tool,
                        "parameters": short(&observed.call.parameters, max, &handle),
                        "result": short(&observed.result.for_model(), max, &handle),
                        "duration_ms": observed.result.duration,
                        "handle": handle,
                    })
                })
                .collect();
        }
        Finding::Agent {
            name, result, work, ..
        } => {
            line["duration_ms"] = json!(observation.duration);
            line["agent"] = json!(name);
            match result {
                Ok(findings) => line["findings"] = json!(shorten(findings, 4 * max, None)),
                Err(failure) => line["error"] = json!(shorten(&failure.to_string(), max, None)),
            }
            if !work.findings_so_far.is_empty() {
                line["findings_so_far"] = json!(shorten(&work.findings_so_far, max, None));
            }
            line["calls"] = work
                .calls
                .iter()
                .map(|call| {
                    let parameters = short(&call.parameters, max, &call.effect.to_string());
                    let mut digest =
                        json!({"tool": call.tool, "parameters": parameters, "success": call.success});
                    if let Some(error) = &call.error {
                        digest["error"] = json!(error);
                    }
                    digest["handle"] = json!(call.effect);
                    digest
                })
                .collect();
            line["changes"] = work
                .changes
                .iter()
                .map(|change| Value::String(change.to_string()))
                .collect();
        }
    }
    line
}
