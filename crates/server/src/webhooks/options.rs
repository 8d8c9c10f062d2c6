//! The webhooks of a server.

use std::path::PathBuf;
use std::time::Duration;

use dirigent::config::{WebhookConfig, WebhookEvent};
use secrecy::SecretString;
use url::Url;

/// The webhooks of a server. None by default.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// The addresses to call.
    pub hooks: Vec<Webhook>,
    /// The file in which the server keeps until when messages were delivered. Without it, messages that were not delivered when the server ended are lost.
    pub progress_file: Option<PathBuf>,
    /// The pauses before each further attempt to deliver a message. After the last attempt, the message is given up with a warning.
    pub pauses: Vec<Duration>,
    /// The maximum number of messages that wait for one webhook. Further ones are given up with a warning.
    pub queue_length: usize,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        WebhookOptions {
            hooks: Vec::new(),
            progress_file: None,
            pauses: [5, 30, 120, 600, 3_600].map(Duration::from_secs).to_vec(),
            queue_length: 1_000,
        }
    }
}

/// An address to call.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub(super) name: String,
    pub(super) url: Url,
    pub(super) secret: SecretString,
    pub(super) events: Vec<WebhookEvent>,
}

/// Why a webhook cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// The variable with its secret is not set.
    #[error("the webhook `{name}` has no secret: set the variable {variable} to at least 16 characters")]
    NoSecret {
        /// The webhook.
        name: String,
        /// The variable.
        variable: String,
    },
}

/// The shortest secret, in bytes: a shorter one could be guessed from a signature.
const MIN_SECRET: usize = 16;

impl Webhook {
    /// Creates a webhook of the configuration; `variable` reads the environment.
    ///
    /// # Errors
    /// [`WebhookError::NoSecret`]
    pub fn new(
        config: &WebhookConfig,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Webhook, WebhookError> {
        let secret = variable(&config.secret_variable).filter(|secret| secret.len() >= MIN_SECRET);
        let secret = secret.ok_or_else(|| WebhookError::NoSecret {
            name: config.name.clone(),
            variable: config.secret_variable.clone(),
        })?;
        Ok(Webhook {
            name: config.name.clone(),
            url: config.url.clone(),
            secret: secret.into(),
            events: config.events.clone(),
        })
    }
}
