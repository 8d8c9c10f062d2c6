//! Chat models: what an agent asks. A model knows nothing of runs or agents.
#![warn(missing_docs)]

pub mod offline;

use std::sync::Arc;

use dirigent_core::message::{Message, ModelFailure, ModelReply};
use futures::future::BoxFuture;

pub use offline::OfflineModel;

/// A model that continues a conversation.
pub trait ChatModel: Send + Sync + 'static {
    /// Answers the request. Dropping the future cancels it.
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>>;
}

/// What is asked of a model.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// Which of the provider's models, where the agent names one.
    pub model: Option<String>,
    /// The conversation. Shared, not copied, with the agent.
    pub messages: Arc<Vec<Message>>,
}
