//! Closes a run: stops its work, waits until the work has ended, journals the run's end and sets the outcome.

use std::time::Duration;

use dirigent_core::run::Report;
use ractor::ActorRef;

use super::state::{Closing, SupervisorArguments, SupervisorMsg, SupervisorState};
use crate::blocking::blocking;
use crate::error::RuntimeError;
use crate::journal_reader::read_view;
use crate::run_ending::{end_status, run_ending};
use crate::run_log::RunLogError;
use crate::spans;

/// The maximum number of times to check whether a run's work has ended. All checks together take less than the second that HOST-8 allows.
const SHUTDOWN_CHECKS: u32 = 9;
const SHUTDOWN_CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl SupervisorState {
    /// Stops a run that cannot continue, without journaling an end.
    pub(super) fn give_up(&mut self, myself: &ActorRef<SupervisorMsg>, error: RuntimeError) {
        if self.closing.is_none() {
            tracing::error!(run = %self.arguments.run, %error, "the run cannot continue and stops");
            self.close(myself, Closing::GiveUp(error));
        }
    }

    /// Stops all work and waits until it has ended. Only the first call has an effect. The end is read from
    /// the machine only after the work has ended, because until then a cancellation may replace it.
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
        spans::record_end(&self.arguments.span, reason, &self.driver.machine.report().usage);
        let (status, ending) = (end_status(reason), run_ending(reason));
        let (actor, run) = (myself.clone(), self.arguments.run);
        let closed = move |ended: Result<(), RunLogError>| {
            let _ = actor.send_message(SupervisorMsg::Closed(ended));
        };
        let services = &self.arguments.services;
        match self.arguments.claim.upgrade() {
            Some(claim) => claim.end(services.clock.now(), status, ending, Box::new(closed)),
            None => closed(Err(RunLogError::released(run))),
        }
    }

    /// Reads the report from the journal, because the machine does not know the work of agents that were stopped.
    pub(super) fn read_report(&self, myself: &ActorRef<SupervisorMsg>) {
        let (run, journal) = (self.arguments.run, self.arguments.services.journal.clone());
        let (myself, known) = (myself.clone(), self.driver.machine.report());
        tokio::spawn(async move {
            let read = blocking(move || Ok(read_view(&*journal, run)?.report())).await;
            let report = read.map(Report::without_account).unwrap_or(known);
            let _ = myself.send_message(SupervisorMsg::Reported(Box::new(report)));
        });
    }

    fn stop_all(&mut self) {
        self.arguments.cancel.cancel();
        self.agents_stopped |= !self.agents.is_empty();
        self.agent_ids.clear();
        self.agent_spans.clear();
        for actor in std::mem::take(&mut self.agents).into_values() {
            actor.stop(None);
        }
    }
}

/// Waits until all tasks and agents of a run have ended, for slightly less than the second that HOST-8 allows.
pub(crate) async fn wait_for_all(arguments: &SupervisorArguments) {
    arguments.tasks.close();
    for _ in 0..SHUTDOWN_CHECKS {
        // Several short waits are used instead of one long wait. If the process is suspended during a wait,
        // only this interval elapses, and the work still has the other intervals to end.
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
            "the run has ended, but some of its tasks are ignoring their cancellation"
        );
    }
}
