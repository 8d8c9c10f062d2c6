//! The messages about a run.

use dirigent::config::WebhookEvent;
use dirigent::events::{Event, Timestamp};
use dirigent::{EndReason, EventKind, RunRecord, RunState};
use serde_json::json;

use crate::entrance::add_fields;

/// Maximum length of a text in a message, in characters.
const MAX_TEXT: usize = 4_000;

/// A message to the webhooks that want it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    /// The same after a restart, so that a receiver recognises a message that it got before.
    pub(super) id: String,
    pub(super) event: WebhookEvent,
    pub(super) at: Timestamp,
    pub(super) body: String,
}

impl Message {
    /// The message about an event of a run; `None` if no webhook is called for such an event.
    pub(super) fn about(event: &Event, record: &RunRecord) -> Option<Message> {
        let (kind, about, more) = match &event.kind {
            EventKind::RunFinished {
                reason: EndReason::UserRequired,
                ..
            } => return None,
            EventKind::RunFinished { reason, summary } => {
                let state = RunState::from_end(reason);
                let more = json!({"state": state, "end": reason.to_string(), "summary": shortened(summary)});
                (WebhookEvent::Finished, "end".to_owned(), more)
            }
            EventKind::ApprovalAsked { approval } => {
                let call = approval.effect.to_string();
                let more = json!({"waits_for": "approval", "call": call, "tool": approval.tool, "digest": approval.digest});
                (WebhookEvent::Waiting, call, more)
            }
            EventKind::QuestionAsked { effect, question, .. } => {
                let id = effect.to_string();
                let more = json!({"waits_for": "answer", "question": id, "text": shortened(&question.question), "choices": question.choices});
                (WebhookEvent::Waiting, id, more)
            }
            _ => return None,
        };
        let mut data =
            json!({"run": record.run, "goal": shortened(&record.goal), "workspace": record.workspace});
        add_fields(&mut data, more);
        let name = match kind {
            WebhookEvent::Finished => "run.finished",
            _ => "run.waiting",
        };
        let body = json!({"type": name, "timestamp": iso(event.at), "data": data});
        Some(Message {
            // The signature separates its parts by dots.
            id: format!("{}-{}-{}", record.run, event.seq, about.replace('.', "-")),
            event: kind,
            at: event.at,
            body: body.to_string(),
        })
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn iso(at: Timestamp) -> String {
    let at = i64::try_from(at.0)
        .ok()
        .and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    at.unwrap_or_default().to_string()
}
