//! The models of a configuration, ready for requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply};
use dirigent_model::{
    Alternative, ChatCompletions, ChatModel, ChatRequest, Completion, CompletionError, CompletionFallback,
    CompletionModel, CompletionRequest, Fallback, HttpClient, Limited, NamedCompletions, Priced, Retrying,
    Timeouts,
};
use dirigent_offline::OfflineModel;
use futures::future::BoxFuture;

use super::model::ModelSettings;
use super::remote_model::RemoteModel;
use super::{Config, ConfigError};

/// Longest part of an unknown model's name in a message, in characters.
const MAX_SHOWN_NAME_CHARS: usize = 200;

/// All models of a configuration as one [`ChatModel`]. A request's `model` is a reference (`default`, a name of `[models.NAME]`,
/// `offline` or `provider/name`); if it is `None`, the default model is asked. Each model has its retries and fallbacks, and limits that
/// it shares with other references to the same model at the same address (HOST-7).
#[derive(Clone)]
pub struct ConfiguredModels {
    config: Config,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The models that are set up, by reference.
    prepared: BTreeMap<String, PreparedModel>,
    /// The shared limits, by the model's address and its name at the provider.
    limits: BTreeMap<(String, String), Limited<()>>,
    client: Option<HttpClient>,
}

/// A model and its name at its provider.
#[derive(Clone)]
struct PreparedModel {
    model: Arc<dyn ChatModel>,
    /// The model without its retries and fallbacks.
    once: Arc<dyn ChatModel>,
    /// The model for OpenAI clients, with retries and, in [`State::prepared`], with fallbacks.
    completions: Arc<dyn CompletionModel>,
    name: Option<String>,
}

impl PreparedModel {
    /// Asks other models when this one can't answer.
    fn with_fallback(self, others: Vec<PreparedModel>) -> Self {
        let named =
            |model: &PreparedModel| -> NamedCompletions { (model.completions.clone(), model.name.clone()) };
        let completions = CompletionFallback::new(named(&self), others.iter().map(named));
        let others = others.into_iter().map(|next| Alternative {
            model: next.model,
            name: next.name,
        });
        PreparedModel {
            model: Arc::new(Fallback::new(self.model, others)),
            completions: Arc::new(completions),
            ..self
        }
    }
}

impl ConfiguredModels {
    pub(super) fn new(config: Config) -> Self {
        ConfiguredModels {
            config,
            state: Arc::default(),
        }
    }

    /// Sets up a model before its first request.
    ///
    /// # Errors
    /// An unknown model, a missing key, or another reason why it can't be set up.
    pub fn prepare(&self, reference: &str) -> Result<(), ConfigError> {
        self.prepared(reference).map(drop)
    }

