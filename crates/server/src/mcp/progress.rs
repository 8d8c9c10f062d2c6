//! Progress notifications while a call waits for a run.

use dirigent::events::Event;
use dirigent::render::sanitize;
use dirigent::{EventKind, Phase};
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::time::Instant;

use super::snapshot::Snapshot;

/// Maximum length of a progress message, in characters.
const MAX_MESSAGE: usize = 200;

/// The progress notifications of one call. Nothing is sent unless the client asked for them.
pub(crate) struct Progress {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    sent: u32,
    last_sent: Instant,
}

impl Progress {
    pub(crate) fn of_call(context: &RequestContext<RoleServer>) -> Self {
        Progress {
            peer: context.peer.clone(),
            token: context.meta.get_progress_token(),
            sent: 0,
            last_sent: Instant::now(),
        }
    }

    /// When the client was told last that the call is under way, or when the call began.
    pub(crate) fn last_sent(&self) -> Instant {
        self.last_sent
    }

    /// Tells the client that the call waits, unless it was told already.
    pub(crate) async fn begin(&mut self, snapshot: &Snapshot) {
        if self.sent == 0 {
            self.send(format!("Waiting for run {}", snapshot.run.short()))
                .await;
        }
    }

    /// Tells the client about an event, if it is worth it.
    pub(crate) async fn tell(&mut self, event: &Event) {
        if let Some(message) = message(&event.kind) {
            self.send(message).await;
        }
    }

    /// Sends a message. Each one counts as a step, as nobody knows how many steps a run has.
    pub(crate) async fn send(&mut self, message: String) {
        self.last_sent = Instant::now();
        let Some(token) = &self.token else { return };
        self.sent += 1;
        let line = sanitize(message.lines().next().unwrap_or_default());
        let line: String = line.chars().take(MAX_MESSAGE).collect();
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(self.sent)).with_message(line);
        // Fails only if the client has gone, which the caller notices.
        let _ = self.peer.notify_progress(progress).await;
    }
}

/// The message about an event; `None` for an event that only matters to somebody who watches closely.
fn message(kind: &EventKind) -> Option<String> {
    Some(match kind {
        EventKind::PhaseChanged { transition } => match transition.to {
            Phase::Idle | Phase::Complete | Phase::Failed => return None,
            phase => format!("{phase} (iteration {})", transition.iteration),
        },
        EventKind::PlanMade { plan } => {
            format!("Plan with {} sub-tasks: {}", plan.subtasks.len(), plan.summary)
        }
        EventKind::SubTaskStarted { title, .. } => format!("Started: {title}"),
        EventKind::SubTaskFinished { observation } => format!("Ended: {}", observation.title),
        EventKind::AgentStarted { role, .. } => format!("Agent {} started", role.name()),
        EventKind::ToolStarted { tool, .. } => format!("Calls {tool}"),
        EventKind::ModelFailed { error } => format!("A model request failed: {error}"),
        EventKind::ApprovalAsked { approval } => format!("Waits for the approval of {}", approval.tool),
        EventKind::QuestionAsked { question, .. } => format!("Asks: {}", question.question),
        _ => return None,
    })
}
