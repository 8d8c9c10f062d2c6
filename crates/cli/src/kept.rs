//! What was said to a run that no process carries out, and waits until it goes on.

use dirigent::core::steering::Steering;
use dirigent::{ApprovalAnswer, Dirigent, DirigentError, EffectId, Kept, MessageState, RunRecord};
use serde_json::{Value, json};

use crate::output::{Output, inert};

/// What waits for the next resume. A process that carries the run out takes it at once.
pub(crate) fn kept_of(dirigent: &Dirigent, record: &RunRecord) -> Result<Vec<Kept>, DirigentError> {
    match record.held_by {
        Some(_) => Ok(Vec::new()),
        None => dirigent.kept(record.run),
    }
}

/// All of it in a line; none where nothing is kept.
pub(crate) fn kept_line(kept: &[Kept]) -> Option<String> {
    let words: Vec<String> = kept.iter().map(|kept| in_short(&kept.steering)).collect();
    (!words.is_empty()).then(|| format!("kept for the next resume: {}", words.join(" · ")))
}

/// For programs: what was said, in that order.
pub(crate) fn kept_json(kept: &[Kept]) -> Value {
    json!(kept.iter().map(|kept| &kept.steering).collect::<Vec<_>>())
}

/// Tells what of that was not taken after all, and why.
pub(crate) fn tell_refused(dirigent: &Dirigent, kept: &[Kept], output: &Output) -> Result<(), DirigentError> {
    for word in kept {
        if let MessageState::Refused { reason } = dirigent.message(word.message)? {
            output.note(&format!(
                "not taken: {}: {}",
                in_short(&word.steering),
                inert(&reason)
            ));
        }
    }
    Ok(())
}

fn in_short(said: &Steering) -> String {
    match said {
        Steering::Guide { guidance } => format!("guidance {}", quoted(guidance)),
        Steering::Redirect { guidance } => format!("guidance that cannot wait {}", quoted(guidance)),
        Steering::GuideAgent { agent, guidance } => format!("guidance for {agent} {}", quoted(guidance)),
        Steering::Decide { effect, decision } => {
            // The handle of the call, whatever its try.
            let call = EffectId {
                attempt: 0,
                ..*effect
            };
            match &decision.answer {
                ApprovalAnswer::Approve => format!("approve {call}"),
                ApprovalAnswer::Edit { .. } => format!("approve {call} with other parameters"),
                ApprovalAnswer::Reject { .. } => format!("reject {call}"),
                ApprovalAnswer::Guide { guidance } => format!("guide {call} {}", quoted(guidance)),
            }
        }
        Steering::Answer { answer, .. } => format!("answer {}", quoted(answer)),
        Steering::Cancel => "cancel".to_owned(),
    }
}

fn quoted(words: &str) -> String {
    let line = inert(words).replace(['\n', '\t'], " ");
    format!("\"{}\"", console::truncate_str(&line, 60, "…"))
}
