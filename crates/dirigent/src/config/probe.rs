//! Whether a model answers, and what else its server offers.

use std::sync::Arc;
use std::time::Duration;

use dirigent_core::message::{Message, ModelFailure, ModelFailureKind};
use dirigent_model::{ChatModel, ChatRequest, Provider, Timeouts};

use super::model::ModelSettings;
use super::remote_model::RemoteModel;
use super::{Config, ConfigError};
use crate::suggest;

/// How long a server may take to say what it offers, or a word.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// Tokens for a word. Some models think before they say it.
const PROBE_MAX_TOKENS: u64 = 16;

/// What came of asking a model's server for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// There is nothing to connect to: the offline model.
    BuiltIn,
    /// Its provider offers it.
    Listed,
    /// It has said a word.
    Responded,
}

/// Why a model's server could not be asked, or what it said.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProbeError {
    /// Something is missing before it can be asked.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It did not answer as it should; the message says what to do.
    #[error(transparent)]
    Model(#[from] ModelFailure),
    /// It refuses, and does not list the model.
    #[error(
        "{failure}; the server does not list the model `{name}`{}",
        suggestion(name, models)
    )]
    NotListed {
        /// What it said when it was asked.
        failure: ModelFailure,
        /// The name that the configuration has.
        name: String,
        /// What it offers.
        models: Vec<String>,
    },
}

impl Config {
    /// The names of the models that a model's server offers, in its order; none for the offline model.
    ///
    /// # Errors
    /// As [`Config::model`], a key that is not set, or what the server said.
    pub async fn list_models(&self, reference: &str) -> Result<Vec<String>, ProbeError> {
        let settings = self.model(reference)?;
        match settings.provider {
            None => Ok(Vec::new()),
            Some(provider) => Ok(server(provider, &settings)?.models().await?),
        }
    }

    /// Tests whether a model can be asked: by its provider's list of models, or where that does not say enough, by having it say a
    /// word.
    ///
    /// # Errors
    /// As [`Config::list_models`], or [`ProbeError::NotListed`].
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
            // A server may have no list, or a broken one.
            Err(_) => Vec::new(),
        };
        // Elsewhere a list may be for everyone, so that it says nothing of the key.
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

/// Whether the server answers, and finds fault with the request.
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
