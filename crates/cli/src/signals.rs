//! Signals that end the process.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A request to end the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownSignal {
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM or SIGQUIT (Ctrl-\).
    Terminated,
    /// SIGHUP: the terminal was closed. It may arrive twice, from the system and from the shell.
    HungUp,
}

/// Listens for Ctrl-C, SIGTERM, SIGQUIT (Ctrl-\) and SIGHUP.
///
/// Create it before starting a run: a signal without a listener kills the process and leaves the run and its child processes as they
/// are. A signal that arrives while the run is starting is delivered by the first call of [`Self::next`].
pub(crate) struct ShutdownSignals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    /// `None` if the process was started with SIGHUP ignored, as by `nohup`.
    hang_up: Option<Signal>,
}

impl ShutdownSignals {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(ShutdownSignals {
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?,
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            quit: signal(SignalKind::quit()).context("cannot listen for SIGQUIT")?,
            hang_up: if is_sighup_ignored() {
                None
            } else {
                Some(signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?)
            },
        })
    }

    /// Returns true if a closed terminal ends the process.
    pub(crate) fn handles_hang_up(&self) -> bool {
        self.hang_up.is_some()
    }

    pub(crate) async fn next(&mut self) -> ShutdownSignal {
        let hung_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => ShutdownSignal::Interrupted,
            _ = self.terminate.recv() => ShutdownSignal::Terminated,
            _ = self.quit.recv() => ShutdownSignal::Terminated,
            _ = hung_up => ShutdownSignal::HungUp,
        }
    }

    /// Waits for Ctrl-C, SIGTERM or SIGQUIT. Ignores SIGHUP: a second SIGHUP comes from the same closed terminal, and
    /// does not mean that the user wants to stop waiting.
    pub(crate) async fn interrupted(&mut self) {
        while self.next().await == ShutdownSignal::HungUp {}
    }
}

/// Blocks until Ctrl-C, SIGTERM or SIGQUIT. Must be called outside any tokio runtime.
pub(crate) fn wait_for_interrupt() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        ShutdownSignals::listen()?.interrupted().await;
        Ok(())
    })
}

/// Returns true if the process was started with SIGHUP ignored. Always false on systems without `/proc`.
fn is_sighup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // SIGHUP is signal 1, the lowest bit of the mask.
    ignored
        .and_then(|mask| u128::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}
