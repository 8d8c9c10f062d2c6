//! Chat completions passed on for clients of OpenAI's API (PROMPT-3): the request goes to a model as the client sent it, and the reply
//! comes back, without agents and tools of Dirigent. It shares the retries, fallbacks and rate limits of the models with the agents.
//!
//! ```
//! use dirigent::Dirigent;
//! use dirigent::completions::{Completion, CompletionRequest};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir().unwrap();
//! let dirigent = Dirigent::builder().journal(folder.path().join("journal.db")).build().await?;
//! let body = r#"{"model": "default", "messages": [{"role": "user", "content": "Hello"}]}"#;
//! let reply = dirigent.forward_completion(CompletionRequest::parse(body.into())?, None).await?;
//! let Completion::Whole { json, .. } = reply else { panic!("no stream was asked for") };
//! assert!(json.contains("chat.completion"));
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;
use std::time::Instant;

use dirigent_model::{ChatCompletions, ChatModel, CompletionModel as _};
pub use dirigent_model::{
    Completion, CompletionError, CompletionEvent, CompletionOutcome, CompletionRequest, CompletionStream,
};
use futures::StreamExt as _;
use tracing::field::Empty;
use tracing::{Instrument as _, Span, info_span};

use crate::config::{Config, ConfiguredModels, unknown_model};
use crate::system_prompts::{DEFAULT_PROMPT, SystemPromptError};
use crate::{Dirigent, DirigentError};

/// The reference of the offline model.
const OFFLINE: &str = "offline";
/// The reference of the default model.
const DEFAULT_MODEL: &str = "default";
/// Longest accepted name of a model, in bytes.
const MAX_MODEL_NAME_BYTES: usize = 200;

/// A model that OpenAI clients can ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedModel {
    /// The name that the client sends: `default`, a name of `[models.NAME]`, `offline`, or `PROVIDER/NAME`.
    pub name: String,
    /// The provider's name: `offline` for the offline model, `own` for a program's own model.
    pub provider: String,
}

/// The models that OpenAI clients can ask.
#[derive(Clone)]
pub(crate) enum CompletionSource {
    /// The models of a configuration.
    Configured(ConfiguredModels),
    /// A program's own model. With a configuration, each request names one of its models.
    Own {
        model: Arc<dyn ChatModel>,
        config: Option<Config>,
    },
}

impl CompletionSource {
    fn config(&self) -> Option<&Config> {
        match self {
            CompletionSource::Configured(configured) => Some(configured.config()),
            CompletionSource::Own { config, .. } => config.as_ref(),
        }
    }

    /// Returns the models that can be asked without naming a provider.
    fn offered(&self) -> Vec<OfferedModel> {
        let Some(config) = self.config() else {
            return vec![OfferedModel {
                name: DEFAULT_MODEL.to_owned(),
                provider: "own".to_owned(),
            }];
        };
        let mut names = vec![config.default_model()];
        for name in [DEFAULT_MODEL].into_iter().chain(config.names()).chain([OFFLINE]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
            .into_iter()
            .filter_map(|name| configured(config, name))
            .collect()
    }

    /// Returns the model with this name; `None` if there is none.
    fn find(&self, name: &str) -> Option<OfferedModel> {
        match self.config() {
            Some(config) => configured(config, name),
            None => self.offered().into_iter().find(|model| model.name == name),
        }
    }

    async fn complete(&self, request: CompletionRequest) -> Result<Completion, CompletionError> {
        let name = request.model().to_owned();
        match self {
            CompletionSource::Configured(configured) => configured.complete(&name, request).await,
            CompletionSource::Own { model, config } => {
                let reference = config.as_ref().map(|_| name);
                let request = request.upstream_model(reference);
                ChatCompletions(model.clone()).complete(request).await
            }
        }
    }
}

fn configured(config: &Config, name: &str) -> Option<OfferedModel> {
    let settings = config.model(name).ok()?;
    Some(OfferedModel {
        name: name.to_owned(),
        provider: settings.provider_name().to_owned(),
    })
}

impl Dirigent {
    /// Lists the models that [`Self::forward_completion`] can ask: the default model, those of `[models.NAME]`, and the offline model. Models
    /// that are named as `PROVIDER/NAME` are not listed.
    pub fn completion_models(&self) -> Vec<OfferedModel> {
        self.completions.offered()
    }

