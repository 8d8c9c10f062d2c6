//! Client of Anthropic's and Gemini's own APIs, built on the crate `genai`. No type of `genai` is part of the public interface.
//!
//! For any server with OpenAI's chat completions API (Groq, DeepSeek, xAI, Cohere, Mistral, Together, OpenRouter, Ollama, vLLM and others),
//! use [`OpenAiModel`](crate::OpenAiModel) with its `base_url`: for those servers, `genai` would drop calls without an index, offer Cohere
//! no tools, and read replies without a size limit. For Anthropic's or Gemini's API at another URL, use a [`HostedModel`] with that
//! `base_url`.
//!
//! No environment variable is read. The key comes from the options, is sent in one header, and is removed from everything that a
//! server sends back, so no error, log or reply contains it.
//!
//! # Requests
//! Roles alternate: consecutive messages of the same role are joined. The form of calls
//! ([`CallForm`](dirigent_core::call::CallForm)) decides how messages are converted:
//!
//! | message | native calls | calls in the text, or no tools offered |
//! | --- | --- | --- |
//! | system | system prompt | system prompt |
//! | user | user text | user text |
//! | assistant | text, then its calls with their ids | its text, unchanged |
//! | a call's result | user: tool result with the call's id | user text: `Result of NAME:`, then the result's JSON |
//!
//! In requests, a tool name that is not 1 to 64 letters, digits, `_` and `-` is replaced, as by
//! [`OpenAiModel`](crate::OpenAiModel). Names that `genai` reserves for a provider's own tools are replaced, too.
//!
//! - **Caching.** A request to Anthropic has three cache breakpoints: at the end of the system prompt (or of the tools, if there is no
//!   system prompt), of the second to last message, and of the last message. So each turn uses the cache of the turn before, even if
//!   the last message has changed since. Gemini caches without breakpoints.
//! - **Format.** A JSON Schema for the text ([`ReplyFormat`](crate::ReplyFormat)) is sent to Gemini if no tools are offered, as Gemini
//!   refuses both together; it is not sent to Anthropic.
//! - **Thinking.** Anthropic requires that its signed thinking is sent back with a call's result, but Dirigent's messages have no field
//!   for it. So with native calls, thinking is turned off for models that think by default. Gemini accepts a placeholder for its
//!   signatures, which `genai` adds for models with `gemini-3` in their name, but not for aliases such as `gemini-flash-latest`.
//!   A model name that ends in `-low`, `-medium`, `-high`, … sets this thinking effort, and is sent without the suffix (for Anthropic only
//!   if calls are in the text).
//!
//! # Replies
//! Thinking is not part of the content. A reply counts as interrupted if the stream ends without its last event or the
//! provider gives an unknown stop reason: only complete replies count (CALL-7). It counts as filtered if the provider's
//! filter stops it or the model refuses. Missing token counts are estimated. Every event resets the timeout, including Anthropic's pings:
//! while a model generates a long call, the server may send nothing but pings.
//!
//! # Limitations of `genai`
//! - It buffers an error's body, and each event until it is complete, without a size limit: `max_reply_bytes` bounds the buffered
//!   reply, and only the timeouts bound the rest.
//! - It does not expose the content type: a web page at a wrong `base_url` looks like a stream without a reply.
//! - It requires that the blocks of Anthropic's reply follow each other, as documented. It skips events without a name, and misses
//!   the name of an event if the network splits a line's CR LF. If blocks overlap or an event has no name, the reply counts
//!   as interrupted.
//! - It logs servers' errors with `tracing`, and such an error may repeat parts of the request. Its logging is disabled.

mod client;
mod complete;
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

use crate::completion::{Completion, CompletionError, CompletionModel, CompletionRequest};
use crate::http::HttpClient;
use crate::options::ModelSetupError;
use crate::{ChatModel, ChatRequest};
use client::Client;
pub use options::{HostedApi, HostedOptions};

/// A model, called through its provider's own API. Clones share the model.
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

    /// Lists the names of the provider's chat models, in the provider's order.
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

impl CompletionModel for HostedModel {
    fn complete(
        &self,
        request: CompletionRequest,
    ) -> BoxFuture<'static, Result<Completion, CompletionError>> {
        complete::complete(self.client.clone(), request).boxed()
    }
}

impl fmt::Debug for HostedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedModel")
            .field("options", &self.client.options)
            .finish_non_exhaustive()
    }
}
