//! A model on a server, which is asked through its provider's API.

use dirigent_core::message::{ModelFailure, ModelReply};
use dirigent_model::{
    ChatModel, ChatRequest, Completion, CompletionError, CompletionModel, CompletionRequest, HostedModel,
    HostedOptions, HttpClient, ModelSetupError, OpenAiModel, OpenAiOptions, Protocol, Provider, Timeouts,
};
use futures::future::BoxFuture;
use secrecy::SecretString;

use super::ConfigError;
use super::model::{ApiKey, ModelSettings};

/// A model on a server.
#[derive(Clone, Debug)]
pub(super) enum RemoteModel {
    OpenAi(OpenAiModel),
    Hosted(HostedModel),
}

impl RemoteModel {
    /// Creates a model from its settings. Models that share a `client` share its connections.
    pub(super) fn connect(
        provider: &Provider,
        settings: &ModelSettings,
        timeouts: Timeouts,
        client: &mut Option<HttpClient>,
    ) -> Result<RemoteModel, ConfigError> {
        let wrong = |error: ModelSetupError| ConfigError::Setup {
            model: settings.reference.clone(),
            problem: error.to_string(),
        };
        let key = key(settings)?;
        let client = match client {
            Some(client) => client,
            None => client.insert(HttpClient::new(timeouts.connect).map_err(wrong)?),
        };
        match provider.protocol {
            Protocol::Hosted(api) => {
                let mut options = HostedOptions::new(api, &settings.base_url, &settings.name);
                options.api_key = key;
                options.timeouts = timeouts;
                HostedModel::with_client(options, client)
                    .map(RemoteModel::Hosted)
                    .map_err(wrong)
            }
            Protocol::OpenAi => {
                let mut options = OpenAiOptions::new(&settings.base_url, &settings.name);
                options.api_key = key;
                options.delivery = settings.delivery;
                options.timeouts = timeouts;
                options.extra = settings.extra.clone();
                OpenAiModel::with_client(options, client)
                    .map(RemoteModel::OpenAi)
                    .map_err(wrong)
            }
        }
    }

    /// Lists the models of the server, in the server's order.
    pub(super) async fn models(&self) -> Result<Vec<String>, ModelFailure> {
        match self {
            RemoteModel::OpenAi(model) => {
                Ok(model.models().await?.into_iter().map(|model| model.id).collect())
            }
            RemoteModel::Hosted(model) => model.models().await,
        }
    }
}

impl ChatModel for RemoteModel {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        match self {
            RemoteModel::OpenAi(model) => model.chat(request),
            RemoteModel::Hosted(model) => model.chat(request),
        }
    }
}

impl CompletionModel for RemoteModel {
    fn complete(
        &self,
        request: CompletionRequest,
    ) -> BoxFuture<'static, Result<Completion, CompletionError>> {
        match self {
            RemoteModel::OpenAi(model) => model.complete(request),
            RemoteModel::Hosted(model) => model.complete(request),
        }
    }
}

/// Returns the API key to send, if any.
fn key(settings: &ModelSettings) -> Result<Option<SecretString>, ConfigError> {
    match &settings.api_key {
        ApiKey::None => Ok(None),
        ApiKey::Set { key, .. } => Ok(Some(key.clone())),
        ApiKey::NotSet { how } => Err(ConfigError::Missing {
            problem: format!(
                "the model `{}` ({} {}) needs an API key: {how}",
                settings.reference,
                settings.provider_name(),
                settings.name
            ),
        }),
    }
}
