//! The mailbox of a run: what people say to it waits here until its supervisor takes it, which may be another one after a
//! breakdown.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dirigent_core::id::{EffectId, RunId};
use dirigent_core::steering::Steering;
use dirigent_store::MessageId;
use ractor::ActorRef;
use tokio::sync::{Notify, oneshot};

use crate::error::RuntimeError;
use crate::orchestrator::UserPresence;
use crate::supervisor::SupervisorMsg;

/// Something that was said to a run.
pub(crate) struct RunMessage {
    pub(crate) said: RunMessageBody,
    pub(crate) ack: Ack,
}

pub(crate) enum RunMessageBody {
    Steering(Steering),
    /// The user has gone: see [`RunMailbox::set_user_absent`].
    UserAbsent,
    #[cfg(test)]
    Break,
    #[cfg(test)]
    BreakAgent(dirigent_core::id::AgentId),
}

/// Whom to tell what became of a word: that it is journaled, or why it does not count. One that is dropped has told neither.
#[derive(Default)]
pub(crate) struct Ack {
    reply: Option<Reply>,
    message: Option<MessageId>,
}

type Reply = oneshot::Sender<Result<(), RuntimeError>>;

/// Why a run is not told something.
pub(crate) enum SendError {
    Closed,
    NoQuestion,
}

/// What those at the mailbox can know of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MailboxState {
    /// It hears what is said, but asks nothing.
    #[default]
    Open,
    /// It asks that.
    AwaitingAnswer(EffectId),
    /// It ends, and hears nothing more.
    Closed,
}

/// The way to a run's supervisor. A broken actor's mailbox is lost; what waits here is not.
pub(crate) struct RunMailbox {
    inner: Mutex<MailboxInner>,
    reopened: Notify,
}

struct MailboxInner {
    waiting: VecDeque<RunMessage>,
    supervisor: Option<ActorRef<SupervisorMsg>>,
    mailbox_state: MailboxState,
    user: UserPresence,
    /// Whether a message of another process is on its way from the journal to the run.
    delivering: bool,
}

impl RunMessage {
    /// One that nobody waits to be heard.
    pub(crate) fn unacknowledged(steering: Steering) -> Self {
        RunMessage {
            said: RunMessageBody::Steering(steering),
            ack: Ack::default(),
        }
    }
}

impl Ack {
    pub(crate) fn new(reply: Reply) -> Self {
        Ack {
            reply: Some(reply),
            message: None,
        }
    }

    /// The word came by the journal.
    pub(crate) fn for_message(message: MessageId, reply: Reply) -> Self {
        Ack {
            reply: Some(reply),
            message: Some(message),
        }
    }

    /// The message that the word's entry takes.
    pub(crate) fn message(&self) -> Option<MessageId> {
        self.message
    }

    /// It is journaled.
    pub(crate) fn accepted(self) {
        self.send(Ok(()));
    }

    /// It does not count.
    pub(crate) fn rejected(self, error: RuntimeError) {
        self.send(Err(error));
    }

    fn send(self, result: Result<(), RuntimeError>) {
        if let Some(reply) = self.reply {
            // Whoever said it may not wait any more.
            let _ = reply.send(result);
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
    pub(crate) fn new(user: UserPresence, mailbox_state: MailboxState) -> Self {
        RunMailbox {
            inner: Mutex::new(MailboxInner {
                waiting: VecDeque::new(),
                supervisor: None,
                mailbox_state,
                user,
                delivering: false,
            }),
            reopened: Notify::new(),
        }
    }

    /// Does `work`, which may change what the run hears; whoever learns of the change by the journal finds it here.
    pub(crate) fn update<T>(&self, work: impl FnOnce() -> (MailboxState, T)) -> T {
        let mut state = self.lock();
        let (mailbox_state, result) = work();
        if state.mailbox_state == MailboxState::Closed && mailbox_state != MailboxState::Closed {
            self.reopened.notify_one();
        }
        state.mailbox_state = mailbox_state;
        result
    }

    /// The run ends.
    pub(crate) fn close(&self) {
        self.lock().mailbox_state = MailboxState::Closed;
    }

    /// Until the run hears again, as its supervisor broke down while it ended. Only one may wait for that, and may be told too early.
    pub(crate) async fn reopened(&self) {
        self.reopened.notified().await;
    }

    /// A message of another process is brought here, or has been taken or refused.
    pub(crate) fn set_delivering(&self, delivering: bool) {
        self.lock().delivering = delivering;
    }

    /// Whether a message of another process is on its way.
    pub(crate) fn is_delivering(&self) -> bool {
        self.lock().delivering
    }

    /// From now on that one is told.
    pub(crate) fn attach(&self, supervisor: ActorRef<SupervisorMsg>) {
        let mut state = self.lock();
        for _ in &state.waiting {
            let _ = supervisor.send_message(SupervisorMsg::MessageReceived);
        }
        state.supervisor = Some(supervisor);
    }

    /// Tells the supervisor something that its successor need not know.
    pub(crate) fn notify_supervisor(&self, message: SupervisorMsg) {
        if let Some(supervisor) = &self.lock().supervisor {
            let _ = supervisor.send_message(message);
        }
    }

    pub(crate) fn send(&self, message: RunMessage) -> Result<(), SendError> {
        let mut state = self.lock();
        match state.mailbox_state {
            MailboxState::Closed => return Err(SendError::Closed),
            MailboxState::Open | MailboxState::AwaitingAnswer(_) => {}
        }
        state.push(message);
        Ok(())
    }

    /// The question that is asked now.
    pub(crate) fn question(&self) -> Result<EffectId, SendError> {
        match self.lock().mailbox_state {
            MailboxState::Closed => Err(SendError::Closed),
            MailboxState::Open => Err(SendError::NoQuestion),
            MailboxState::AwaitingAnswer(effect) => Ok(effect),
        }
    }

    /// From now on nobody is there whom the run could ask.
    pub(crate) fn set_user_absent(&self) -> Result<(), SendError> {
        self.lock().user = UserPresence::Absent;
        self.send(RunMessage {
            said: RunMessageBody::UserAbsent,
            ack: Ack::default(),
        })
    }

    /// Whether somebody is there whom the run could ask.
    pub(crate) fn user(&self) -> UserPresence {
        self.lock().user
    }

    /// Nobody takes what still waits here: those who said it are told so.
    pub(crate) fn reject_all(&self, run: RunId) {
        let waiting = {
            let mut state = self.lock();
            state.mailbox_state = MailboxState::Closed;
            std::mem::take(&mut state.waiting)
        };
        for message in waiting {
            message.ack.rejected(RuntimeError::Ended { run });
        }
    }

    /// Breaks something down, whatever the run hears.
    #[cfg(test)]
    pub(crate) fn inject_crash(&self, said: RunMessageBody) {
        self.lock().push(RunMessage {
            said,
            ack: Ack::default(),
        });
    }

    /// What has waited longest.
    pub(crate) fn pop(&self) -> Option<RunMessage> {
        self.lock().waiting.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, MailboxInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MailboxInner {
    fn push(&mut self, message: RunMessage) {
        self.waiting.push_back(message);
        if let Some(supervisor) = &self.supervisor {
            // One that is gone has a successor, or has told its outcome.
            let _ = supervisor.send_message(SupervisorMsg::MessageReceived);
        }
    }
}
