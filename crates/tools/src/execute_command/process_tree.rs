//! A running program with all the processes that descend from it: waiting for its end, or bringing it about.
//!
//! It never waits without a bound for anything but the program itself, and never outlives its owner: dropped before the
//! end, it kills them.

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

/// How long the output may stay open after the program's own end, for what it left to finish writing.
const SETTLE: Duration = Duration::from_millis(250);
/// How long a group has between SIGTERM and SIGKILL. With twice `REAP`, what the supervisor needs, and putting back it stays below what the
/// runtime waits for a cancelled call, which is under a second (HOST-8).
const GRACE: Duration = Duration::from_millis(150);
/// How long to wait for the end of what was sent SIGKILL, and then for the end of its output.
const REAP: Duration = Duration::from_millis(100);

/// A program and its processes. When it is dropped, what is left of them is ended before their temporary files are removed.
pub(super) struct ProcessTree {
    child: Box<dyn ChildWrapper>,
    /// Set when nothing of it is left to kill: its id may then belong to a stranger.
    finished: bool,
    supervisor: SandboxSupervisor,
    /// How many processes could not be ended.
    remaining: usize,
    _temporary: TemporaryFolder,
}

/// How it ended.
pub(super) enum CommandEnd {
    /// By itself.
    Exited {
        status: ExitStatus,
        /// Whether something that it left behind still held its output open.
        output_still_open: bool,
    },
    /// By us, past its time. No status where even SIGKILL did not end it in time.
    TimedOut(Option<ExitStatus>),
    /// By us, as nobody waits for it.
    Cancelled(Option<ExitStatus>),
    /// The operating system does not say.
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

    /// How many of its processes could not be ended, once it has run.
    pub(super) fn remaining(&self) -> usize {
        self.remaining
    }

    /// Reads its output until it ends: by itself, past its limit or by the token. Afterwards nothing of it is left.
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

    /// Asks its processes to end, then makes them. An open output is a sign that one of them still runs.
    async fn end<F: Future>(&mut self, mut reading: Pin<&mut MaybeDone<F>>) -> Option<ExitStatus> {
        if !self.supervisor.signal(Signal::TERM) {
            // Where there is nobody left to signal, the waiting below returns at once.
            let _ = self.child.signal(Signal::TERM.as_raw());
        }
        let all_finished = join(self.child.wait(), reading.as_mut());
        if let Ok((status, ())) = timeout(GRACE, all_finished).await {
            return status.ok();
        }
        self.kill();
        let status = timeout(REAP, exit(self.child.as_mut(), reading.as_mut())).await;
        // What the last of them wrote is still in the pipe.
        let _ = timeout(REAP, reading).await;
        status.ok().and_then(Result::ok)
    }

    fn kill(&mut self) {
        // The only failure is that no process of the group is left, which is what was wanted.
        let _ = self.child.start_kill();
        // It knows those, too, that have left the group.
        let _ = self.supervisor.signal(Signal::KILL);
    }
}

/// Waits for the program's own end and keeps reading meanwhile.
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
