//! Chat models: what an agent asks. A model knows nothing of runs or agents.
#![warn(missing_docs)]

pub mod offline;
pub mod openai;
mod request;

use dirigent_core::message::{ModelFailure, ModelReply};
use futures::future::BoxFuture;

pub use offline::OfflineModel;
pub use openai::{OpenAiModel, OpenAiOptions};
pub use request::{ChatRequest, Deltas, ReplyFormat};

/// A model that continues a conversation.
pub trait ChatModel: Send + Sync + 'static {
    /// Answers the request. Dropping the future cancels it.
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>>;
}

impl<M: ChatModel + ?Sized> ChatModel for std::sync::Arc<M> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        (**self).chat(request)
    }
}
