//! A running program with all its descendant processes: waits for their end, or kills them.
//!
//! All waits are short, except the wait for the program's own end. Dropping the process tree kills its processes.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::process::ExitStatus;
use std::time::Duration;

use futures::future::{MaybeDone, join, maybe_done};
use process_wrap::tokio::ChildWrapper;
use rustix::process::Signal;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::capture::Capture;
use super::temporary_folder::TemporaryFolder;
use crate::sandbox::SandboxSupervisor;

/// Time for the program's remaining processes to finish writing after the program itself has ended.
const SETTLE: Duration = Duration::from_millis(250);
/// Time between SIGTERM and SIGKILL. `GRACE`, twice `REAP`, the supervisor's kill attempts and the restoring of files must together take
/// less time than the runtime waits for a cancelled call, which is less than a second (HOST-8).
const GRACE: Duration = Duration::from_millis(150);
/// Time to wait for the program's end after SIGKILL, and then again for the end of its output.
const REAP: Duration = Duration::from_millis(100);

/// A program and its processes. On drop, the remaining processes are killed first, then their temporary files
/// are removed.
pub(super) struct ProcessTree {
    child: Box<dyn ChildWrapper>,
    /// Set once no process is left to kill. From then on, dropping must not kill, because the process id may
    /// belong to an unrelated process.
    finished: bool,
    supervisor: SandboxSupervisor,
    /// Number of processes that could not be killed in time.
    remaining: usize,
    _temporary: TemporaryFolder,
}

/// The way a command ended.
pub(super) enum CommandEnd {
    /// The program ended by itself.
    Exited {
        status: ExitStatus,
        /// Whether a remaining process still had the command's output open.
        output_still_open: bool,
    },
    /// The command was killed after its timeout. `None` if even SIGKILL did not end it in time.
    TimedOut(Option<ExitStatus>),
    /// The command was killed because the call was cancelled. `None` if even SIGKILL did not end it in time.
    Cancelled(Option<ExitStatus>),
    /// The operating system did not return the exit status.
    Unknown(io::Error),
}

impl CommandEnd {
    pub(super) fn status(&self) -> Option<ExitStatus> {
        match self {
            CommandEnd::Exited { status, .. } => Some(*status),
            CommandEnd::TimedOut(status) | CommandEnd::Cancelled(status) => *status,
            CommandEnd::Unknown(_) => None,
        }
    }
}

impl ProcessTree {
    pub(super) fn new(
        child: Box<dyn ChildWrapper>,
        supervisor: SandboxSupervisor,
        temporary: TemporaryFolder,
    ) -> Self {
        ProcessTree {
            child,
            finished: false,
            supervisor,
            remaining: 0,
            _temporary: temporary,
        }
    }

    /// Returns the number of processes that could not be killed in time. Final after [`ProcessTree::run`].
    pub(super) fn remaining(&self) -> usize {
        self.remaining
    }

    /// Reads the output until the program ends, the time limit `limit` expires or the token is cancelled.
    /// Then kills all processes.
    pub(super) async fn run(
        &mut self,
        limit: Duration,
        cancel: &CancellationToken,
        stdout: &mut Capture,
        stderr: &mut Capture,
    ) -> CommandEnd {
        let (out, err) = (self.child.stdout().take(), self.child.stderr().take());
        let mut reading = pin!(maybe_done(join(stdout.read_to_end(out), stderr.read_to_end(err))));
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => CommandEnd::Cancelled(self.end(reading.as_mut()).await),
            exited = exit(self.child.as_mut(), reading.as_mut()) => match exited {
                Ok(status) => {
                    let output_still_open = timeout(SETTLE, reading.as_mut()).await.is_err();
                    CommandEnd::Exited { status, output_still_open }
                }
                Err(error) => CommandEnd::Unknown(error),
            },
            () = sleep(limit) => CommandEnd::TimedOut(self.end(reading.as_mut()).await),
        };
        self.kill();
        self.finished = true;
        self.remaining = self.supervisor.end().await;
        ended
    }

    /// Sends SIGTERM to the processes, and SIGKILL if one of them is still running after [`GRACE`]. A process
    /// counts as running while the program has not exited or the output is open. Returns the program's exit
    /// status, if known.
    async fn end<F: Future>(&mut self, mut reading: Pin<&mut MaybeDone<F>>) -> Option<ExitStatus> {
        if !self.supervisor.signal(Signal::TERM) {
            // An error means that no process is left to signal. In this case, waiting for the program returns
            // at once.
            let _ = self.child.signal(Signal::TERM.as_raw());
        }
        let all_finished = join(self.child.wait(), reading.as_mut());
        if let Ok((status, ())) = timeout(GRACE, all_finished).await {
            return status.ok();
        }
        self.kill();
        let status = timeout(REAP, exit(self.child.as_mut(), reading.as_mut())).await;
        // The pipe may still hold output of the killed processes.
        let _ = timeout(REAP, reading).await;
        status.ok().and_then(Result::ok)
    }

    fn kill(&mut self) {
        // Fails only if no process of the group is left.
        let _ = self.child.start_kill();
        // Also reaches processes that have left the group.
        let _ = self.supervisor.signal(Signal::KILL);
    }
}

/// Waits for the program's own end while reading its output.
async fn exit<F: Future>(
    child: &mut dyn ChildWrapper,
    mut reading: Pin<&mut MaybeDone<F>>,
) -> io::Result<ExitStatus> {
    let mut exit = child.wait();
    tokio::select! {
        status = &mut exit => return status,
        () = reading.as_mut() => {}
    }
    exit.await
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        if !self.finished {
            self.kill();
        }
    }
}
