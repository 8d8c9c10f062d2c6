//! Chat models: clients of model servers, and wrappers around them. This crate is independent of runs and agents.
//!
//! [`OpenAiModel`] is a client for any server with OpenAI's chat completions API, [`HostedModel`] for Anthropic's and Gemini's own APIs.
//! The other models wrap a model: [`Limited`] enforces rate limits, [`Retrying`] retries requests, [`Fallback`] tries further models, and
//! [`Priced`] adds the cost of replies. Nest them as `Fallback` of `Retrying` of `Limited` of `OpenAiModel`: in this order, a request that
//! waits for its next attempt occupies no slot of the rate limiter.
//!
//! The module [`completion`] passes the requests of OpenAI clients on to the same models, with the same limits.
#![warn(missing_docs)]

mod chat_model;
pub mod completion;
mod deltas;
mod failure;
mod fallback;
pub mod genai;
mod http;
mod limits;
mod message_text;
mod names;
pub mod openai;
mod options;
mod priced;
pub mod provider;
mod request;
mod retry;
mod secrets;
mod time;
mod token_window;
mod usage;

pub use chat_model::ChatModel;
pub use completion::{
    ChatCompletions, Completion, CompletionError, CompletionEvent, CompletionFallback, CompletionModel,
    CompletionOutcome, CompletionRequest, CompletionStream, NamedCompletions,
};
pub use deltas::DeltaSink;
pub use fallback::{Alternative, Fallback};
pub use genai::{HostedApi, HostedModel, HostedOptions};
pub use http::HttpClient;
pub use limits::{Limited, ModelLimits};
pub use openai::{OpenAiModel, OpenAiOptions};
pub use options::{ModelSetupError, Timeouts};
pub use priced::Priced;
pub use provider::{Protocol, Provider};
pub use request::{ChatRequest, ReplyFormat};
pub use retry::{Jitter, RetryPolicy, Retrying};
