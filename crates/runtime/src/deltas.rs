//! What models are saying, as it comes: told to whoever listens, and journaled nowhere. A preview: what counts is the reply.

use std::sync::{Arc, OnceLock};

use dirigent_core::id::AgentId;
use tokio::sync::broadcast;

/// Pieces that a listener may be behind before it misses the oldest.
const CHANNEL_CAPACITY: usize = 256;

/// A piece of what a model is saying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The agent whose model it is.
    pub agent: AgentId,
    /// The request's number in the agent's loop, from 1. A request that is asked again, as it broke off, begins anew with the same
    /// number.
    pub turn: u32,
    /// The piece.
    pub text: Arc<str>,
}

/// Those who listen to a run's models. It costs nothing until somebody does.
#[derive(Clone, Default)]
pub(crate) struct Listeners(Arc<OnceLock<broadcast::Sender<Delta>>>);

impl Listeners {
    pub(crate) fn listen(&self) -> broadcast::Receiver<Delta> {
        self.0
            .get_or_init(|| broadcast::channel(CHANNEL_CAPACITY).0)
            .subscribe()
    }

    /// Where pieces go; none where nobody listens.
    pub(crate) fn sender(&self) -> Option<broadcast::Sender<Delta>> {
        self.0.get().filter(|sender| sender.receiver_count() > 0).cloned()
    }
}
