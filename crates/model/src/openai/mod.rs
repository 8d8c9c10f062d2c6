//! Models behind OpenAI's chat completions: hosted ones, vLLM, llama.cpp, Ollama and whatever else speaks that API.
//!
//! Servers differ in what they send, so all that can be understood is, and all else is typed by what can be done about it. It
//! never asks twice on its own account, but for a field that a server has refused and that can be left out; never mends what a
//! model said; and never shows a secret, in an error or otherwise: the key, and what may be one in the address's query, is taken
//! out of all that a server sends back.
//!
//! # How calls are made
//! A request says it ([`ChatRequest::call_form`]). [`CallForm::Native`] offers its tools, and calls go with their results by ids (CALL-2).
//! Names of tools that the API does not take (anything but 1 to 64 letters, digits, `_` and `-`) are others on the wire, as
//! `files_read_feef3122` for `files.read`, and come back as they are; two tools that would have one name there are
//! [`ModelFailureKind::Rejected`]. In the other forms calls stand in the text, and one that was made otherwise is appended to it.
//! [`CallForm::ToolCall`] has results as messages of the role `tool` with the tool's `name` (CALL-3), or as the user's where the
//! server refuses those; the others have them as the user's.
//!
//! # What each fault ends in
//! In a failure, by its [`ModelFailureKind`], or in a reply, by its end. Of an interrupted one ([`FinishReason::Interrupted`]) something
//! had come: it was paid for, and nothing in it is acted on (CALL-7). A filtered or an oversized one ([`FinishReason::Filtered`],
//! [`FinishReason::Oversized`]) ends its agent: asking again would not help. What is tried again, or asked of another model, is for
//! [`Retrying`](crate::Retrying) and [`Fallback`](crate::Fallback) to decide by this.
//!
#![doc = include_str!("faults.md")]

mod calls;
mod conversation;
pub(crate) mod exchange;
pub(crate) mod failure;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod reply;
mod sse;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dirigent_core::call::CallForm;
#[cfg(doc)]
use dirigent_core::message::FinishReason;
use dirigent_core::message::{Message, ModelFailure, ModelFailureKind, ModelReply};
use dirigent_core::tool::ToolSpec;
use futures::future::{BoxFuture, FutureExt};
use reqwest::Url;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::request::deadline_after;
use crate::secrets::Secrets;
use crate::{ChatModel, ChatRequest, ReplyFormat};
use conversation::{Conversation, Layout, ToolRoleSupport};
use exchange::ResolvedRequest;
use failure::FailureClassifier;
use names::WireNames;
pub use options::{Delivery, ModelSetupError, OpenAiOptions, Timeouts};

/// A client for HTTP and HTTPS. Models that share one share its connections.
///
/// Requests go through the proxy that the environment names (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`). A server on this machine
/// is always asked directly: a proxy elsewhere cannot reach it.
#[derive(Clone, Debug)]
pub struct HttpClient {
    proxied: reqwest::Client,
    direct: reqwest::Client,
}

impl HttpClient {
    /// A client that gives up connecting after that time. Redirects are not followed: a request would lose its body or show its
    /// key on the way.
    pub fn new(connect: Duration) -> Result<Self, ModelSetupError> {
        // reqwest takes the process's provider of cryptography; if there is one already, it stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            reqwest::Client::builder()
                .connect_timeout(connect)
                .redirect(reqwest::redirect::Policy::none())
                .user_agent(concat!("dirigent/", env!("CARGO_PKG_VERSION")))
        };
        let build = |builder: reqwest::ClientBuilder| {
            builder.build().map_err(|error| ModelSetupError::Client {
                problem: exchange::error_chain(error),
            })
        };
        Ok(HttpClient {
            proxied: build(builder())?,
            direct: build(builder().no_proxy())?,
        })
    }

    /// The client for requests to the server at that address.
    pub(crate) fn for_server(&self, address: &Url) -> &reqwest::Client {
        if options::is_loopback(address) {
            &self.direct
        } else {
            &self.proxied
        }
    }
}

/// A model behind OpenAI's chat completions. Clones are the same model.
#[derive(Clone)]
pub struct OpenAiModel {
    shared: Arc<Shared>,
}

struct Shared {
    client: reqwest::Client,
    options: OpenAiOptions,
    chat_url: Url,
    models_url: Url,
    authorization: Option<HeaderValue>,
    failures: FailureClassifier,
    /// By model: what its server was found to refuse.
    unsupported: Mutex<BTreeMap<String, BTreeSet<OptionalField>>>,
}

