//! The interface that every chat model implements.

use dirigent_core::message::{ModelFailure, ModelReply};
use futures::future::BoxFuture;

use crate::request::ChatRequest;

/// A model that continues a conversation.
pub trait ChatModel: Send + Sync + 'static {
    /// Sends a request and returns the model's reply. Dropping the future cancels the request.
    ///
    /// The reply's usage is charged to the run's budget unchanged, so a reply that reports no tokens costs nothing. The models of this
    /// crate replace missing and implausible counts with estimates.
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>>;
}

impl<M: ChatModel + ?Sized> ChatModel for std::sync::Arc<M> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        (**self).chat(request)
    }
}
