//! Fallback to other models when a model can't answer (HOST-7). If a model rejects the request itself, no further model is tried. The
//! content of a reply never causes a fallback.

use std::fmt;
use std::sync::Arc;

use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply};
use futures::future::{BoxFuture, FutureExt};

use crate::{ChatModel, ChatRequest};

/// A model to try when all models before it in the list can't answer.
#[derive(Clone)]
pub struct Alternative {
    /// The model to ask.
    pub model: Arc<dyn ChatModel>,
    /// Name of the model at its provider; `None` for the default model. It replaces the model name of the request, which is valid only at
    /// the first model's provider.
    pub name: Option<String>,
}

impl fmt::Debug for Alternative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alternative")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A model with alternatives, which are tried in order when the model is unavailable or misconfigured, or its context is too small
/// for the conversation. A misconfigured model is logged as a warning, because somebody has to correct the configuration.
#[derive(Clone)]
pub struct Fallback {
    first: Arc<dyn ChatModel>,
    alternatives: Arc<[Alternative]>,
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback")
            .field("alternatives", &self.alternatives)
            .finish_non_exhaustive()
    }
}

impl Fallback {
    /// Tries `first`, then each of `alternatives`.
    pub fn new(first: Arc<dyn ChatModel>, alternatives: impl IntoIterator<Item = Alternative>) -> Self {
        Fallback {
            first,
            alternatives: alternatives.into_iter().collect(),
        }
    }
}

impl ChatModel for Fallback {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        ask(self.clone(), request).boxed()
    }
}

/// Returns the first reply. If all models fail, returns the kind of the first model's failure with the messages of all failures.
async fn ask(models: Fallback, request: ChatRequest) -> Result<ModelReply, ModelFailure> {
    let mut failure = match models.first.chat(request.clone()).await {
        Ok(reply) => return Ok(reply),
        Err(failure) => failure,
    };
    let mut last = failure.kind;
    for alternative in &*models.alternatives {
        if !may_ask_another(last, &failure) {
            break;
        }
        let request = request.clone().model(alternative.name.clone());
        match alternative.model.chat(request).await {
            Ok(reply) => return Ok(reply),
            Err(next) => {
                last = next.kind;
                failure.message = format!("{}; then {}", failure.message, next.message);
            }
        }
    }
    Err(failure)
}

/// Returns true if another model may answer after a failure of this kind. Somebody has to correct the configuration of a misconfigured
/// model, so it is logged.
pub(crate) fn may_ask_another(kind: ModelFailureKind, failure: &dyn fmt::Display) -> bool {
    match kind {
        ModelFailureKind::Unavailable { .. } | ModelFailureKind::TooLong => true,
        ModelFailureKind::Configuration => {
            tracing::warn!("a model is misconfigured ({failure}); trying the next one");
            true
        }
        ModelFailureKind::Rejected | ModelFailureKind::Panicked => false,
    }
}
