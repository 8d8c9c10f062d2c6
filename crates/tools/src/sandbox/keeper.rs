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
use super::limits::Limits;
use super::{Confinement, NotStarted, Program, Reach, Sandbox, filter, privileges};

/// It has little to do.
const STACK: usize = 256 * 1024;
/// How often it looks whether all have ended that it killed, and with which pause: a third of a second in all.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(3);

/// The keeper of a command that was started. Dropped, it ends what is in the domain before it returns.
pub(crate) struct Keeper {
    orders: Option<mpsc::Sender<Signal>>,
    thread: Option<JoinHandle<()>>,
    left: Option<oneshot::Receiver<usize>>,
    has_domain: bool,
}

/// A command that runs, and whether its keeper has a domain.
type Started = (Box<dyn ChildWrapper>, bool);

impl Keeper {
    /// Starts a command in a domain of its own. Where it is to be confined, it can reach what `reach` says.
    pub(crate) async fn start(
        sandbox: Sandbox,
        reach: Reach,
        program: Program,
    ) -> Result<(Self, Box<dyn ChildWrapper>), NotStarted> {
        let (orders, ordered) = mpsc::channel();
        let (tell_started, started) = oneshot::channel();
        let (tell_left, left) = oneshot::channel();
        let runtime = Handle::current();
        let keep = move || {
            let (domain, child) = match start(&sandbox, &reach, &program, &runtime) {
                Ok(started) => started,
                Err(why) => {
                    let _ = tell_started.send(Err(why));
                    return;
                }
            };
            let _ = tell_started.send(Ok((child, domain.is_some())));
            let left = domain.map_or(0, |domain| keep(&domain, &ordered));
            let _ = tell_left.send(left);
        };
        let thread = thread::Builder::new()
            .name("command".to_owned())
            .stack_size(STACK);
        let thread = thread.spawn(keep).map_err(NotStarted::Refused)?;
        // From here on, whatever becomes of this future, the thread ends what it starts.
        let mut keeper = Keeper {
            orders: Some(orders),
            thread: Some(thread),
            left: Some(left),
            has_domain: false,
        };
        let (child, has_domain): Started = match started.await {
            Ok(started) => started?,
            Err(_) => return Err(NotStarted::Refused(io::Error::other("its thread broke"))),
        };
        keeper.has_domain = has_domain;
        Ok((keeper, child))
    }

    /// Sends a signal to every process of the command; false where there is no domain to know them by.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let sent = self
            .orders
            .as_ref()
            .is_some_and(|orders| orders.send(signal).is_ok());
        sent && self.has_domain
    }

    /// Ends all that is left, and waits for its end; returns how many processes could not be ended in time.
    pub(crate) async fn end(&mut self) -> usize {
        self.orders = None;
        match self.left.take() {
            Some(left) => left.await.unwrap_or_default(),
            None => 0,
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // It cannot do more about its own panic than to end.
            let _ = thread.join();
        }
    }
}

/// Shuts this thread in and starts the program from here. Without confinement the system need not have domains.
fn start(
    sandbox: &Sandbox,
    reach: &Reach,
    program: &Program,
    runtime: &Handle,
) -> Result<(Option<Domain>, Box<dyn ChildWrapper>), NotStarted> {
    let domain = match sandbox.confinement {
        Confinement::Required => Some(confine(reach, sandbox.network).map_err(NotStarted::NoSandbox)?),
        Confinement::Off => Domain::enter(None).ok(),
    };
    let _runtime = runtime.enter();
    let mut child = program.start().map_err(NotStarted::Refused)?;
    match let_through(child.as_mut(), &Limits::of(sandbox)) {
        Ok(()) => Ok((domain, child)),
        Err(error) => {
            let _ = child.start_kill();
            Err(NotStarted::Refused(error))
        }
    }
}

/// Limits what was started and opens its gate.
fn let_through(child: &mut dyn ChildWrapper, limits: &Limits) -> io::Result<()> {
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
fn confine(reach: &Reach, network: bool) -> Result<Domain, String> {
    let domain = Domain::enter(Some(reach))?;
    filter::apply(network)?;
    privileges::give_up().map_err(|error| error.to_string())?;
    Ok(domain)
}

/// Whether this system can confine: tried by a thread that ends. What is missing, if not.
pub(super) fn check() -> Result<(), String> {
    let nowhere = Reach {
        read: Vec::new(),
        write: Vec::new(),
    };
    let confined = thread::spawn(move || confine(&nowhere, false).map(drop)).join();
    confined.unwrap_or_else(|_| Err("its thread broke".to_owned()))
}

/// Carries out orders until there are no more to come; returns how many processes are left then.
fn keep(domain: &Domain, orders: &mpsc::Receiver<Signal>) -> usize {
    while let Ok(signal) = orders.recv() {
        domain.signal(signal);
    }
    end(domain)
}

fn end(domain: &Domain) -> usize {
    for _ in 0..LOOKS {
        domain.signal(Signal::KILL);
        if domain.processes().is_empty() {
            return 0;
        }
        thread::sleep(PAUSE);
    }
    domain.processes().len()
}
