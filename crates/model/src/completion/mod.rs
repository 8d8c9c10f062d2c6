//! Chat completions passed on for clients of OpenAI's API (PROMPT-3): the client's request goes to a model, and the model's reply goes
//! back, without an agent in between.
//!
//! [`OpenAiModel`](crate::OpenAiModel) passes requests and replies on in their own words: fields that it does not know are kept.
//! [`HostedModel`](crate::HostedModel) translates them to its provider's API, and [`ChatCompletions`] to any [`ChatModel`](crate::ChatModel).
//! [`Limited`](crate::Limited) and [`Retrying`](crate::Retrying) work as for chat requests. A request is repeated only as long as
//! nothing of a reply has arrived: a stream begins with its first event.

mod chat;
mod chunks;
mod error;
mod fallback;
mod messages;
mod request;

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

pub use chat::ChatCompletions;
pub(crate) use chat::{Translation, reply_completion, stream_reply, translate};
pub(crate) use chunks::{ChunkWriter, FinishedCall, unique_id, whole_reply};
pub use error::CompletionError;
pub use fallback::{CompletionFallback, NamedCompletions};
pub(crate) use messages::{
    ClientMessage, ClientRequest, ClientTool, Role, Sampling, ToolChoice, unsupported,
};
pub use request::CompletionRequest;

/// A model that answers the requests of OpenAI clients.
pub trait CompletionModel: Send + Sync + 'static {
    /// Sends a request and returns the reply, or the beginning of its stream. Dropping the future or the stream cancels the request.
    fn complete(&self, request: CompletionRequest)
    -> BoxFuture<'static, Result<Completion, CompletionError>>;
}

impl<M: CompletionModel + ?Sized> CompletionModel for Arc<M> {
    fn complete(
        &self,
        request: CompletionRequest,
    ) -> BoxFuture<'static, Result<Completion, CompletionError>> {
        (**self).complete(request)
    }
}

/// The reply to an OpenAI client.
pub enum Completion {
    /// The reply in one piece.
    Whole {
        /// The JSON of a `chat.completion` object.
        json: String,
        /// What the reply reports about itself.
        outcome: CompletionOutcome,
    },
    /// The reply while the model generates it, for a client that asked for a stream.
    Stream(CompletionStream),
}

/// A stream of a reply. It ends after [`CompletionEvent::Done`] or an error; an error means that the reply is incomplete.
pub type CompletionStream = BoxStream<'static, Result<CompletionEvent, CompletionError>>;

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum CompletionEvent {
    /// The JSON of a `chat.completion.chunk` object, on one line.
    Chunk(String),
    /// The reply is complete.
    Done(CompletionOutcome),
}

/// What a reply reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletionOutcome {
    /// Tokens of the request; `None` if the server sent no count.
    pub input_tokens: Option<u64>,
    /// Tokens of the reply; `None` if the server sent no count.
    pub output_tokens: Option<u64>,
    /// Name of the model that generated the reply; `None` if unknown.
    pub model: Option<String>,
    /// The finish reason of the last choice that has one.
    pub finish_reason: Option<String>,
}

impl std::fmt::Debug for Completion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Completion::Whole { json, .. } => f.debug_tuple("Whole").field(json).finish(),
            Completion::Stream(_) => f.write_str("Stream"),
        }
    }
}
