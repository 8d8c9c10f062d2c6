//! List of a provider's chat models. This does not use `genai`, which would read only the first page and include models that cannot chat.

use dirigent_core::message::{ModelFailure, ModelFailureKind};
use reqwest::Response;
use secrecy::ExposeSecret;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::HostedApi;
use super::client::Client;
use crate::http::endpoint;
use crate::names::is_model_name;
use crate::time::deadline_after;

/// Maximum size of a response, in bytes.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// Version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Largest number of models on a page.
const PAGE_SIZE: &str = "1000";

#[derive(Deserialize)]
struct AnthropicList {
    data: Vec<AnthropicModel>,
}

#[derive(Deserialize)]
struct AnthropicModel {
    id: String,
}

#[derive(Deserialize)]
struct GeminiList {
    models: Vec<GeminiModel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiModel {
    name: String,
    #[serde(default)]
    supported_generation_methods: Vec<String>,
}

impl Client {
    pub(super) async fn models(&self) -> Result<Vec<String>, ModelFailure> {
        let until = deadline_after(self.options.timeouts.first);
        let api = self.options.api;
        let mut url = endpoint(&self.base_url, &["models"]);
        let mut request = match api {
            HostedApi::Anthropic => {
                url.query_pairs_mut().append_pair("limit", PAGE_SIZE);
                self.http.get(url).header("anthropic-version", ANTHROPIC_VERSION)
            }
            HostedApi::Gemini => {
                url.query_pairs_mut().append_pair("pageSize", PAGE_SIZE);
                self.http.get(url)
            }
        };
        if let Some(key) = &self.api_key {
            request = request.header(api.key_header(), key.expose_secret());
        }
        let response = match timeout_at(until, request.send()).await {
            Ok(sent) => sent.map_err(|error| self.failures.classify_http(error))?,
            Err(_) => return Err(self.failures.unavailable("no response before the timeout")),
        };
        let (status, headers) = (response.status(), response.headers().clone());
        let body = self.body(response, until).await?;
        if !status.is_success() {
            return Err(self.failures.classify_status(status.as_u16(), &headers, &body));
        }
        let body = self.failures.0.secrets.redact(&body);
        let mut names = names(api, &body).map_err(|_| {
            let excerpt = self.failures.0.excerpt(&body);
            let message = format!("its list of models can't be read: {excerpt}. Check base_url");
            self.failures.0.failure(ModelFailureKind::Configuration, &message)
        })?;
        names.retain(|name| is_model_name(name));
        Ok(names)
    }

    async fn body(&self, mut response: Response, until: Instant) -> Result<String, ModelFailure> {
        let mut body = Vec::new();
        while body.len() < MAX_LIST_BYTES {
            match timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(piece))) => body.extend_from_slice(&piece),
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return Err(self.failures.classify_http(error)),
                Err(_) => return Err(self.failures.unavailable("its response timed out")),
            }
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}

fn names(api: HostedApi, body: &str) -> serde_json::Result<Vec<String>> {
    Ok(match api {
        HostedApi::Anthropic => {
            let list: AnthropicList = serde_json::from_str(body)?;
            list.data.into_iter().map(|model| model.id).collect()
        }
        HostedApi::Gemini => {
            let list: GeminiList = serde_json::from_str(body)?;
            let chats = |model: &GeminiModel| {
                let methods = &model.supported_generation_methods;
                methods.is_empty() || methods.iter().any(|method| method == "generateContent")
            };
            let chat_models = list.models.into_iter().filter(chats);
            chat_models
                .map(|model| match model.name.strip_prefix("models/") {
                    Some(name) => name.to_owned(),
                    None => model.name,
                })
                .collect()
        }
    })
}
