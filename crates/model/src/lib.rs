//! Chat models: what an agent asks. A model knows nothing of runs or agents.
//!
//! [`OpenAiModel`] asks any server that speaks OpenAI's chat completions, [`HostedModel`] Anthropic and Gemini by their own
//! APIs. The others wrap a model and are models themselves: [`Limited`] keeps to its rate
//! limits, [`Retrying`] asks again, [`Fallback`] asks the next one, and [`Priced`] says what replies cost. Put together as
//! `Fallback` of `Retrying` of `Limited` of `OpenAiModel`, a model that waits to be asked again holds no place that another
//! could use.
#![warn(missing_docs)]

mod fallback;
pub mod genai;
mod limits;
pub mod openai;
mod priced;
pub mod provider;
mod request;
mod retry;
mod secrets;
mod token_window;
mod usage;

use dirigent_core::message::{ModelFailure, ModelReply};
use futures::future::BoxFuture;

pub use fallback::{Alternative, Fallback};
pub use genai::{HostedApi, HostedModel, HostedOptions};
pub use limits::{Limited, ModelLimits};
pub use openai::{OpenAiModel, OpenAiOptions};
pub use priced::Priced;
pub use provider::{Protocol, Provider};
pub use request::{ChatRequest, DeltaSink, ReplyFormat};
pub use retry::{Jitter, RetryPolicy, Retrying};

/// A model that continues a conversation.
pub trait ChatModel: Send + Sync + 'static {
    /// Answers the request. Dropping the future cancels it.
    ///
    /// The reply's usage counts as it is: a model that reports no tokens uses none of a run's budget. The models of this crate replace
    /// counts that are missing or can't be right by estimates.
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>>;
}

impl<M: ChatModel + ?Sized> ChatModel for std::sync::Arc<M> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        (**self).chat(request)
    }
}