/// A field of the request that some servers refuse, and that can be left out or said in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OptionalField {
    /// The text's form.
    ResponseFormat,
    /// The wish for a usage chunk.
    StreamOptions,
    /// `max_tokens`, for which newer servers say `max_completion_tokens`.
    MaxTokens,
    /// The role `tool` without a call's id (CALL-3), for which the user can say it.
    ToolRole,
}

/// A model that a server offers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OfferedModel {
    /// Its name in requests.
    pub id: String,
    /// What else the server says of it.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl OpenAiModel {
    /// A model with a client of its own.
    pub fn new(options: OpenAiOptions) -> Result<Self, ModelSetupError> {
        let client = HttpClient::new(options.timeouts.connect)?;
        OpenAiModel::with_client(options, &client)
    }

    /// A model that shares a client with others.
    pub fn with_client(options: OpenAiOptions, client: &HttpClient) -> Result<Self, ModelSetupError> {
        options::check_extra(&options.extra)?;
        let base = options::parse_base_url(&options.base_url)?;
        let (api_key, authorization) = options::authorization(options.api_key.as_ref())?.unzip();
        let server = format!("model server {}", options::redacted_url(&options.base_url));
        let secrets = Secrets::new(options::url_secrets(&base).iter().chain(&api_key));
        Ok(OpenAiModel {
            shared: Arc::new(Shared {
                client: client.for_server(&base).clone(),
                chat_url: options::endpoint(&base, &["chat", "completions"]),
                models_url: options::endpoint(&base, &["models"]),
                authorization,
                failures: FailureClassifier { server, secrets },
                unsupported: Mutex::default(),
                options,
            }),
        })
    }

    /// The models that the server offers, in its order: `data` or `models` of what it answers to `GET /models`, or the list that
    /// it answers.
    ///
    /// A name is text to show and to ask for, nothing else: what is no name (empty, longer than 200 characters, or with characters
    /// that can't be seen) is left out. Failures are those of a request; where the answer is no such list, it is
    /// [`ModelFailureKind::Configuration`].
    pub async fn models(&self) -> Result<Vec<OfferedModel>, ModelFailure> {
        let shared = &self.shared;
        let until = deadline_after(shared.options.timeouts.first);
        let request = shared.client.get(shared.models_url.clone());
        let response = shared.send(request, until).await?;
        if !response.status().is_success() {
            return Err(shared.read_error_response(response).await.failure);
        }
        let body = match shared.read_body(response, until).await? {
            exchange::BodyRead::Complete(body) => body,
            exchange::BodyRead::TooLong => {
                return Err(shared.failures.unavailable("its list of models is too long"));
            }
        };
        let said = shared.failures.secrets.redact(&String::from_utf8_lossy(&body));
        offered_models(&said).ok_or_else(|| {
            let said = shared.failures.excerpt(&said);
            let message = format!("its list of models can't be read: {said}. Check base_url");
            shared.failures.failure(ModelFailureKind::Configuration, &message)
        })
    }
}

