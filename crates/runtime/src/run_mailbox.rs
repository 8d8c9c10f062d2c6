//! The mailbox of a run: messages to the run wait here for its supervisor, and survive the supervisor's crash.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dirigent_core::id::{EffectId, RunId};
use dirigent_core::steering::Steering;
use ractor::DerivedActorRef;
use tokio::sync::Notify;

use crate::ack::Ack;
use crate::error::RuntimeError;
use crate::user_presence::UserPresence;

/// A message to a run.
pub(crate) struct RunMessage {
    pub(crate) body: RunMessageBody,
    pub(crate) ack: Ack,
}

pub(crate) enum RunMessageBody {
    Steering(Steering),
    /// The user has left: see [`RunMailbox::set_user_absent`].
    UserAbsent,
}

/// A notification to the run's supervisor.
#[derive(Debug)]
pub(crate) enum MailboxEvent {
    /// A message is waiting in the mailbox.
    MessageReceived,
    /// A message from another process was accepted or rejected.
    MessageSettled,
}

/// The reason why the mailbox does not accept a message.
pub(crate) enum SendError {
    Closed,
    NoQuestion,
}

/// Whether the run accepts messages, and which question it asks itself. The state does not include questions of the run's agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MailboxState {
    /// The run accepts messages and asks no question.
    #[default]
    Open,
    /// The run accepts messages and asks this question.
    AwaitingAnswer(EffectId),
    /// The run is ending or has ended, and accepts no more messages.
    Closed,
}

/// The queue of messages to a run's supervisor. If a supervisor crashes, its actor's own queue is lost, but
/// this queue is not.
pub(crate) struct RunMailbox {
    inner: Mutex<MailboxInner>,
    reopened: Notify,
}

struct MailboxInner {
    queue: VecDeque<RunMessage>,
    supervisor: Option<DerivedActorRef<MailboxEvent>>,
    state: MailboxState,
    user: UserPresence,
    /// Set while a message from another process is on its way from the journal to the run.
    delivering: bool,
}

impl RunMessage {
    /// Creates a message whose sender does not wait for an acknowledgement.
    pub(crate) fn unacknowledged(steering: Steering) -> Self {
        RunMessage {
            body: RunMessageBody::Steering(steering),
            ack: Ack::default(),
        }
    }
}

impl SendError {
    pub(crate) fn into_error(self, run: RunId) -> RuntimeError {
        match self {
            SendError::Closed => RuntimeError::Ended { run },
            SendError::NoQuestion => RuntimeError::NoQuestion { run },
        }
    }
}

impl RunMailbox {
    pub(crate) fn new(user: UserPresence, state: MailboxState) -> Self {
        RunMailbox {
            inner: Mutex::new(MailboxInner {
                queue: VecDeque::new(),
                supervisor: None,
                state,
                user,
                delivering: false,
            }),
            reopened: Notify::new(),
        }
    }

    /// Adds the message that informs a run about the runs that share its workspace. The message is added before the run begins, so the
    /// run handles it first.
    pub(crate) fn sharing_with(self, runs: Vec<RunId>) -> Self {
        if !runs.is_empty() {
            let message = RunMessage::unacknowledged(Steering::ShareWorkspace { runs });
            self.lock().queue.push_back(message);
        }
        self
    }

    /// Executes `work` and sets the state that it returns, both under one lock. So any thread that sees the journal entry of `work` also
    /// sees the new state.
    pub(crate) fn update<T>(&self, work: impl FnOnce() -> (MailboxState, T)) -> T {
        let mut inner = self.lock();
        let (state, result) = work();
        if inner.state == MailboxState::Closed && state != MailboxState::Closed {
            self.reopened.notify_one();
        }
        inner.state = state;
        result
    }

    /// Closes the mailbox, because the run is ending. From then on, the mailbox accepts no messages.
    pub(crate) fn close(&self) {
        self.lock().state = MailboxState::Closed;
    }

    /// Waits until a closed mailbox accepts messages again, which happens if the supervisor crashes while the run is ending. Supports only
    /// one waiter, and may return too early.
    pub(crate) async fn reopened(&self) {
        self.reopened.notified().await;
    }

    /// Records that the delivery of a message from another process has started or ended.
    pub(crate) fn set_delivering(&self, delivering: bool) {
        self.lock().delivering = delivering;
    }

    /// Returns true while a message from another process is being delivered.
    pub(crate) fn is_delivering(&self) -> bool {
        self.lock().delivering
    }

    /// Connects a supervisor, which is the run's first or replaces a crashed one, and notifies it of the
    /// messages in the queue.
    pub(crate) fn attach(&self, supervisor: DerivedActorRef<MailboxEvent>) {
        let mut inner = self.lock();
        for _ in &inner.queue {
            let _ = supervisor.send_message(MailboxEvent::MessageReceived);
        }
        inner.supervisor = Some(supervisor);
    }

    /// Tells the supervisor that a message from another process was accepted or rejected.
    pub(crate) fn notify_settled(&self) {
        if let Some(supervisor) = &self.lock().supervisor {
            // If the supervisor has crashed, its replacement checks the inbox by itself.
            let _ = supervisor.send_message(MailboxEvent::MessageSettled);
        }
    }

    pub(crate) fn send(&self, message: RunMessage) -> Result<(), SendError> {
        let mut inner = self.lock();
        match inner.state {
            MailboxState::Closed => return Err(SendError::Closed),
            MailboxState::Open | MailboxState::AwaitingAnswer(_) => {}
        }
        inner.push(message);
        Ok(())
    }

    /// Returns the question that the run itself asks now.
    pub(crate) fn question(&self) -> Result<EffectId, SendError> {
        match self.lock().state {
            MailboxState::Closed => Err(SendError::Closed),
            MailboxState::Open => Err(SendError::NoQuestion),
            MailboxState::AwaitingAnswer(effect) => Ok(effect),
        }
    }

    /// Records that the run can no longer ask its user, and tells the supervisor.
    pub(crate) fn set_user_absent(&self) -> Result<(), SendError> {
        self.lock().user = UserPresence::Absent;
        self.send(RunMessage {
            body: RunMessageBody::UserAbsent,
            ack: Ack::default(),
        })
    }

    pub(crate) fn user(&self) -> UserPresence {
        self.lock().user
    }

    /// Closes the mailbox and rejects the messages in the queue.
    pub(crate) fn reject_all(&self, run: RunId) {
        let queue = {
            let mut inner = self.lock();
            inner.state = MailboxState::Closed;
            std::mem::take(&mut inner.queue)
        };
        for message in queue {
            message.ack.rejected(RuntimeError::Ended { run });
        }
    }

    /// Takes the oldest message.
    pub(crate) fn pop(&self) -> Option<RunMessage> {
        self.lock().queue.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, MailboxInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MailboxInner {
    fn push(&mut self, message: RunMessage) {
        self.queue.push_back(message);
        if let Some(supervisor) = &self.supervisor {
            // If sending fails, the supervisor has crashed and will be replaced, or has set its outcome.
            let _ = supervisor.send_message(MailboxEvent::MessageReceived);
        }
    }
}
