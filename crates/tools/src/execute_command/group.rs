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
use super::temporary::Temporary;
use crate::sandbox::Keeper;

/// How long the output may stay open after the program's own end, for what it left to finish writing.
const SETTLE: Duration = Duration::from_millis(250);
/// How long a group has between SIGTERM and SIGKILL. With twice `REAP`, what the keeper needs, and putting back it stays below what the
/// runtime waits for a cancelled call, which is under a second (HOST-8).
const GRACE: Duration = Duration::from_millis(150);
/// How long to wait for the end of what was sent SIGKILL, and then for the end of its output.
const REAP: Duration = Duration::from_millis(100);

/// A program and its processes. When it is dropped, what is left of them is ended before their temporary files are removed.
pub(super) struct Group {
    child: Box<dyn ChildWrapper>,
    /// Set when nothing of it is left to kill: its id may then belong to a stranger.
    over: bool,
    keeper: Keeper,
    /// How many processes could not be ended.
    left: usize,
    _temporary: Temporary,
}

/// How it ended.
pub(super) enum Ended {
    /// By itself.
    Exited {
        status: ExitStatus,
        /// Whether something that it left behind still held its output open.
        left_open: bool,
    },
    /// By us, past its time. No status where even SIGKILL did not end it in time.
    TimedOut(Option<ExitStatus>),
    /// By us, as nobody waits for it.
    Cancelled(Option<ExitStatus>),
    /// The operating system does not say.
    Lost(io::Error),
}

impl Ended {
    pub(super) fn status(&self) -> Option<ExitStatus> {
        match self {
            Ended::Exited { status, .. } => Some(*status),
            Ended::TimedOut(status) | Ended::Cancelled(status) => *status,
            Ended::Lost(_) => None,
        }
    }
}

impl Group {
    pub(super) fn new(child: Box<dyn ChildWrapper>, keeper: Keeper, temporary: Temporary) -> Self {
        Group {
            child,
            over: false,
            keeper,
            left: 0,
            _temporary: temporary,
        }
    }

    /// How many of its processes could not be ended, once it has run.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Reads its output until it ends: by itself, past its limit or by the token. Afterwards nothing of it is left.
    pub(super) async fn run(
        &mut self,
        limit: Duration,
        cancel: &CancellationToken,
        stdout: &mut Capture,
        stderr: &mut Capture,
    ) -> Ended {
        let (out, err) = (self.child.stdout().take(), self.child.stderr().take());
        let mut reading = pin!(maybe_done(join(stdout.fill(out), stderr.fill(err))));
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => Ended::Cancelled(self.end(reading.as_mut()).await),
            exited = exit(self.child.as_mut(), reading.as_mut()) => match exited {
                Ok(status) => {
                    let left_open = timeout(SETTLE, reading.as_mut()).await.is_err();
                    Ended::Exited { status, left_open }
                }
                Err(error) => Ended::Lost(error),
            },
            () = sleep(limit) => Ended::TimedOut(self.end(reading.as_mut()).await),
        };
        self.kill();
        self.over = true;
        self.left = self.keeper.end().await;
        ended
    }

    /// Asks its processes to end, then makes them. An open output is a sign that one of them still runs.
    async fn end<F: Future>(&mut self, mut reading: Pin<&mut MaybeDone<F>>) -> Option<ExitStatus> {
        if !self.keeper.signal(Signal::TERM) {
            // Where there is nobody left to signal, the waiting below returns at once.
            let _ = self.child.signal(Signal::TERM.as_raw());
        }
        let all_over = join(self.child.wait(), reading.as_mut());
        if let Ok((status, ())) = timeout(GRACE, all_over).await {
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
        let _ = self.keeper.signal(Signal::KILL);
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

impl Drop for Group {
    fn drop(&mut self) {
        if !self.over {
            self.kill();
        }
    }
}
