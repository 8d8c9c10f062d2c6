//! Waits within a response: a gate that a test opens, or a delay.
//!
//! A gate has no timeout of its own; a client that gives up meanwhile is logged as a hang-up.

use std::time::Duration;

use tokio::sync::watch;

/// A gate that starts closed and stays open once opened. Clones share the gate.
#[derive(Clone, Debug)]
pub struct Gate {
    open: watch::Sender<bool>,
}

impl Gate {
    /// Creates a closed gate.
    pub fn new() -> Self {
        Self {
            open: watch::Sender::new(false),
        }
    }

    /// Opens the gate for all current and future waits.
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

/// A wait within a response.
#[derive(Clone, Debug)]
pub enum Wait {
    /// Until the gate is open.
    Gate(Gate),
    /// For this long.
    Delay(Duration),
}

impl Wait {
    /// Waits until the gate is open or the delay has passed.
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
