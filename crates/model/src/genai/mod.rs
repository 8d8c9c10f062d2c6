//! Anthropic's and Gemini's models by their providers' own APIs, through the crate `genai`, of which nothing shows.
//!
//! Whatever speaks OpenAI's chat completions (Groq, DeepSeek, xAI, Cohere, Mistral, Together, OpenRouter, Ollama, vLLM and others)
//! is asked with [`OpenAiModel`](crate::OpenAiModel), by its `base_url`: `genai` would drop calls that come without an index, knows
//! no tools for Cohere, and has no limit to what it reads. What speaks Anthropic's or Gemini's API at another address is asked with a
//! [`HostedModel`] by that `base_url`.
//!
//! No environment variable is read: the key comes in with the options, goes into one header, and is taken out of all that
//! a server sends back, so that it is in no error, no log and no reply.
//!
//! # What goes over the wire
//! Roles alternate: messages of one side in a row become one. How the conversation looks depends on how calls are made
//! ([`CallForm`](dirigent_core::call::CallForm)):
//!
//! | message | native calls | calls in the text, or no tools offered |
//! | --- | --- | --- |
//! | system | the system prompt | the system prompt |
//! | user | text of the user's | text of the user's |
//! | assistant | text, then its calls with their ids | its text as it was said |
//! | a call's result | the user's, as a result with the call's id | the user's: `Result of NAME:`, then the result's JSON |
//!
//! Names of tools that are not 1 to 64 letters, digits, `_` and `-` are others on the wire, as with
//! [`OpenAiModel`](crate::OpenAiModel), and so are those by which `genai` would mean a tool of the provider's own.
//!
//! - **Caching.** Anthropic is asked to cache what comes before three places: the end of the system prompt (or of the tools, where there
//!   is none), of the last message but one, and of the last message. So a turn reads what the turn before it wrote, also where the
//!   last message is another by then. Gemini caches by itself.
//! - **Form.** A JSON Schema for the text ([`ReplyFormat`](crate::ReplyFormat)) is sent to Gemini where no tools are offered, as it
//!   refuses both together; Anthropic is not told.
//! - **Thinking.** A message has no place for the signed thinking that Anthropic wants back with a call's result, so with native calls
//!   thinking is turned off where a model would think unasked. Gemini gets the placeholder that it accepts for its signatures, which
//!   `genai` adds for models that have `gemini-3` in their name: names such as `gemini-flash-latest` hide from it.
//!   A model's name that ends in `-low`, `-medium`, `-high`, … asks for that effort, without the ending (with Anthropic where calls are
//!   in the text).
//!
//! # What is made of a reply
//! Text that is thinking is no content. A reply counts as interrupted where the stream ends without its last event, or the
//! provider gives a reason that isn't known: only what a model finished saying counts (CALL-7). It counts as filtered where the provider's
//! filter stops it or the model refuses. Where the provider counted no tokens, they are estimated. Every event counts as a sign of life, Anthropic's pings among
//! them: a model that writes a long call sends nothing else for a while.
//!
//! # What `genai` can't do
//! - It holds an error's body, and an event until it is complete, whatever their size: `max_reply_bytes` bounds what is kept of a reply, and
//!   only the time limits bound the rest.
//! - It doesn't say what kind of page came with a success: a web page at a wrong `base_url` is a stream without a reply in it.
//! - It reads the blocks of Anthropic's reply one after another, as they are promised to come. It passes over events
//!   without a name, and makes such ones itself of lines that end in CR LF where the network parts the two. A reply counts as
//!   interrupted where either happens.
//! - What a server said in an error goes to `tracing`, with whatever it repeats of the request. It is kept from there.

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
use reqwest::Url;
use secrecy::SecretString;

use crate::openai::failure::FailureClassifier;
use crate::openai::options::{parse_base_url, redacted_url, url_secrets};
use crate::openai::{HttpClient, ModelSetupError};
use crate::secrets::Secrets;
use crate::{ChatModel, ChatRequest};
use failure::GenaiFailureClassifier;
pub use options::{HostedApi, HostedOptions};

/// A model of a provider's, by the provider's own API. Clones are the same model.
#[derive(Clone)]
pub struct HostedModel {
    shared: Arc<Shared>,
}

struct Shared {
    client: ::genai::Client,
    /// The same connections, for what is asked without `genai`.
    http: reqwest::Client,
    options: HostedOptions,
    /// Its path ends in `/`.
    base_url: Url,
    api_key: Option<SecretString>,
    failures: GenaiFailureClassifier,
}

impl HostedModel {
    /// A model with a client of its own.
    pub fn new(options: HostedOptions) -> Result<Self, ModelSetupError> {
        let client = HttpClient::new(options.timeouts.connect)?;
        HostedModel::with_client(options, &client)
    }

    /// A model that shares a client with others.
    pub fn with_client(options: HostedOptions, client: &HttpClient) -> Result<Self, ModelSetupError> {
        let base_url = options::base_url(&options.base_url)?;
        let api_key = options::api_key(options.api_key.as_ref())?;
        let http = client.for_server(&base_url).clone();
        let client = ::genai::Client::builder()
            .with_reqwest(http.clone())
            .build()
            .map_err(|error| ModelSetupError::Client {
                problem: error.to_string(),
            })?;
        let failures = GenaiFailureClassifier(FailureClassifier {
            server: format!("{} at {}", options.api.name(), redacted_url(&options.base_url)),
            secrets: Secrets::new(
                url_secrets(&parse_base_url(&options.base_url)?)
                    .iter()
                    .chain(&api_key),
            ),
        });
        Ok(HostedModel {
            shared: Arc::new(Shared {
                client,
                http,
                options,
                base_url,
                api_key,
                failures,
            }),
        })
    }

    /// The names of the models that the provider offers for conversations, in its order.
    pub async fn models(&self) -> Result<Vec<String>, ModelFailure> {
        self.shared.models().await
    }
}

impl ChatModel for HostedModel {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let shared = self.shared.clone();
        async move { shared.chat(&request).await }.boxed()
    }
}

impl fmt::Debug for HostedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedModel")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}
