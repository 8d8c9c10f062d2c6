//! What a reply may be held by: a gate that a test opens, or a delay.
//!
//! A gate never times out by itself; a client that gives up meanwhile is recorded as a hang-up.

use std::time::Duration;

use tokio::sync::watch;

/// Closed until opened, then open for ever. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    open: watch::Sender<bool>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self {
            open: watch::Sender::new(false),
        }
    }

    /// Lets everything through that waits here, now and later.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until the gate is open.
    pub async fn wait_open(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// What to wait for before going on.
#[derive(Clone, Debug)]
pub enum Wait {
    /// Until a test opens it.
    Gate(Gate),
    /// For this long, each time.
    Delay(Duration),
}

impl Wait {
    /// Waits for it.
    pub(crate) async fn wait(&self) {
        match self {
            Self::Gate(gate) => gate.wait_open().await,
            Self::Delay(delay) => tokio::time::sleep(*delay).await,
        }
    }
}

impl From<&Gate> for Wait {
    fn from(gate: &Gate) -> Self {
        Self::Gate(gate.clone())
    }
}

impl From<Duration> for Wait {
    fn from(delay: Duration) -> Self {
        Self::Delay(delay)
    }
}
