//! What an agent has changed so far, and what its commands and requests have shown, for the overview with a result (LOOP-8).

use crate::tool::StateChange;

/// A change since the agent started, or a command or a request that changed nothing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChangeSoFar {
    pub(super) text: String,
    pub(super) times: usize,
    kind: SoFarKind,
}

#[derive(Clone, Debug, PartialEq)]
enum SoFarKind {
    Change,
    /// A command or a request that changed nothing, and whether it succeeded.
    Observation {
        subject: String,
        success: bool,
    },
}

impl ChangeSoFar {
    pub(super) fn new(change: &StateChange) -> Self {
        let kind = match change {
            StateChange::ProcessExited { command, code, .. } if !change.is_reflected() => {
                SoFarKind::Observation {
                    subject: command.clone(),
                    success: *code == Some(0),
                }
            }
            StateChange::RequestSent { method, url, status } if !change.is_reflected() => {
                SoFarKind::Observation {
                    subject: format!("{method} {url}"),
                    success: *status < 400,
                }
            }
            StateChange::FileCreated { .. }
            | StateChange::FileEdited { .. }
            | StateChange::FileDeleted { .. }
            | StateChange::FileMoved { .. }
            | StateChange::ProcessExited { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => SoFarKind::Change,
        };
        let text = change.to_string();
        let times = 1;
        ChangeSoFar { text, times, kind }
    }

    /// Adds this to what is known, and removes what no longer matters.
    pub(super) fn add_to(mut self, found: &mut Vec<ChangeSoFar>) {
        if let Some(at) = found.iter().position(|known| known.text == self.text) {
            let is_changed_since = found[at..].iter().any(|known| known.kind == SoFarKind::Change);
            // The same result before and after a change is not the same.
            if self.kind == SoFarKind::Change || !is_changed_since {
                self.times += found[at].times;
            }
            found.remove(at);
        }
        found.retain(|known| match (&known.kind, &self.kind) {
            (SoFarKind::Change, _) => true,
            (SoFarKind::Observation { success, .. }, SoFarKind::Change) => !success,
            (SoFarKind::Observation { subject: known, .. }, SoFarKind::Observation { subject, .. }) => {
                known != subject
            }
        });
        found.push(self);
    }
}
