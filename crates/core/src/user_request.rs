//! The kinds of requests to the user that calls of agents wait for.

use serde::{Deserialize, Serialize};

/// Whether a waiting call of an agent needs a decision or an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserRequestKind {
    /// The user's decision about the call (APPROVE-1).
    #[default]
    Decision,
    /// The user's answer to the call's question (LEAD-4).
    Answer,
}

impl UserRequestKind {
    pub(crate) fn is_default(&self) -> bool {
        *self == UserRequestKind::default()
    }
}
