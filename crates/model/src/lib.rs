//! Chat models. A model knows nothing of runs or agents.
//!
//! [`OpenAiModel`] speaks to any server with OpenAI's chat completions, [`HostedModel`] to Anthropic and Gemini by their own
//! APIs. The other models wrap a model: [`Limited`] enforces rate limits, [`Retrying`] retries,
//! [`Fallback`] tries further models, and [`Priced`] adds the cost of replies. Nest them as `Fallback` of `Retrying` of `Limited` of
//! `OpenAiModel`: a model that waits for its next attempt then occupies no slot of the rate limiter.
#![warn(missing_docs)]

mod chat_model;
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