/// The models of a list; none where it is no list of models.
fn offered_models(said: &str) -> Option<Vec<OfferedModel>> {
    let list = match serde_json::from_str(said).ok()? {
        Value::Array(list) => list,
        Value::Object(mut answer) => match (answer.remove("data"), answer.remove("models")) {
            (Some(Value::Array(list)), _) | (_, Some(Value::Array(list))) => list,
            // A server without models.
            (Some(Value::Null), _) => Vec::new(),
            (Some(_) | None, _) => return None,
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    let models = list
        .into_iter()
        .filter_map(|model| serde_json::from_value::<OfferedModel>(model).ok());
    Some(models.filter(|model| reply::is_model_name(&model.id)).collect())
}

impl ChatModel for OpenAiModel {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let shared = self.shared.clone();
        async move { shared.chat(&request).await }.boxed()
    }
}

impl fmt::Debug for OpenAiModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiModel")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Asks, and where the server refuses a field that can be left out, asks again without it. What helped is remembered, so that
    /// a model's server is found out about once.
    async fn chat(&self, request: &ChatRequest) -> Result<ModelReply, ModelFailure> {
        let model = request.model.as_deref().unwrap_or(&self.options.model);
        let resolved = ResolvedRequest { request, model };
        let until = deadline_after(self.options.timeouts.total);
        let wire_names = self.wire_names(request)?;
        let known = self.unsupported_by(model);
        let mut omitted = known.clone();
        loop {
            let body = self.body(resolved, &omitted)?;
            let error_response = match self.exchange(body, resolved, until).await? {
                Ok(mut reply) => {
                    if omitted != known {
                        self.remember_unsupported(model, omitted);
                    }
                    wire_names.restore(&mut reply);
                    return Ok(reply);
                }
                Err(error_response) => error_response,
            };
            match refused_field(request, &error_response) {
                Some(field) if omitted.insert(field) => {}
                Some(_) | None => return Err(error_response.failure),
            }
        }
    }

    /// The tools whose names are others on the wire.
    fn wire_names(&self, request: &ChatRequest) -> Result<WireNames, ModelFailure> {
        WireNames::new(native_tools(request)).map_err(|(one, other)| {
            let message = format!("the tools `{one}` and `{other}` can't be told apart by name: rename one");
            self.failures.failure(ModelFailureKind::Rejected, &message)
        })
    }

    fn body(
        &self,
        resolved: ResolvedRequest<'_>,
        omitted: &BTreeSet<OptionalField>,
    ) -> Result<Vec<u8>, ModelFailure> {
        let ResolvedRequest { request, model } = resolved;
        let options = &self.options;
        let sent = |field| !omitted.contains(&field);
        let response_format = match &request.format {
            ReplyFormat::JsonSchema { name, schema } if sent(OptionalField::ResponseFormat) => {
                Some(wire::ResponseFormat { name, schema })
            }
            ReplyFormat::JsonSchema { .. } | ReplyFormat::Text => None,
        };
        let stream = options.delivery == Delivery::Streamed;
        let (max_tokens, max_completion_tokens) = if sent(OptionalField::MaxTokens) {
            (request.max_output_tokens, None)
        } else {
            (None, request.max_output_tokens)
        };
        let tool_role = if sent(OptionalField::ToolRole) {
            ToolRoleSupport::Supported
        } else {
            ToolRoleSupport::Unsupported
        };
        let body = wire::RequestBody {
            model,
            messages: Conversation {
                messages: &request.messages,
                layout: Layout::new(request.call_form, tool_role),
            },
            tools: wire::NativeTools(native_tools(request)),
            response_format,
            max_tokens,
            max_completion_tokens,
            stream,
            stream_options: (stream && sent(OptionalField::StreamOptions))
                .then_some(wire::StreamOptions { include_usage: true }),
            extra: &options.extra,
        };
        serde_json::to_vec(&body).map_err(|error| {
            let message = format!("the request can't be written as JSON: {error}");
            self.failures.failure(ModelFailureKind::Rejected, &message)
        })
    }

    fn unsupported_by(&self, model: &str) -> BTreeSet<OptionalField> {
        let unsupported = self.unsupported.lock().unwrap_or_else(PoisonError::into_inner);
        unsupported.get(model).cloned().unwrap_or_default()
    }

    fn remember_unsupported(&self, model: &str, fields: BTreeSet<OptionalField>) {
        let mut unsupported = self.unsupported.lock().unwrap_or_else(PoisonError::into_inner);
        unsupported.entry(model.to_owned()).or_default().extend(fields);
    }
}

/// The tools that go over the wire.
fn native_tools(request: &ChatRequest) -> &[ToolSpec] {
    match request.call_form {
        CallForm::Native => &request.tools,
        CallForm::Json | CallForm::JsonSchema | CallForm::ToolCall | CallForm::Auto => &[],
    }
}

/// Which field that can be left out a server seems to have refused.
fn refused_field(request: &ChatRequest, error_response: &exchange::ErrorResponse) -> Option<OptionalField> {
    if !matches!(error_response.status, 400 | 422) {
        return None;
    }
    let body = error_response.body.to_lowercase();
    let names = |words: &[&str]| words.iter().any(|word| body.contains(word));
    let wants_form = matches!(request.format, ReplyFormat::JsonSchema { .. });
    let has_results = || {
        let is_result = |message: &Message| matches!(message, Message::Tool { .. });
        request.messages.iter().any(is_result)
    };
    if wants_form && names(&["response_format", "json_schema", "json schema", "grammar"]) {
        Some(OptionalField::ResponseFormat)
    } else if names(&["stream_options"]) {
        Some(OptionalField::StreamOptions)
    } else if request.max_output_tokens.is_some() && names(&["max_completion_tokens"]) {
        Some(OptionalField::MaxTokens)
    } else if request.call_form == CallForm::ToolCall && names(&["tool_call_id", "role"]) && has_results() {
        Some(OptionalField::ToolRole)
    } else {
        None
    }
}
