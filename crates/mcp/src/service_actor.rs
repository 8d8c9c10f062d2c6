//! The actor of one service. It decides when to connect to the service and when to reconnect (MCP-6).
//!
//! No handler waits: each connection is a separate task ([`connection::run`]) that sends reports as messages. Each connection has a number,
//! so that a late report of an earlier connection is dropped.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::connection::{self, ConnectionEnd, Report};
use crate::restart::RestartBudget;
use crate::service::{Service, StartedBy};
use crate::status::{ServiceState, WhyStopped};

/// The actor of one service.
pub(crate) struct ServiceActor;

/// A message to the actor of a service.
#[derive(Debug)]
pub(crate) enum ServiceMessage {
    /// Starts the service, unless it is running. `accepted` is sent once the service's state reflects the request.
    Start {
        by: StartedBy,
        accepted: oneshot::Sender<()>,
    },
    /// Stops the service. `done` is sent once the service's processes have ended.
    Stop {
        why: WhyStopped,
        done: oneshot::Sender<()>,
    },
    /// A report of a connection.
    Reported { number: u64, report: Report },
    /// A connection and all processes of the service have ended.
    Ended { number: u64, end: ConnectionEnd },
    /// The delay before a restart is over.
    Retry { number: u64 },
}

/// The state of the actor.
pub(crate) struct ActorState {
    service: Arc<Service>,
    phase: Phase,
    restarts: RestartBudget,
    /// The number of the newest connection or delay.
    number: u64,
}

/// What the actor is waiting for.
enum Phase {
    /// Only messages: there is no connection.
    Down,
    /// The end of the delay before a restart. Dropping the guard cancels the delay.
    Delayed { _cancel: DropGuard },
    /// Reports of the connection. Dropping the guard ends the connection.
    Connected { _cancel: DropGuard },
    /// The end of a connection that was cancelled.
    Stopping {
        done: Vec<oneshot::Sender<()>>,
        /// The requests to start the service again afterwards, which are waiting to be accepted.
        next: Vec<oneshot::Sender<()>>,
    },
}

impl Actor for ServiceActor {
    type Msg = ServiceMessage;
    type State = ActorState;
    type Arguments = Arc<Service>;

    async fn pre_start(
        &self,
        _myself: ActorRef<ServiceMessage>,
        service: Arc<Service>,
    ) -> Result<ActorState, ActorProcessingErr> {
        Ok(ActorState {
            service,
            phase: Phase::Down,
            restarts: RestartBudget::default(),
            number: 0,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<ServiceMessage>,
        message: ServiceMessage,
        state: &mut ActorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ServiceMessage::Start { by, accepted } => state.start(&myself, by, accepted),
            ServiceMessage::Stop { why, done } => state.stop(why, done),
            ServiceMessage::Reported { number, report } if number == state.number => state.take(report),
            ServiceMessage::Ended { number, end } if number == state.number => state.ended(&myself, end),
            ServiceMessage::Retry { number } if number == state.number => state.connect(&myself),
            ServiceMessage::Reported { .. } | ServiceMessage::Ended { .. } | ServiceMessage::Retry { .. } => {
            }
        }
        Ok(())
    }
}

impl ActorState {
    fn start(&mut self, myself: &ActorRef<ServiceMessage>, by: StartedBy, accepted: oneshot::Sender<()>) {
        let may_start = match (by, self.service.status().state) {
            (_, ServiceState::Stopped(WhyStopped::Removed)) => false,
            (StartedBy::User, _) => true,
            (StartedBy::Need, ServiceState::Stopped(WhyStopped::NotNeeded)) => true,
            (StartedBy::Need, ServiceState::Stopped(WhyStopped::ByUser) | ServiceState::Error { .. }) => {
                false
            }
            (StartedBy::Need, ServiceState::Starting | ServiceState::Running) => true,
        };
        match &mut self.phase {
            Phase::Down if may_start => {
                self.restarts = RestartBudget::default();
                self.connect(myself);
            }
            Phase::Stopping { next, .. } if by == StartedBy::User => {
                next.push(accepted);
                return;
            }
            Phase::Down | Phase::Delayed { .. } | Phase::Connected { .. } | Phase::Stopping { .. } => {}
        }
        // The caller may have stopped waiting.
        let _ = accepted.send(());
    }

