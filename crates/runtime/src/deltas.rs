//! Live previews of model replies, broadcast to listeners and never journaled.

use std::sync::{Arc, OnceLock};

use dirigent_core::id::AgentId;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

/// The number of deltas that a listener may lag behind before it misses the oldest.
const CHANNEL_CAPACITY: usize = 256;

/// A piece of a model's reply, as it arrives. JSON: `{"agent": 1, "turn": 1, "start": 0, "text": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delta {
    /// The agent that asked the model.
    pub agent: AgentId,
    /// The number of the agent's model request, from 1. A request that is repeated after an interruption keeps its number, and its pieces
    /// start again at the beginning of the reply.
    pub turn: u32,
    /// Where the piece begins in the reply, in bytes. A listener that has received less of the reply has missed pieces; 0 begins a reply, or the
    /// same one again after an interruption.
    pub start: usize,
    /// The text of the piece.
    pub text: Arc<str>,
}

/// The listeners to the replies of a run's models. The channel is created for the first listener.
#[derive(Clone, Default)]
pub(crate) struct Listeners(Arc<OnceLock<broadcast::Sender<Delta>>>);

impl Listeners {
    pub(crate) fn listen(&self) -> broadcast::Receiver<Delta> {
        self.0
            .get_or_init(|| broadcast::channel(CHANNEL_CAPACITY).0)
            .subscribe()
    }

    /// The channel to the listeners; `None` if there are none.
    pub(crate) fn sender(&self) -> Option<broadcast::Sender<Delta>> {
        self.0.get().filter(|sender| sender.receiver_count() > 0).cloned()
    }
}
