//! Messages to a run that no process owns. They are stored until the run is resumed.

use dirigent::Steering;
use dirigent::{ApprovalAnswer, Dirigent, DirigentError, EffectId, MessageState, PendingMessage, RunRecord};
use serde_json::{Value, json};

use crate::output::{Output, sanitize};
use crate::plain::sharing_text;
use crate::request_text::one_line;

/// The run's pending messages; empty while a process owns the run, because that process handles messages at once.
pub(crate) async fn load_pending_messages(
    dirigent: &Dirigent,
    record: &RunRecord,
) -> Result<Vec<PendingMessage>, DirigentError> {
    match record.owner_pid {
        Some(_) => Ok(Vec::new()),
        None => dirigent.pending_messages(record.run).await,
    }
}

/// All messages on one line; `None` if there are none.
pub(crate) fn pending_messages_line(messages: &[PendingMessage]) -> Option<String> {
    let summaries: Vec<String> = messages
        .iter()
        .map(|message| summary(&message.steering))
        .collect();
    (!summaries.is_empty()).then(|| format!("pending until the next resume: {}", summaries.join(" · ")))
}

/// The messages as JSON, in the order in which they were sent.
pub(crate) fn pending_messages_json(messages: &[PendingMessage]) -> Value {
    json!(
        messages
            .iter()
            .map(|message| &message.steering)
            .collect::<Vec<_>>()
    )
}

/// Prints the messages that the resumed run rejected, each with the reason.
pub(crate) async fn report_rejected(
    dirigent: &Dirigent,
    messages: &[PendingMessage],
    output: &Output,
) -> Result<(), DirigentError> {
    for message in messages {
        if let MessageState::Rejected { reason } = dirigent.message(message.message).await? {
            output.note(&format!(
                "rejected: {}: {}",
                summary(&message.steering),
                sanitize(&reason)
            ));
        }
    }
    Ok(())
}

fn summary(message: &Steering) -> String {
    match message {
        Steering::Guide { guidance } => format!("guidance {}", quoted(guidance)),
        Steering::Redirect { guidance } => format!("immediate guidance {}", quoted(guidance)),
        Steering::GuideAgent { agent, guidance } => format!("guidance for {agent} {}", quoted(guidance)),
        Steering::Decide { effect, decision } => {
            // Users name a call without the number of its attempt.
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
        Steering::AllowCalls { calls } => format!("always allow {}", one_line(&calls.to_string())),
        Steering::ChangeTools { change } => {
            format!("the tools of {} have changed", one_line(&change.service))
        }
        Steering::ShareWorkspace { runs } => sharing_text(runs),
        Steering::Cancel => "cancel".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    let line = sanitize(text).replace(['\n', '\t'], " ");
    format!("\"{}\"", console::truncate_str(&line, 60, "…"))
}