    /// Checks that a reference still refers to the model that a run was started with. A changed `[models.NAME]` is accepted, because only
    /// the user can have changed it. `default` and `provider/name` can also refer to another model because of options and environment
    /// variables.
    ///
    /// # Errors
    /// [`ConfigError::ModelChanged`], or an unknown model.
    pub(crate) fn check_unchanged(&self, reference: &str, recorded: Option<&str>) -> Result<(), ConfigError> {
        let current = self.config.model(reference)?.to_string();
        match recorded {
            Some(recorded) if recorded != current && !self.config.names().contains(reference) => {
                Err(ConfigError::ModelChanged {
                    model: reference.to_owned(),
                    recorded: recorded.to_owned(),
                    current,
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the configuration.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Asks a model without retries and fallbacks.
    pub(crate) async fn chat_once(
        &self,
        reference: &str,
        request: ChatRequest,
    ) -> Result<ModelReply, ModelFailure> {
        match self.prepared(reference) {
            Ok(prepared) => prepared.once.chat(request.model(prepared.name)).await,
            Err(error) => Err(not_configured(&error)),
        }
    }

    /// Passes the request of an OpenAI client on to a model (PROMPT-3).
    pub(crate) async fn complete(
        &self,
        reference: &str,
        request: CompletionRequest,
    ) -> Result<Completion, CompletionError> {
        match self.prepared(reference) {
            Ok(prepared) => {
                prepared
                    .completions
                    .complete(request.upstream_model(prepared.name))
                    .await
            }
            Err(error) => Err(unusable(reference, &error)),
        }
    }

    fn prepared(&self, reference: &str) -> Result<PreparedModel, ConfigError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = state.prepared.get(reference) {
            return Ok(prepared.clone());
        }
        let settings = self.config.model(reference)?;
        let first = self.prepare_single(&settings, &mut state)?;
        let mut others = Vec::new();
        for next in &settings.fallback {
            others.push(self.prepare_single(&self.config.model(next)?, &mut state)?);
        }
        let prepared = if others.is_empty() {
            first
        } else {
            first.with_fallback(others)
        };
        state.prepared.insert(reference.to_owned(), prepared.clone());
        Ok(prepared)
    }

    /// Sets up a model without its fallbacks.
    fn prepare_single(
        &self,
        settings: &ModelSettings,
        state: &mut State,
    ) -> Result<PreparedModel, ConfigError> {
        let Some(provider) = settings.provider else {
            return Ok(PreparedModel {
                model: Arc::new(OfflineModel),
                once: Arc::new(OfflineModel),
                completions: Arc::new(ChatCompletions(OfflineModel)),
                name: None,
            });
        };
        let server = RemoteModel::connect(provider, settings, timeouts(settings), &mut state.client)?;
        let place = (settings.base_url.clone(), settings.name.clone());
        let shared = state
            .limits
            .entry(place)
            .or_insert_with(|| Limited::new((), self.config.model_limits(settings)));
        let forwarding = shared.share_limits(server.clone());
        // A model without a price counts as free.
        let priced = Priced::new(server, settings.price.unwrap_or_default());
        let once: Arc<dyn ChatModel> = Arc::new(shared.share_limits(priced));
        Ok(PreparedModel {
            model: Arc::new(Retrying::new(once.clone(), settings.retries())),
            once,
            completions: Arc::new(Retrying::new(forwarding, settings.retries())),
            name: Some(settings.name.clone()),
        })
    }
}

impl ChatModel for ConfiguredModels {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let reference = request.model.as_deref();
        match self.prepared(reference.unwrap_or_else(|| self.config.default_model())) {
            Ok(prepared) => prepared.model.chat(request.model(prepared.name)),
            Err(error) => Box::pin(std::future::ready(Err(not_configured(&error)))),
        }
    }
}

impl std::fmt::Debug for ConfiguredModels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfiguredModels")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

fn not_configured(error: &ConfigError) -> ModelFailure {
    ModelFailure {
        kind: ModelFailureKind::Configuration,
        message: error.to_string(),
    }
}

/// Returns the error for an OpenAI client whose model is unknown or not set up.
fn unusable(reference: &str, error: &ConfigError) -> CompletionError {
    match error {
        ConfigError::UnknownModel { known, .. } => unknown_model(reference, known),
        error => CompletionError::invalid("model", error.to_string()).with(422, "model_not_set_up"),
    }
}

/// Returns the error for an OpenAI client that names an unknown model.
pub(crate) fn unknown_model(reference: &str, known: &str) -> CompletionError {
    let name: String = reference.chars().take(MAX_SHOWN_NAME_CHARS).collect();
    let message = format!(
        "there is no model `{name}`; available: {known}, or PROVIDER/NAME, such as openai/gpt-4.1-mini"
    );
    CompletionError::invalid("model", message).with(404, "model_not_found")
}

fn timeouts(settings: &ModelSettings) -> Timeouts {
    match settings.timeout.map(Duration::from) {
        // A slow server may need the whole time to read a long prompt, so the first token has no shorter timeout.
        Some(total) => Timeouts {
            total,
            first: total,
            ..Timeouts::default()
        },
        None => Timeouts::default(),
    }
}
