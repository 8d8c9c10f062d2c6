//! Tests whether a model is available, and lists the models of its server.

use std::sync::Arc;
use std::time::Duration;

use dirigent_core::message::{Message, ModelFailure, ModelFailureKind};
use dirigent_model::{ChatModel, ChatRequest, Provider, Timeouts};

use super::model::ModelSettings;
use super::remote_model::RemoteModel;
use super::{Config, ConfigError};
use crate::suggest;

/// Maximum time for a server to list its models or to reply.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of tokens of the reply to a probe. Some models think before they answer, so one token is too few.
const PROBE_MAX_TOKENS: u64 = 16;

/// How a model passed the test of [`Config::probe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The offline model needs no connection.
    BuiltIn,
    /// The provider lists the model.
    Listed,
    /// The model replied.
    Responded,
}

/// Why a model failed the test of [`Config::probe`].
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProbeError {
    /// The model is not fully configured.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The request failed; the message says what to do.
    #[error(transparent)]
    Model(#[from] ModelFailure),
    /// The server rejects the request and does not list the model.
    #[error(
        "{failure}; the server does not list the model `{name}`{}",
        suggestion(name, models)
    )]
    NotListed {
        /// The server's error.
        failure: ModelFailure,
        /// The model's name in the configuration.
        name: String,
        /// The models that the server lists.
        models: Vec<String>,
    },
}

impl Config {
    /// Lists the models of a model's server, in the server's order; empty for the offline model.
    ///
    /// # Errors
    /// The errors of [`Config::model`], a missing key, or the server's error.
    pub async fn list_models(&self, reference: &str) -> Result<Vec<String>, ProbeError> {
        let settings = self.model(reference)?;
        match settings.provider {
            None => Ok(Vec::new()),
            Some(provider) => Ok(server(provider, &settings)?.models().await?),
        }
    }

    /// Tests whether a model is available: by its provider's list of models or, if the list is not conclusive, by a short request.
    ///
    /// # Errors
    /// The errors of [`Config::list_models`], or [`ProbeError::NotListed`].
    pub async fn probe(&self, reference: &str) -> Result<ProbeOutcome, ProbeError> {
        let settings = self.model(reference)?;
        let Some(provider) = settings.provider else {
            return Ok(ProbeOutcome::BuiltIn);
        };
        let server = server(provider, &settings)?;
        let models = match server.models().await {
            Ok(models) => models,
            Err(failure) if settings.is_official_endpoint() && !is_request_error(failure.kind) => {
                return Err(failure.into());
            }
            // Servers other than the provider's own may have no list or a broken list.
            Err(_) => Vec::new(),
        };
        // Other servers may list their models without a key, so the list does not prove that the key is valid.
        if models.contains(&settings.name) && settings.is_official_endpoint() {
            return Ok(ProbeOutcome::Listed);
        }
        match server.chat(probe_request(&settings)).await {
            Ok(_) => Ok(ProbeOutcome::Responded),
            Err(failure)
                if is_request_error(failure.kind)
                    && !models.is_empty()
                    && !models.contains(&settings.name) =>
            {
                Err(ProbeError::NotListed {
                    failure,
                    name: settings.name,
                    models,
                })
            }
            Err(failure) => Err(failure.into()),
        }
    }
}

fn server(provider: &Provider, settings: &ModelSettings) -> Result<RemoteModel, ConfigError> {
    let timeouts = Timeouts {
        first: PROBE_TIMEOUT,
        total: PROBE_TIMEOUT,
        ..Timeouts::default()
    };
    RemoteModel::connect(provider, settings, timeouts, &mut None)
}

/// Returns true if the failure is about the request itself rather than the availability of the server.
fn is_request_error(kind: ModelFailureKind) -> bool {
    match kind {
        ModelFailureKind::Configuration | ModelFailureKind::Rejected => true,
        ModelFailureKind::Unavailable { .. } | ModelFailureKind::TooLong | ModelFailureKind::Panicked => {
            false
        }
    }
}

fn probe_request(settings: &ModelSettings) -> ChatRequest {
    let message = Message::User {
        content: "Say OK.".to_owned(),
    };
    ChatRequest::new(Arc::new(vec![message]))
        .model(settings.name.clone())
        .max_output_tokens(PROBE_MAX_TOKENS)
}

fn suggestion(name: &str, models: &[String]) -> String {
    let nearest = suggest::nearest(name, models.iter().map(String::as_str));
    nearest.map_or_else(String::new, |model| format!("; did you mean `{model}`?"))
}
