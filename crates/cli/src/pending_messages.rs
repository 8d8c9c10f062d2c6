//! What was said to a run that no process carries out, and waits until it goes on.

use dirigent::core::steering::Steering;
use dirigent::{ApprovalAnswer, Dirigent, DirigentError, EffectId, MessageState, PendingMessage, RunRecord};
use serde_json::{Value, json};

use crate::output::{Output, sanitize};

/// What waits for the next resume. A process that carries the run out takes it at once.
pub(crate) fn load_pending_messages(
    dirigent: &Dirigent,
    record: &RunRecord,
) -> Result<Vec<PendingMessage>, DirigentError> {
    match record.owner_pid {
        Some(_) => Ok(Vec::new()),
        None => dirigent.pending_messages(record.run),
    }
}

/// All of it in a line; none where nothing is kept.
pub(crate) fn pending_messages_line(messages: &[PendingMessage]) -> Option<String> {
    let words: Vec<String> = messages
        .iter()
        .map(|message| summary(&message.steering))
        .collect();
    (!words.is_empty()).then(|| format!("pending until the next resume: {}", words.join(" · ")))
}

/// For programs: what was said, in that order.
pub(crate) fn pending_messages_json(messages: &[PendingMessage]) -> Value {
    json!(
        messages
            .iter()
            .map(|message| &message.steering)
            .collect::<Vec<_>>()
    )
}

/// Tells what of that was not taken after all, and why.
pub(crate) fn report_rejected(
    dirigent: &Dirigent,
    messages: &[PendingMessage],
    output: &Output,
) -> Result<(), DirigentError> {
    for word in messages {
        if let MessageState::Rejected { reason } = dirigent.message(word.message)? {
            output.note(&format!(
                "rejected: {}: {}",
                summary(&word.steering),
                sanitize(&reason)
            ));
        }
    }
    Ok(())
}

fn summary(said: &Steering) -> String {
    match said {
        Steering::Guide { guidance } => format!("guidance {}", quoted(guidance)),
        Steering::Redirect { guidance } => format!("guidance that cannot wait {}", quoted(guidance)),
        Steering::GuideAgent { agent, guidance } => format!("guidance for {agent} {}", quoted(guidance)),
        Steering::Decide { effect, decision } => {
            // The effect id of the call, whatever its attempt.
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
    let line = sanitize(words).replace(['\n', '\t'], " ");
    format!("\"{}\"", console::truncate_str(&line, 60, "…"))
}
