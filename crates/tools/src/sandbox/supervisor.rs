//! The supervisor of a command: a thread that starts the command in a new Landlock domain, lives as long as the command, and finally kills
//! all processes in the domain.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use process_wrap::tokio::ChildWrapper;
use rustix::process::{Pid, Signal};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::access_rules::AccessRules;
use super::domain::Domain;
use super::error::SpawnError;
use super::limits::ResourceLimits;
use super::program::Program;
use super::settings::{Confinement, Sandbox};
use super::{privileges, seccomp};

const THREAD_STACK_SIZE: usize = 256 * 1024;
/// Number of attempts to kill the processes. With the pauses, they take 0.3 s in total.
const KILL_ATTEMPTS: u32 = 100;
/// Pause between two attempts.
const KILL_INTERVAL: Duration = Duration::from_millis(3);

/// Handle to a command's supervisor thread. Dropping it kills the processes in the domain and blocks until they have ended.
pub(crate) struct SandboxSupervisor {
    signals: Option<mpsc::Sender<Signal>>,
    thread: Option<JoinHandle<()>>,
    remaining: Option<oneshot::Receiver<usize>>,
    has_domain: bool,
}

/// A running command, and whether it runs in a domain.
type StartedCommand = (Box<dyn ChildWrapper>, bool);

impl SandboxSupervisor {
    /// Starts a command in a new domain. `rules` limits its file access, unless confinement is off.
    pub(crate) async fn start(
        sandbox: Sandbox,
        rules: AccessRules,
        program: Program,
    ) -> Result<(Self, Box<dyn ChildWrapper>), SpawnError> {
        let (signals, signals_receiver) = mpsc::channel();
        let (started_sender, started) = oneshot::channel();
        let (remaining_sender, remaining) = oneshot::channel();
        let runtime = Handle::current();
        let supervise_command = move || {
            let (domain, child) = match start(&sandbox, &rules, &program, &runtime) {
                Ok(started) => started,
                Err(error) => {
                    let _ = started_sender.send(Err(error));
                    return;
                }
            };
            let _ = started_sender.send(Ok((child, domain.is_some())));
            let remaining = domain.map_or(0, |domain| supervise(&domain, &signals_receiver));
            let _ = remaining_sender.send(remaining);
        };
        let thread = thread::Builder::new()
            .name("command".to_owned())
            .stack_size(THREAD_STACK_SIZE);
        let thread = thread.spawn(supervise_command).map_err(SpawnError::Io)?;
        // From here on, the thread kills the command even if this future is dropped.
        let mut supervisor = SandboxSupervisor {
            signals: Some(signals),
            thread: Some(thread),
            remaining: Some(remaining),
            has_domain: false,
        };
        let (child, has_domain): StartedCommand = match started.await {
            Ok(started) => started?,
            Err(_) => return Err(SpawnError::Io(io::Error::other("its supervisor thread panicked"))),
        };
        supervisor.has_domain = has_domain;
        Ok((supervisor, child))
    }

    /// Sends a signal to all processes of the command. Returns false if there is no domain, because the command's processes cannot be found
    /// without one.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let sent = self
            .signals
            .as_ref()
            .is_some_and(|signals| signals.send(signal).is_ok());
        sent && self.has_domain
    }

    /// Kills all remaining processes and waits for their end. Returns how many are still running.
    pub(crate) async fn end(&mut self) -> usize {
        self.signals = None;
        match self.remaining.take() {
            Some(remaining) => remaining.await.unwrap_or_default(),
            None => 0,
        }
    }
}

impl Drop for SandboxSupervisor {
    fn drop(&mut self) {
        self.signals = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread needs no handling, because the thread has ended.
            let _ = thread.join();
        }
    }
}

/// Confines this thread and starts the program from it. If confinement is off, the program also starts on systems without Landlock.
fn start(
    sandbox: &Sandbox,
    rules: &AccessRules,
    program: &Program,
    runtime: &Handle,
) -> Result<(Option<Domain>, Box<dyn ChildWrapper>), SpawnError> {
    let domain = match sandbox.confinement {
        Confinement::Required => {
            Some(confine(rules, sandbox.network).map_err(SpawnError::SandboxUnavailable)?)
        }
        Confinement::Off => Domain::enter(None).ok(),
    };
    let _runtime = runtime.enter();
    let mut child = program.start().map_err(SpawnError::Io)?;
    match limit_and_release(child.as_mut(), &ResourceLimits::from_sandbox(sandbox)) {
        Ok(()) => Ok((domain, child)),
        Err(error) => {
            let _ = child.start_kill();
            Err(SpawnError::Io(error))
        }
    }
}

/// Sets the limits of a started process, then writes a line to its stdin. Its shell waits for this line
/// before it `exec`s the program.
fn limit_and_release(child: &mut dyn ChildWrapper, limits: &ResourceLimits) -> io::Result<()> {
    let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let (Some(id), Some(gate)) = (id, child.stdin().take()) else {
        // The process has already ended. The caller reports this like any other end of a command.
        return Ok(());
    };
    limits.set(id)?;
    match File::from(gate.into_owned_fd()?).write_all(b"\n") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Confines the calling thread and the processes that it starts from now on, irrevocably.
fn confine(rules: &AccessRules, network: bool) -> Result<Domain, String> {
    let domain = Domain::enter(Some(rules))?;
    seccomp::apply(network)?;
    privileges::drop_privileges().map_err(|error| error.to_string())?;
    Ok(domain)
}

/// Checks whether this system can confine commands, by confining a short-lived thread. The error names what is missing.
pub(super) fn check() -> Result<(), String> {
    let no_access = AccessRules {
        read: Vec::new(),
        write: Vec::new(),
    };
    let confined = thread::spawn(move || confine(&no_access, false).map(drop)).join();
    confined.unwrap_or_else(|_| Err("the checking thread panicked".to_owned()))
}

/// Forwards signals until their sender is gone, then kills the remaining processes. Returns how many are still running.
fn supervise(domain: &Domain, signals: &mpsc::Receiver<Signal>) -> usize {
    while let Ok(signal) = signals.recv() {
        domain.signal(signal);
    }
    end(domain)
}

fn end(domain: &Domain) -> usize {
    for _ in 0..KILL_ATTEMPTS {
        domain.signal(Signal::KILL);
        if domain.processes().is_empty() {
            return 0;
        }
        thread::sleep(KILL_INTERVAL);
    }
    domain.processes().len()
}
