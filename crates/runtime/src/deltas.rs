//! Live previews of model replies, broadcast to listeners and never journaled.

use std::sync::{Arc, OnceLock};

use dirigent_core::id::AgentId;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

/// The number of deltas that a listener may lag behind before it misses the oldest deltas.
const CHANNEL_CAPACITY: usize = 256;

/// A piece of a model's reply, as it arrives. JSON: `{"agent": 1, "turn": 1, "start": 0, "text": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delta {
    /// The agent that asked the model.
    pub agent: AgentId,
    /// The number of the agent's model request, from 1. A request that is repeated after an interruption
    /// keeps its number, and the pieces start again at the beginning of the reply.
    pub turn: u32,
    /// The offset of the piece in the reply, in bytes. A listener that has received fewer bytes of the reply
    /// has missed pieces. An offset of 0 begins a reply, or begins the same reply again after an
    /// interruption.
    pub start: usize,
    /// The text of the piece.
    pub text: Arc<str>,
}

/// The listeners to the model replies of a run. The channel is created for the first listener.
#[derive(Clone, Default)]
pub(crate) struct Listeners(Arc<OnceLock<broadcast::Sender<Delta>>>);

impl Listeners {
    pub(crate) fn listen(&self) -> broadcast::Receiver<Delta> {
        self.0
            .get_or_init(|| broadcast::channel(CHANNEL_CAPACITY).0)
            .subscribe()
    }

    /// Returns the channel to the listeners; `None` if there are no listeners.
    pub(crate) fn sender(&self) -> Option<broadcast::Sender<Delta>> {
        self.0.get().filter(|sender| sender.receiver_count() > 0).cloned()
    }
}
