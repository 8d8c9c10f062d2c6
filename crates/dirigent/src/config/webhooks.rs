//! `[webhooks.NAME]`: the addresses that the server calls when a run has ended or waits for its user.

use url::Url;

use super::settings::WebhookTable;
use super::{Config, ConfigError};

/// An address that is called when something happens to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookConfig {
    /// The name, for messages.
    pub name: String,
    /// The address.
    pub url: Url,
    /// The environment variable with the secret that signs the calls.
    pub secret_variable: String,
    /// What it is called for.
    pub events: Vec<WebhookEvent>,
}

/// What a webhook is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookEvent {
    /// A run has ended.
    Finished,
    /// A run asks its user something: a call that needs approval, or a question.
    Waiting,
}

impl Config {
    /// Returns the webhooks, sorted by name.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn webhooks(&self) -> Result<Vec<WebhookConfig>, ConfigError> {
        let tables = self.shared.settings.webhooks.iter();
        tables.map(|(name, table)| self.webhook(name, table)).collect()
    }

    fn webhook(&self, name: &str, table: &WebhookTable) -> Result<WebhookConfig, ConfigError> {
        let origins = self.shared.origins.table(&["webhooks", name]);
        let missing = |setting: &str, example: &str| {
            origins.invalid(setting, format!("is not set: set it, such as {example}"))
        };
        let url = table
            .url
            .as_ref()
            .ok_or_else(|| missing("url", "\"https://example.com/hook\""))?;
        let secret = table
            .secret
            .as_ref()
            .ok_or_else(|| missing("secret", "\"${WEBHOOK_SECRET}\""))?;
        let url = Url::parse(&url.0).map_err(|_| origins.invalid("url", "is not an address"))?;
        let events = table
            .events
            .as_ref()
            .map(|events| events.iter().map(|event| event.0).collect());
        Ok(WebhookConfig {
            name: name.to_owned(),
            url,
            secret_variable: secret.0.clone(),
            events: events.unwrap_or_else(|| vec![WebhookEvent::Finished, WebhookEvent::Waiting]),
        })
    }
}
