//! Asking the next model when one can't answer (HOST-7). It never asks another where the request itself was at fault, nor because of
//! what a model said.

use std::fmt;
use std::sync::Arc;

use dirigent_core::message::{ModelFailure, ModelFailureKind, ModelReply};
use futures::future::{BoxFuture, FutureExt};

use crate::{ChatModel, ChatRequest};

/// A model to ask when those before it can't answer.
#[derive(Clone)]
pub struct Alternative {
    /// Whom to ask.
    pub model: Arc<dyn ChatModel>,
    /// Which of its models: the name in the request belongs to the first model's provider. `None` for its default.
    pub name: Option<String>,
}

impl fmt::Debug for Alternative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alternative")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A model with others to ask, in order, when it can't answer: because it is unavailable, has too small a context for the conversation, or
/// is set up wrongly. The last is logged as a warning, as somebody has to mend it.
#[derive(Clone)]
pub struct Fallback {
    first: Arc<dyn ChatModel>,
    others: Arc<[Alternative]>,
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback")
            .field("others", &self.others)
            .finish_non_exhaustive()
    }
}

impl Fallback {
    /// Asks `first`, then each of `others`.
    pub fn new(first: Arc<dyn ChatModel>, others: impl IntoIterator<Item = Alternative>) -> Self {
        Fallback {
            first,
            others: others.into_iter().collect(),
        }
    }
}

impl ChatModel for Fallback {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        ask(self.clone(), request).boxed()
    }
}

/// A failure of all has the first one's kind, as that is the model that was wanted, and says what each one said.
async fn ask(models: Fallback, request: ChatRequest) -> Result<ModelReply, ModelFailure> {
    let mut failure = match models.first.chat(request.clone()).await {
        Ok(reply) => return Ok(reply),
        Err(failure) => failure,
    };
    let mut last = failure.kind;
    for alternative in &*models.others {
        match last {
            ModelFailureKind::Unavailable { .. } | ModelFailureKind::TooLong => {}
            ModelFailureKind::Configuration => {
                tracing::warn!("a model is set up wrongly, and the next one is asked: {failure}");
            }
            ModelFailureKind::Rejected | ModelFailureKind::Panicked => break,
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
