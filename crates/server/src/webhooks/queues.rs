//! A queue for each webhook: a slow receiver delays only its own messages, which arrive in order.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

use super::message::Message;
use super::options::{Webhook, WebhookOptions};
use super::progress::{Pending, Progress};

/// The webhooks with their queues. Clones share them.
#[derive(Clone)]
pub(super) struct Queues {
    progress: Progress,
    queues: Arc<[Queue]>,
}

struct Queue {
    hook: Webhook,
    messages: mpsc::Sender<Queued>,
}

struct Queued {
    message: Arc<Message>,
    pending: Pending,
}

impl Queues {
    /// Starts a task for each webhook, which ends when the server stops.
    pub(super) fn start(
        options: &WebhookOptions,
        client: &reqwest::Client,
        progress: &Progress,
        stopping: &CancellationToken,
    ) -> Queues {
        let start = |hook: &Webhook| {
            let (messages, queued) = mpsc::channel(options.queue_length.max(1));
            let delivery = Delivery {
                hook: hook.clone(),
                client: client.clone(),
                pauses: options.pauses.clone(),
            };
            // What is not delivered when the server stops is delivered after its next start.
            tokio::spawn(stopping.clone().run_until_cancelled_owned(delivery.run(queued)));
            Queue {
                hook: hook.clone(),
                messages,
            }
        };
        Queues {
            progress: progress.clone(),
            queues: options.hooks.iter().map(start).collect(),
        }
    }

    /// Puts a message into the queue of each webhook that wants it. A message that does not fit is given up.
    pub(super) fn send(&self, message: &Arc<Message>) {
        for queue in self.queues.iter().filter(|queue| queue.hook.wants(message.event)) {
            let queued = Queued {
                message: message.clone(),
                pending: self.progress.begin(message.at),
            };
            match queue.messages.try_send(queued) {
                Ok(()) => {}
                Err(TrySendError::Full(queued)) => {
                    tracing::warn!(
                        "message {} to the webhook `{}` is given up: too many are waiting for it",
                        message.id,
                        queue.hook.name
                    );
                    queued.pending.end();
                }
                // The server stops.
                Err(TrySendError::Closed(_)) => {}
            }
        }
    }
}

/// The task of a webhook.
struct Delivery {
    hook: Webhook,
    client: reqwest::Client,
    pauses: Vec<Duration>,
}

impl Delivery {
    async fn run(self, mut queued: mpsc::Receiver<Queued>) {
        while let Some(Queued { message, pending }) = queued.recv().await {
            self.hook.deliver(&self.client, &message, &self.pauses).await;
            pending.end();
        }
    }
}
