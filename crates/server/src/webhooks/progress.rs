//! Until when messages were delivered, so that the server goes on there after a restart.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dirigent::events::Timestamp;
use serde_json::{Value, json};

use crate::files::written_beside;

/// The messages that are not delivered yet, and the file that says until when all are.
#[derive(Clone, Debug)]
pub(super) struct Progress(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: Option<PathBuf>,
    /// The number of undelivered messages by their times.
    pending: Mutex<BTreeMap<Timestamp, usize>>,
}

/// An undelivered message, until it is dropped.
pub(super) struct Pending {
    progress: Progress,
    at: Timestamp,
}

impl Progress {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        let pending = Mutex::default();
        Progress(Arc::new(Shared { file, pending }))
    }

    /// The time until which all messages were delivered; `None` if the server has never run, or the file cannot be read.
    pub(super) fn load(&self) -> Option<Timestamp> {
        let text = match std::fs::read_to_string(self.0.file.as_ref()?) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(
                    "webhooks: what was delivered cannot be read, so only new events count: {error}"
                );
                return None;
            }
        };
        let stored: Value = serde_json::from_str(&text).ok()?;
        stored["delivered_until"].as_u64().map(Timestamp)
    }

    /// Stores that all messages until this time were delivered, except the pending ones.
    pub(super) fn store(&self, until: Timestamp) -> io::Result<()> {
        let Some(file) = &self.0.file else { return Ok(()) };
        let oldest = self.lock().keys().next().copied();
        let until = oldest.map_or(until, |oldest| until.min(Timestamp(oldest.0.saturating_sub(1))));
        let content = json!({"delivered_until": until.0}).to_string();
        written_beside(file, content.as_bytes())?.persist(file)?;
        Ok(())
    }

    pub(super) fn begin(&self, at: Timestamp) -> Pending {
        *self.lock().entry(at).or_default() += 1;
        Pending {
            progress: self.clone(),
            at,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Timestamp, usize>> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    /// The message was delivered or given up. A message that is only dropped counts as undelivered for ever, as at the end of the server.
    pub(super) fn end(self) {
        let mut pending = self.progress.lock();
        if let Some(count) = pending.get_mut(&self.at) {
            *count -= 1;
            if *count == 0 {
                pending.remove(&self.at);
            }
        }
    }
}
