//! Delivers a message to one webhook.

use std::time::Duration;

use dirigent::config::WebhookEvent;
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use tokio::time::sleep;

use super::message::Message;
use super::options::Webhook;
use super::signature::signature;
use crate::problem::with_causes;

/// How one attempt ended.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    Delivered,
    /// The receiver is out of order. Later it may work.
    Failed(String),
    /// The receiver does not want the message.
    Refused(String),
}

impl Webhook {
    pub(super) fn wants(&self, event: WebhookEvent) -> bool {
        self.events.contains(&event)
    }

    /// Delivers a message, with a pause before each further attempt.
    pub(super) async fn deliver(&self, client: &reqwest::Client, message: &Message, pauses: &[Duration]) {
        let mut pauses = pauses.iter();
        loop {
            let problem = match self.attempt(client, message).await {
                Attempt::Delivered => return,
                Attempt::Failed(problem) => problem,
                Attempt::Refused(problem) => {
                    return tracing::warn!(
                        "the webhook `{}` refuses message {}: {problem}",
                        self.name,
                        message.id
                    );
                }
            };
            let Some(pause) = pauses.next() else {
                return tracing::warn!(
                    "message {} to the webhook `{}` is given up: {problem}",
                    message.id,
                    self.name
                );
            };
            tracing::info!(
                "the webhook `{}` failed, and is called again in {pause:?}: {problem}",
                self.name
            );
            sleep(*pause).await;
        }
    }

    async fn attempt(&self, client: &reqwest::Client, message: &Message) -> Attempt {
        let seconds = jiff::Timestamp::now().as_second();
        let signature = signature(&self.secret, &message.id, seconds, message.body.as_bytes());
        let request = client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signature)
            .body(message.body.clone());
        match request.send().await {
            Ok(response) => outcome(response.status()),
            // Without the URL, which may contain a secret.
            Err(error) => Attempt::Failed(with_causes(&error.without_url())),
        }
    }
}

fn outcome(status: StatusCode) -> Attempt {
    let problem = format!("it answered with status {status}");
    match status {
        status if status.is_success() => Attempt::Delivered,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
            Attempt::Failed(problem)
        }
        status if status.is_server_error() => Attempt::Failed(problem),
        // A redirect is not followed: it could lead anywhere.
        _ => Attempt::Refused(problem),
    }
}