    fn stop(&mut self, why: WhyStopped, done: oneshot::Sender<()>) {
        match &mut self.phase {
            Phase::Down | Phase::Delayed { .. } => {
                self.number += 1;
                self.phase = Phase::Down;
                self.service.set_state(ServiceState::Stopped(why), None);
                let _ = done.send(());
            }
            Phase::Connected { .. } => {
                // New calls are refused from now on.
                self.service.set_state(ServiceState::Stopped(why), None);
                self.phase = Phase::Stopping {
                    done: vec![done],
                    next: Vec::new(),
                };
            }
            Phase::Stopping { done: waiting, next } => {
                self.service.set_state(ServiceState::Stopped(why), None);
                // Cancels the starts that wait for the end: the last request counts.
                send_all(std::mem::take(next));
                waiting.push(done);
            }
        }
    }

    /// Starts the task of a new connection.
    fn connect(&mut self, myself: &ActorRef<ServiceMessage>) {
        self.number += 1;
        let (number, cancel) = (self.number, CancellationToken::new());
        self.service.set_state(ServiceState::Starting, None);
        let (service, token, actor) = (self.service.clone(), cancel.clone(), myself.clone());
        tokio::spawn(async move {
            let reporter = actor.clone();
            let report = move |report| {
                // Fails only if the actor has ended. Then the guard ends the connection.
                let _ = reporter.send_message(ServiceMessage::Reported { number, report });
            };
            let connection = tokio::spawn(connection::run(service, token, report));
            let end = connection.await.unwrap_or_else(|error| ConnectionEnd::Lost {
                reason: format!("Dirigent failed while it ran the service: {error}"),
                stderr: Vec::new(),
            });
            let _ = actor.send_message(ServiceMessage::Ended { number, end });
        });
        self.phase = Phase::Connected {
            _cancel: cancel.drop_guard(),
        };
    }

    fn take(&mut self, report: Report) {
        match (&self.phase, report) {
            (Phase::Connected { .. }, Report::Ready(connection, tools)) => {
                self.service.set_tools(tools);
                self.service.set_state(ServiceState::Running, Some(connection));
            }
            (Phase::Connected { .. }, Report::Listed(tools)) => self.service.set_tools(tools),
            (Phase::Down | Phase::Delayed { .. } | Phase::Stopping { .. }, _) => {}
        }
    }

    fn ended(&mut self, myself: &ActorRef<ServiceMessage>, end: ConnectionEnd) {
        if let Phase::Stopping { done, next } = std::mem::replace(&mut self.phase, Phase::Down) {
            send_all(done);
            if !next.is_empty() {
                self.restarts = RestartBudget::default();
                self.connect(myself);
                send_all(next);
            }
            return;
        }
        match end {
            ConnectionEnd::Stopped => {
                self.service
                    .set_state(ServiceState::Stopped(WhyStopped::NotNeeded), None);
            }
            // A failed first start is probably a configuration error, so it is reported to the user at once.
            ConnectionEnd::NotStarted { reason, stderr } if self.restarts.is_unused() => {
                self.service
                    .set_state(ServiceState::Error { reason, stderr }, None);
            }
            ConnectionEnd::NotStarted { reason, stderr } | ConnectionEnd::Lost { reason, stderr } => {
                self.restart(myself, reason, stderr);
            }
        }
    }

    /// Restarts the service after a delay, or lets it fail if there were too many restarts.
    fn restart(&mut self, myself: &ActorRef<ServiceMessage>, reason: String, stderr: Vec<String>) {
        let service = &self.service.config.name;
        let rules = &self.service.supervision;
        let Some(delay) = self.restarts.next(rules, Instant::now()) else {
            tracing::warn!(%service, reason, "a service ended too often and is not restarted");
            let reason = format!("{reason}, after {} restarts", rules.max_restarts);
            self.service
                .set_state(ServiceState::Error { reason, stderr }, None);
            return;
        };
        tracing::warn!(%service, reason, ?delay, "a service ended and is started again");
        self.service.set_state(ServiceState::Starting, None);
        self.number += 1;
        let (number, actor, cancel) = (self.number, myself.clone(), CancellationToken::new());
        let token = cancel.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = sleep(delay) => drop(actor.send_message(ServiceMessage::Retry { number })),
            }
        });
        self.phase = Phase::Delayed {
            _cancel: cancel.drop_guard(),
        };
    }
}

/// Notifies all waiting callers. Ignores callers that have stopped waiting.
fn send_all(waiting: Vec<oneshot::Sender<()>>) {
    for waiting in waiting {
        let _ = waiting.send(());
    }
}
