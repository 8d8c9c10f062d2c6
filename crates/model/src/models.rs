//! The models of a configuration, by name. It only says who is asked: what a name stands for at a provider never leaves here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use dirigent_core::message::{ModelFailure, ModelReply};
use dirigent_core::spec::ModelProfile;
use futures::future::BoxFuture;

use crate::{ChatModel, ChatRequest};

/// A model of a configuration.
#[derive(Clone)]
pub struct ModelEntry {
    /// Whom to ask.
    pub model: Arc<dyn ChatModel>,
    /// The provider's name for it; `None` for the model that `model` asks by default.
    pub name: Option<String>,
    /// What is known of it.
    pub profile: ModelProfile,
}

/// Several models as one: a request's `model` says which of them answers.
///
/// | a request's model | who is asked | by which name of the provider's |
/// | --- | --- | --- |
/// | none | the default | the default's |
/// | a configured name | the model of that name | that model's |
/// | another name | the default | the name as it is |
///
/// By the last line whoever has one provider can name its models without configuring them.
#[derive(Clone, Debug)]
pub struct Models {
    default: ModelEntry,
    named: BTreeMap<String, ModelEntry>,
}

impl Models {
    /// That model, and no others yet.
    pub fn new(default: ModelEntry) -> Self {
        Models {
            default,
            named: BTreeMap::new(),
        }
    }

    /// With that model too, by that name. Of several by one name the last counts.
    pub fn with(mut self, name: impl Into<String>, entry: ModelEntry) -> Self {
        self.named.insert(name.into(), entry);
        self
    }

    /// What is known of the model that answers requests for `name`. Of one that is not configured nothing is known but that the
    /// default's provider has it: it counts as the default.
    pub fn profile(&self, name: Option<&str>) -> ModelProfile {
        name.and_then(|name| self.named.get(name))
            .unwrap_or(&self.default)
            .profile
    }
}

impl ChatModel for Models {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let configured = match &request.model {
            None => Some(&self.default),
            Some(name) => self.named.get(name),
        };
        match configured {
            Some(entry) => entry.model.chat(request.model(entry.name.clone())),
            None => self.default.model.chat(request),
        }
    }
}

impl fmt::Debug for ModelEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelEntry")
            .field("name", &self.name)
            .field("profile", &self.profile)
            .finish_non_exhaustive()
    }
}
