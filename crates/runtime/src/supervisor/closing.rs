//! How a run that is over closes: whatever is under way ends first, then the end is journaled, and those who wait are told.

use std::time::Duration;

use dirigent_core::run::Report;
use dirigent_store::StoreError;
use ractor::ActorRef;

use super::{SupervisorArguments, SupervisorMsg, SupervisorState};
use crate::driver::{end_status, run_ending};
use crate::error::RuntimeError;
use crate::handle::read_run;
use crate::orchestrator::blocking;

/// How long agents, requests and tools may take to end once the run is over (HOST-8: a second in all): so many looks, with that time
/// between them.
const SHUTDOWN_CHECKS: u32 = 9;
const SHUTDOWN_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// What a supervisor that is ending does once its work has ended.
pub(super) enum Closing {
    /// Journals the end that the machine has come to.
    End,
    /// Says why the run cannot go on.
    GiveUp(RuntimeError),
}

impl SupervisorState {
    /// The run cannot go on, and its journal cannot say so.
    pub(super) fn give_up(&mut self, myself: &ActorRef<SupervisorMsg>, error: RuntimeError) {
        if self.closing.is_none() {
            tracing::error!(run = %self.arguments.run, %error, "the run stops");
            self.close(myself, Closing::GiveUp(error));
        }
    }

    /// Stops whatever is under way and waits for it. A run that stands still can be cancelled while it closes: it closes
    /// once, with the end that its machine has then.
    pub(super) fn close(&mut self, myself: &ActorRef<SupervisorMsg>, closing: Closing) {
        if self.closing.is_some() {
            return;
        }
        self.arguments.mailbox.close();
        self.stop_all();
        self.closing = Some(closing);
        let run = self.arguments.run;
        for message in self.undelivered.drain(..) {
            message.ack.rejected(RuntimeError::Ended { run });
        }
        let (arguments, myself) = (self.arguments.clone(), myself.clone());
        tokio::spawn(async move {
            wait_for_all(&arguments).await;
            let _ = myself.send_message(SupervisorMsg::WorkEnded);
        });
    }

    pub(super) fn work_ended(&mut self, myself: &ActorRef<SupervisorMsg>) {
        match &self.closing {
            Some(Closing::End) => {}
            Some(Closing::GiveUp(error)) => {
                self.outcome = Some(Err(error.clone()));
                return myself.stop(None);
            }
            None => return,
        }
        let Some(reason) = self.driver.machine.end() else {
            return;
        };
        let (status, ending) = (end_status(reason), run_ending(reason));
        let (actor, run) = (myself.clone(), self.arguments.run);
        let closed = move |ended: Result<(), StoreError>| {
            let _ = actor.send_message(SupervisorMsg::Closed(ended));
        };
        let services = &self.arguments.services;
        match self.arguments.claim.upgrade() {
            Some(claim) => services
                .journal
                .end(&claim, services.clock.now(), status, ending, closed),
            None => closed(Err(StoreError::NotClaimed { run })),
        }
    }

    /// Looks into the journal for what agents did that were cut off.
    pub(super) fn report(&self, myself: &ActorRef<SupervisorMsg>) {
        let (run, journal) = (self.arguments.run, self.arguments.services.journal.clone());
        let (myself, known) = (myself.clone(), self.driver.machine.report());
        tokio::spawn(async move {
            let read = blocking(move || Ok(read_run(&journal, run)?.0.report())).await;
            let report = read.map(Report::without_account).unwrap_or(known);
            let _ = myself.send_message(SupervisorMsg::Reported(Box::new(report)));
        });
    }

    fn stop_all(&mut self) {
        self.arguments.cancel.cancel();
        self.cut_off |= !self.agents.is_empty();
        for (_, (_, actor)) in self.agents.drain() {
            actor.stop(None);
        }
    }
}

/// Until every task and agent of the run has ended, or the second that HOST-8 allows is nearly over.
pub(crate) async fn wait_for_all(arguments: &SupervisorArguments) {
    arguments.tasks.close();
    for _ in 0..SHUTDOWN_CHECKS {
        // Where the whole process stood still, one time is over, but the work has the others.
        if tokio::time::timeout(SHUTDOWN_CHECK_INTERVAL, arguments.tasks.wait())
            .await
            .is_ok()
        {
            return;
        }
    }
    let remaining = arguments.tasks.len();
    if remaining > 0 {
        tracing::warn!(
            run = %arguments.run,
            remaining,
            "the run has ended, but some of its work ignores that it was cancelled"
        );
    }
}
