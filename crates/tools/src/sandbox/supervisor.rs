//! The thread that starts a command in a domain of its own, stays in it for as long as the command, and ends all that is in it.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use process_wrap::tokio::ChildWrapper;
use rustix::process::{Pid, Signal};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::domain::Domain;
use super::limits::ResourceLimits;
use super::{AccessRules, Confinement, Program, Sandbox, SpawnError, privileges, seccomp};

/// It has little to do.
const THREAD_STACK_SIZE: usize = 256 * 1024;
/// How often it looks whether all have ended that it killed, and with which pause: a third of a second in all.
const KILL_ATTEMPTS: u32 = 100;
const KILL_INTERVAL: Duration = Duration::from_millis(3);

/// The supervisor of a command that was started. Dropped, it ends what is in the domain before it returns.
pub(crate) struct SandboxSupervisor {
    signals: Option<mpsc::Sender<Signal>>,
    thread: Option<JoinHandle<()>>,
    remaining: Option<oneshot::Receiver<usize>>,
    has_domain: bool,
}

/// A command that runs, and whether its supervisor has a domain.
type StartedCommand = (Box<dyn ChildWrapper>, bool);

impl SandboxSupervisor {
    /// Starts a command in a domain of its own. Where it is to be confined, it can reach what `rules` says.
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
                Err(why) => {
                    let _ = started_sender.send(Err(why));
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
        // From here on, whatever becomes of this future, the thread ends what it starts.
        let mut supervisor = SandboxSupervisor {
            signals: Some(signals),
            thread: Some(thread),
            remaining: Some(remaining),
            has_domain: false,
        };
        let (child, has_domain): StartedCommand = match started.await {
            Ok(started) => started?,
            Err(_) => return Err(SpawnError::Io(io::Error::other("its thread broke"))),
        };
        supervisor.has_domain = has_domain;
        Ok((supervisor, child))
    }

    /// Sends a signal to every process of the command; false where there is no domain to know them by.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let sent = self
            .signals
            .as_ref()
            .is_some_and(|signals| signals.send(signal).is_ok());
        sent && self.has_domain
    }

    /// Ends all that is left, and waits for its end; returns how many processes could not be ended in time.
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
            // It cannot do more about its own panic than to end.
            let _ = thread.join();
        }
    }
}

/// Shuts this thread in and starts the program from here. Without confinement the system need not have domains.
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

/// Limits what was started and opens its gate.
fn limit_and_release(child: &mut dyn ChildWrapper, limits: &ResourceLimits) -> io::Result<()> {
    let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let (Some(id), Some(gate)) = (id, child.stdin().take()) else {
        // It has ended already, which is told as any end.
        return Ok(());
    };
    limits.set(id)?;
    match File::from(gate.into_owned_fd()?).write_all(b"\n") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Confines the calling thread, and all that it starts from now on, for good.
fn confine(rules: &AccessRules, network: bool) -> Result<Domain, String> {
    let domain = Domain::enter(Some(rules))?;
    seccomp::apply(network)?;
    privileges::drop_privileges().map_err(|error| error.to_string())?;
    Ok(domain)
}

/// Whether this system can confine: tried by a thread that ends. What is missing, if not.
pub(super) fn check() -> Result<(), String> {
    let nowhere = AccessRules {
        read: Vec::new(),
        write: Vec::new(),
    };
    let confined = thread::spawn(move || confine(&nowhere, false).map(drop)).join();
    confined.unwrap_or_else(|_| Err("its thread broke".to_owned()))
}

/// Carries out signals until there are no more to come; returns how many processes are left then.
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
