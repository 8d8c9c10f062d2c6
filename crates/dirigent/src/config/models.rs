//! The models of a configuration, ready to be asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply};
use dirigent_model::openai::{HttpClient, Timeouts};
use dirigent_model::{
    Alternative, ChatModel, ChatRequest, Fallback, Limited, OfflineModel, Priced, Retrying,
};
use futures::future::BoxFuture;

use super::model::{ModelSettings, Provider};
use super::server::Server;
use super::{Config, ConfigError};

/// The models of a configuration as one: a request's `model` is a reference (`default`, a name of `[models.NAME]`, `offline` or
/// `provider/name`), and none is the default. Each is asked with its retries, within limits that are shared by all who ask the same
/// model at the same address (HOST-7), and others stand in for it where the configuration says so.
#[derive(Clone)]
pub struct ConfiguredModels {
    config: Config,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// By reference.
    ready: BTreeMap<String, Ready>,
    /// By address and the provider's name for the model.
    limits: BTreeMap<(String, String), Limited<()>>,
    client: Option<HttpClient>,
}

/// A model to ask, and the name by which its provider knows it.
#[derive(Clone)]
struct Ready {
    model: Arc<dyn ChatModel>,
    name: Option<String>,
}

impl ConfiguredModels {
    pub(super) fn new(config: Config) -> Self {
        ConfiguredModels {
            config,
            state: Arc::default(),
        }
    }

    /// Sets a model up, so that nothing of the configuration is in its way when it is asked.
    ///
    /// # Errors
    /// No such model, a key that is not set, or another reason why it can't be set up.
    pub fn prepare(&self, reference: &str) -> Result<(), ConfigError> {
        self.ready(reference).map(drop)
    }

    /// Looks whether a name still stands for what it stood for when a run was started. A table of the user's own, `[models.NAME]`, may
    /// have been moved to another server by its user; what `default` or `provider/name` are depends on what was said in passing.
    ///
    /// # Errors
    /// [`ConfigError::OtherModel`], or no such model.
    pub(crate) fn check_same(&self, reference: &str, asked: Option<&str>) -> Result<(), ConfigError> {
        let present = self.config.model(reference)?.to_string();
        match asked {
            Some(asked) if asked != present && !self.config.names().contains(reference) => {
                Err(ConfigError::OtherModel {
                    model: reference.to_owned(),
                    asked: asked.to_owned(),
                    present,
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn ready(&self, reference: &str) -> Result<Ready, ConfigError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = state.ready.get(reference) {
            return Ok(ready.clone());
        }
        let settings = self.config.model(reference)?;
        let first = self.single(&settings, &mut state)?;
        let mut others = Vec::new();
        for next in &settings.fallback {
            let next = self.single(&self.config.model(next)?, &mut state)?;
            others.push(Alternative {
                model: next.model,
                name: next.name,
            });
        }
        let ready = if others.is_empty() {
            first
        } else {
            Ready {
                model: Arc::new(Fallback::new(first.model, others)),
                name: first.name,
            }
        };
        state.ready.insert(reference.to_owned(), ready.clone());
        Ok(ready)
    }

    /// A model without those that stand in for it.
    fn single(&self, settings: &ModelSettings, state: &mut State) -> Result<Ready, ConfigError> {
        if settings.provider == Provider::Offline {
            return Ok(Ready {
                model: Arc::new(OfflineModel),
                name: None,
            });
        }
        let server = Server::set_up(settings, timeouts(settings), &mut state.client)?;
        let place = (settings.base_url.clone(), settings.name.clone());
        let shared = state
            .limits
            .entry(place)
            .or_insert_with(|| Limited::new((), self.config.limits_of(settings)));
        // What has no price costs nothing.
        let limited = shared.around(Priced::new(server, settings.price.unwrap_or_default()));
        Ok(Ready {
            model: Arc::new(Retrying::new(limited, settings.retries())),
            name: Some(settings.name.clone()),
        })
    }
}

impl ChatModel for ConfiguredModels {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let reference = request.model.as_deref();
        match self.ready(reference.unwrap_or_else(|| self.config.default_model())) {
            Ok(ready) => ready.model.chat(request.model(ready.name)),
            Err(error) => Box::pin(std::future::ready(Err(ModelFailure {
                kind: ModelFailureKind::Configuration,
                message: error.to_string(),
            }))),
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

fn timeouts(settings: &ModelSettings) -> Timeouts {
    match settings.timeout.map(Duration::from) {
        // A slow server may read a long prompt for as long as all may take.
        Some(total) => Timeouts {
            total,
            first: total,
            ..Timeouts::default()
        },
        None => Timeouts::default(),
    }
}