    /// Returns the model with this name, which may be `PROVIDER/NAME`.
    ///
    /// # Errors
    /// There is no such model: status 404, code `model_not_found`.
    pub fn completion_model(&self, name: &str) -> Result<OfferedModel, CompletionError> {
        let found = self
            .completions
            .find(name)
            .filter(|_| name.len() <= MAX_MODEL_NAME_BYTES);
        found.ok_or_else(|| {
            let offered = self.completions.offered();
            let known: Vec<&str> = offered.iter().map(|model| model.name.as_str()).collect();
            unknown_model(name, &known.join(", "))
        })
    }

    /// Passes the request of an OpenAI client on to the model that it names (PROMPT-3). Dropping the future or the stream cancels the
    /// request.
    ///
    /// A request without a system or developer message gets the base system prompt named `system_prompt`, or the default one, in front of
    /// its messages. Nothing else is changed, but that the model gets its server's name, and the fields that its configuration adds.
    ///
    /// # Errors
    /// An unknown model or system prompt (status 404), a request that the model's server refuses or that cannot be translated for it, or a
    /// failure of the server. A stream that breaks off ends with an error.
    pub async fn forward_completion(
        &self,
        request: CompletionRequest,
        system_prompt: Option<&str>,
    ) -> Result<Completion, CompletionError> {
        self.completion_model(request.model())?;
        let request = self.with_base_prompt(request, system_prompt).await?;
        let recorder = SpanRecorder::new(request.model());
        let completing = self.completions.complete(request);
        let reply = completing.instrument(recorder.span.clone()).await;
        match reply {
            Ok(Completion::Whole { json, outcome }) => {
                recorder.record(&outcome);
                Ok(Completion::Whole { json, outcome })
            }
            Ok(Completion::Stream(stream)) => Ok(Completion::Stream(recorder.until_end(stream))),
            Err(error) => {
                recorder.record_error(&error);
                Err(error)
            }
        }
    }

    /// Puts the base system prompt in front of the messages if the request has no instructions of its own.
    async fn with_base_prompt(
        &self,
        request: CompletionRequest,
        name: Option<&str>,
    ) -> Result<CompletionRequest, CompletionError> {
        if name.is_none() && request.has_instructions() {
            return Ok(request);
        }
        let prompts = self.system_prompts();
        let prompt = prompts
            .get(name.unwrap_or(DEFAULT_PROMPT), None)
            .await
            .map_err(prompt_error)?;
        match request.has_instructions() {
            true => Ok(request),
            false => Ok(request.system_prompt(prompt.text)),
        }
    }
}

fn prompt_error(error: DirigentError) -> CompletionError {
    match &error {
        DirigentError::SystemPrompt(SystemPromptError::NoSuchPrompt { .. }) => {
            CompletionError::invalid(None, error.to_string()).with(404, "unknown_system_prompt")
        }
        _ => CompletionError::internal(error.to_string()),
    }
}

/// Creates the span of a request, by the OpenTelemetry conventions for generative AI (HOST-10).
fn span(model: &str) -> Span {
    info_span!(
        "chat",
        otel.name = format_args!("chat {model}"),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.request.model = model,
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        dirigent.passthrough = true,
        http.response.status_code = Empty,
        dirigent.duration_ms = Empty,
        "error.type" = Empty,
    )
}

/// Records how a request ended in its span.
struct SpanRecorder {
    span: Span,
    begun: Instant,
}

impl SpanRecorder {
    fn new(model: &str) -> Self {
        SpanRecorder {
            span: span(model),
            begun: Instant::now(),
        }
    }

    /// Records the end of a stream.
    fn until_end(self, stream: CompletionStream) -> CompletionStream {
        let events = stream.inspect(move |event| match event {
            Ok(CompletionEvent::Chunk(_)) => {}
            Ok(CompletionEvent::Done(outcome)) => self.record(outcome),
            Err(error) => self.record_error(error),
        });
        events.boxed()
    }

    fn record(&self, outcome: &CompletionOutcome) {
        let span = &self.span;
        span.record("gen_ai.response.model", outcome.model.as_deref());
        span.record("gen_ai.response.finish_reasons", outcome.finish_reason.as_deref());
        span.record("gen_ai.usage.input_tokens", outcome.input_tokens);
        span.record("gen_ai.usage.output_tokens", outcome.output_tokens);
        self.record_end(200);
    }

    fn record_error(&self, error: &CompletionError) {
        let code = error.code.as_deref().unwrap_or(&error.class);
        self.span.record("error.type", code);
        self.record_end(error.status);
        if error.status >= 500 {
            tracing::warn!(parent: &self.span, status = error.status, "a passed on request failed: {error}");
        }
    }

    fn record_end(&self, status: u16) {
        self.span.record("http.response.status_code", status);
        let milliseconds = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.span.record("dirigent.duration_ms", milliseconds);
    }
}
