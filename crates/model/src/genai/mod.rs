//! Anthropic's and Gemini's models by their providers' own APIs, through the crate `genai`, which is not part of the interface.
//!
//! For any server with OpenAI's chat completions (Groq, DeepSeek, xAI, Cohere, Mistral, Together, OpenRouter, Ollama, vLLM and others),
//! use [`OpenAiModel`](crate::OpenAiModel) with its `base_url`: there, `genai` would drop calls without an index, offer Cohere no tools,
//! and read replies without a size limit. For Anthropic's or Gemini's API at another address, use a [`HostedModel`] with that `base_url`.
//!
//! No environment variable is read. The key comes with the options, goes into one header, and is removed from everything that a
//! server sends back, so no error, log or reply holds it.
//!
//! # Requests
//! Roles alternate: consecutive messages of one side are joined. The form of calls
//! ([`CallForm`](dirigent_core::call::CallForm)) decides how the conversation is written:
//!
//! | message | native calls | calls in the text, or no tools offered |
//! | --- | --- | --- |
//! | system | system prompt | system prompt |
//! | user | text of the user | text of the user |
//! | assistant | text, then its calls with their ids | its text, unchanged |
//! | a call's result | result of the user, with the call's id | text of the user: `Result of NAME:`, then the result's JSON |
//!
//! Tool names other than 1 to 64 letters, digits, `_` and `-` are replaced on the wire, as by
//! [`OpenAiModel`](crate::OpenAiModel), and so are names that `genai` reserves for a provider's own tools.
//!
//! - **Caching.** Anthropic is asked to cache everything up to three places: the end of the system prompt (or of the tools, if there
//!   is none), of the last message but one, and of the last message. So each turn reads what the turn before it wrote, even if the
//!   last message has changed meanwhile. Gemini caches by itself.
//! - **Format.** A JSON Schema for the text ([`ReplyFormat`](crate::ReplyFormat)) is sent to Gemini if no tools are offered, as Gemini
//!   refuses both together; it is not sent to Anthropic.
//! - **Thinking.** Anthropic requires its signed thinking back with a call's result, and messages have no place for it. So with native
//!   calls, thinking is turned off for models that think by default. Gemini accepts a placeholder for its signatures, which
//!   `genai` adds for models with `gemini-3` in their name; aliases such as `gemini-flash-latest` miss it.
//!   A model name that ends in `-low`, `-medium`, `-high`, … sets this thinking effort, and is sent without the ending (for Anthropic only
//!   if calls are in the text).
//!
//! # Replies
//! Thinking is not part of the content. A reply counts as interrupted if the stream ends without its last event or the
//! provider gives an unknown stop reason: only complete replies count (CALL-7). It counts as filtered if the provider's
//! filter stops it or the model refuses. Missing token counts are estimated. Every event resets the timeout, including Anthropic's pings:
//! a model that writes a long call sends nothing else for a while.
//!
//! # Limitations of `genai`
//! - It buffers an error's body, and each event until it is complete, without a size limit: `max_reply_bytes` bounds the buffered
//!   reply, and only the timeouts bound the rest.
//! - It does not expose the content type: a web page at a wrong `base_url` looks like a stream without a reply.
//! - It expects the blocks of Anthropic's reply one after another, as documented. It skips events
//!   without a name, and creates such events itself if the network splits a line's CR LF. The reply counts as
//!   interrupted in either case.
//! - It logs servers' errors with `tracing`, and such an error may repeat parts of the request. Its logging is disabled.

mod client;
mod exchange;
mod failure;
mod frame_sink;
mod model_list;
mod options;
mod reply;
mod wire;

use std::fmt;
use std::sync::Arc;

use dirigent_core::message::{ModelFailure, ModelReply};
use futures::future::{BoxFuture, FutureExt};

use crate::http::HttpClient;
use crate::options::ModelSetupError;
use crate::{ChatModel, ChatRequest};
use client::Client;
pub use options::{HostedApi, HostedOptions};

/// A model behind its provider's own API. Clones share the model.
#[derive(Clone)]
pub struct HostedModel {
    client: Arc<Client>,
}

impl HostedModel {
    /// Creates a model with its own HTTP client.
    pub fn new(options: HostedOptions) -> Result<Self, ModelSetupError> {
        let client = HttpClient::new(options.timeouts.connect)?;
        HostedModel::with_client(options, &client)
    }

    /// Creates a model that shares an HTTP client with others.
    pub fn with_client(options: HostedOptions, client: &HttpClient) -> Result<Self, ModelSetupError> {
        let client = Arc::new(Client::new(options, client)?);
        Ok(HostedModel { client })
    }

    /// Lists the names of the provider's chat models, in its order.
    pub async fn models(&self) -> Result<Vec<String>, ModelFailure> {
        self.client.models().await
    }
}

impl ChatModel for HostedModel {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let client = self.client.clone();
        async move { client.chat(&request).await }.boxed()
    }
}

impl fmt::Debug for HostedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedModel")
            .field("options", &self.client.options)
            .finish_non_exhaustive()
    }
}
