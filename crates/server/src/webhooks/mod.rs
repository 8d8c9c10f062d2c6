//! Webhooks: calls the addresses of the configuration when a run has ended or waits for its user.
//!
//! Only addresses of the owner's configuration are called, never one that a request or a workspace names. Each call is signed by the scheme of Standard Webhooks, repeated while the
//! receiver is out of order, and never redirected. What is called for follows from the journal: after a restart, the server goes on where its last deliveries ended. A receiver may get a
//! message twice, and recognises it by its id.

mod client;
mod delivery;
mod message;
mod options;
mod progress;
mod queues;
mod signature;
mod watch;

pub use options::{Webhook, WebhookError, WebhookOptions};

pub(crate) use watch::watch_runs;
