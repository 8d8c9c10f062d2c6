//! Fallback to other models when a model can't answer an OpenAI client (HOST-7), by the same rules as for chat requests.

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};

use super::{Completion, CompletionError, CompletionModel, CompletionRequest};
use crate::fallback::may_ask_another;

/// A model to ask, with its name at its server; `None` for the default model.
pub type NamedCompletions = (Arc<dyn CompletionModel>, Option<String>);

/// Models that are asked in order until one answers.
#[derive(Clone)]
pub struct CompletionFallback {
    first: NamedCompletions,
    others: Arc<[NamedCompletions]>,
}

impl CompletionFallback {
    /// Asks `first`, then each of `others`.
    pub fn new(first: NamedCompletions, others: impl IntoIterator<Item = NamedCompletions>) -> Self {
        CompletionFallback {
            first,
            others: others.into_iter().collect(),
        }
    }
}

impl CompletionModel for CompletionFallback {
    fn complete(
        &self,
        request: CompletionRequest,
    ) -> BoxFuture<'static, Result<Completion, CompletionError>> {
        ask(self.clone(), request).boxed()
    }
}

/// Returns the first reply. If all models fail, returns the first model's error with the messages of all errors.
async fn ask(models: CompletionFallback, request: CompletionRequest) -> Result<Completion, CompletionError> {
    let (model, name) = &models.first;
    let mut error = match model.complete(request.clone().upstream_model(name.clone())).await {
        Ok(reply) => return Ok(reply),
        Err(error) => error,
    };
    let mut last = error.clone();
    for (model, name) in &*models.others {
        if !may_ask_another(last.kind, &last) {
            break;
        }
        match model.complete(request.clone().upstream_model(name.clone())).await {
            Ok(reply) => return Ok(reply),
            Err(next) => {
                error.message = format!("{}; then {}", error.message, next.message);
                last = next;
            }
        }
    }
    Err(error)
}

impl fmt::Debug for CompletionFallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionFallback").finish_non_exhaustive()
    }
}
