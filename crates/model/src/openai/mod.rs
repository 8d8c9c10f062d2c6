//! Client of OpenAI's chat completions API, for OpenAI, vLLM, llama.cpp, Ollama and any other server with this API.
//!
//! Servers differ in what they send, so replies are parsed as tolerantly as possible. Every failure is classified by whether a retry
//! or another model can help. A request is repeated only to leave out an optional field that the server refuses. The content of a
//! reply is never repaired. The key, and query values of the URL that may be a key, are removed from everything that a server sends
//! back.
//!
//! # Calls
//! [`ChatRequest::call_form`] decides the form of calls. [`CallForm::Native`] offers the tools natively, and ids link calls and
//! results (CALL-2). A tool name that the API does not accept (anything but 1 to 64 letters, digits, `_` and `-`) is replaced in
//! requests, such as `files.read` with `files_read_feef3122`, and restored in the reply; two tools with the same replacement are
//! [`ModelFailureKind::Rejected`]. In the other forms, calls are part of the text; a call that is missing from its message's
//! text, because it was made natively, is appended.
//! [`CallForm::ToolCall`] sends results as messages of the role `tool` with the tool's `name` (CALL-3), or of the role `user` if the
//! server refuses the role `tool`; the other text forms always use the role `user`.
//!
//! # Faults
//! Each fault ends in a failure with a [`ModelFailureKind`], or in a reply with a [`FinishReason`]. An interrupted reply
//! ([`FinishReason::Interrupted`]) was received in part: it is charged, and nothing in it is executed (CALL-7). A filtered or oversized
//! reply ([`FinishReason::Filtered`], [`FinishReason::Oversized`]) ends its agent, as another request would not help.
//! [`Retrying`](crate::Retrying) and [`Fallback`](crate::Fallback) decide by the kind of a failure whether to retry or to try another
//! model.
//!
#![doc = include_str!("faults.md")]

mod calls;
mod chat;
mod chunk;
mod client;
mod conversation;
mod exchange;
mod forward;
mod options;
mod reply;
mod sse;
mod wire;

use std::fmt;
use std::sync::Arc;

#[cfg(doc)]
use dirigent_core::call::CallForm;
#[cfg(doc)]
use dirigent_core::message::FinishReason;
use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply};
use futures::future::{BoxFuture, FutureExt};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::completion::{Completion, CompletionError, CompletionModel, CompletionRequest};
use crate::http::HttpClient;
use crate::names::is_model_name;
use crate::options::ModelSetupError;
use crate::time::deadline_after;
use crate::{ChatModel, ChatRequest};
use client::{BodyRead, Client};
pub use options::{Delivery, OpenAiOptions};

/// A model on a server with OpenAI's chat completions API. Clones share the model.
#[derive(Clone)]
pub struct OpenAiModel {
    client: Arc<Client>,
}

/// A model in a server's list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OfferedModel {
    /// Name of the model in requests.
    pub id: String,
    /// All other fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl OpenAiModel {
    /// Creates a model with its own HTTP client.
    pub fn new(options: OpenAiOptions) -> Result<Self, ModelSetupError> {
        let client = HttpClient::new(options.timeouts.connect)?;
        OpenAiModel::with_client(options, &client)
    }

    /// Creates a model that shares an HTTP client with others.
    pub fn with_client(options: OpenAiOptions, client: &HttpClient) -> Result<Self, ModelSetupError> {
        let client = Arc::new(Client::new(options, client)?);
        Ok(OpenAiModel { client })
    }

    /// Lists the models that the server offers, in the server's order: `data` or `models` of the response to `GET /models`, or the
    /// response itself if it is a list.
    ///
    /// Entries are left out if their `id` is empty, longer than 200 characters, or has invisible characters.
    ///
    /// # Errors
    /// As for a chat request; [`ModelFailureKind::Configuration`] if the response is not a list of models.
    pub async fn models(&self) -> Result<Vec<OfferedModel>, ModelFailure> {
        let client = &self.client;
        let until = deadline_after(client.options.timeouts.first);
        let request = client.http.get(client.models_url.clone());
        let response = client.send(request, until).await?;
        if !response.status().is_success() {
            return Err(client.read_error_response(response).await.failure);
        }
        let body = match client.read_body(response, until).await? {
            BodyRead::Complete(body) => body,
            BodyRead::TooLong => {
                return Err(client.failures.unavailable("its list of models is too long"));
            }
        };
        let body = client.failures.secrets.redact(&String::from_utf8_lossy(&body));
        offered_models(&body).ok_or_else(|| {
            let excerpt = client.failures.excerpt(&body);
            let message = format!("its list of models can't be read: {excerpt}. Check base_url");
            client.failures.failure(ModelFailureKind::Configuration, &message)
        })
    }
}

/// Parses a list of models; `None` if the text is not such a list.
fn offered_models(json: &str) -> Option<Vec<OfferedModel>> {
    let list = match serde_json::from_str(json).ok()? {
        Value::Array(list) => list,
        Value::Object(mut answer) => match (answer.remove("data"), answer.remove("models")) {
            (Some(Value::Array(list)), _) | (_, Some(Value::Array(list))) => list,
            // A server without models sends null.
            (Some(Value::Null), _) => Vec::new(),
            (Some(_) | None, _) => return None,
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    let models = list
        .into_iter()
        .filter_map(|model| serde_json::from_value::<OfferedModel>(model).ok());
    Some(models.filter(|model| is_model_name(&model.id)).collect())
}

impl ChatModel for OpenAiModel {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let client = self.client.clone();
        async move { client.chat(&request).await }.boxed()
    }
}

impl CompletionModel for OpenAiModel {
    fn complete(
        &self,
        request: CompletionRequest,
    ) -> BoxFuture<'static, Result<Completion, CompletionError>> {
        let client = self.client.clone();
        async move { forward::forward(client, &request).await }.boxed()
    }
}

impl fmt::Debug for OpenAiModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiModel")
            .field("options", &self.client.options)
            .finish_non_exhaustive()
    }
}
