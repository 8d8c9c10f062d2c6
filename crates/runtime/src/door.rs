//! The door of a run: what people say to it waits here until its supervisor takes it, which may be another one after a
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
pub(crate) struct Word {
    pub(crate) said: Said,
    pub(crate) receipt: Receipt,
}

pub(crate) enum Said {
    Steering(Steering),
    /// The user has gone: see [`Door::leave`].
    Left,
    #[cfg(test)]
    Break,
    #[cfg(test)]
    BreakAgent(dirigent_core::id::AgentId),
}

/// Whom to tell what became of a word: that it is journaled, or why it does not count. One that is dropped has told neither.
#[derive(Default)]
pub(crate) struct Receipt {
    reply: Option<Reply>,
    message: Option<MessageId>,
}

type Reply = oneshot::Sender<Result<(), RuntimeError>>;

/// Why a run is not told something.
pub(crate) enum NotTold {
    Ending,
    NothingAsked,
}

/// What those at the door can know of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hearing {
    /// It hears what is said, but asks nothing.
    #[default]
    Nothing,
    /// It asks that.
    Asking(EffectId),
    /// It ends, and hears nothing more.
    Ending,
}

/// The way to a run's supervisor. A broken actor's mailbox is lost; what waits here is not.
pub(crate) struct Door {
    state: Mutex<DoorState>,
    reopened: Notify,
}

struct DoorState {
    waiting: VecDeque<Word>,
    supervisor: Option<ActorRef<SupervisorMsg>>,
    hearing: Hearing,
    user: UserPresence,
    /// Whether a message of another process is on its way from the journal to the run.
    bringing: bool,
}

impl Word {
    /// One that nobody waits to be heard.
    pub(crate) fn of(steering: Steering) -> Self {
        Word {
            said: Said::Steering(steering),
            receipt: Receipt::default(),
        }
    }
}

impl Receipt {
    pub(crate) fn new(reply: Reply) -> Self {
        Receipt {
            reply: Some(reply),
            message: None,
        }
    }

    /// The word came by the journal.
    pub(crate) fn of(message: MessageId, reply: Reply) -> Self {
        Receipt {
            reply: Some(reply),
            message: Some(message),
        }
    }

    /// The message that the word's entry takes.
    pub(crate) fn message(&self) -> Option<MessageId> {
        self.message
    }

    /// It is journaled.
    pub(crate) fn taken(self) {
        self.tell(Ok(()));
    }

    /// It does not count.
    pub(crate) fn refused(self, error: RuntimeError) {
        self.tell(Err(error));
    }

    fn tell(self, result: Result<(), RuntimeError>) {
        if let Some(reply) = self.reply {
            // Whoever said it may not wait any more.
            let _ = reply.send(result);
        }
    }
}

impl NotTold {
    pub(crate) fn of(self, run: RunId) -> RuntimeError {
        match self {
            NotTold::Ending => RuntimeError::Ended { run },
            NotTold::NothingAsked => RuntimeError::NoQuestion { run },
        }
    }
}

impl Door {
    pub(crate) fn new(user: UserPresence, hearing: Hearing) -> Self {
        Door {
            state: Mutex::new(DoorState {
                waiting: VecDeque::new(),
                supervisor: None,
                hearing,
                user,
                bringing: false,
            }),
            reopened: Notify::new(),
        }
    }

    /// Does `work`, which may change what the run hears; whoever learns of the change by the journal finds it here.
    pub(crate) fn change<T>(&self, work: impl FnOnce() -> (Hearing, T)) -> T {
        let mut state = self.state();
        let (hearing, result) = work();
        if state.hearing == Hearing::Ending && hearing != Hearing::Ending {
            self.reopened.notify_one();
        }
        state.hearing = hearing;
        result
    }

    /// The run ends.
    pub(crate) fn close(&self) {
        self.state().hearing = Hearing::Ending;
    }

    /// Until the run hears again, as its supervisor broke down while it ended. Only one may wait for that, and may be told too early.
    pub(crate) async fn reopened(&self) {
        self.reopened.notified().await;
    }

    /// A message of another process is brought here, or has been taken or refused.
    pub(crate) fn bring(&self, bringing: bool) {
        self.state().bringing = bringing;
    }

    /// Whether a message of another process is on its way.
    pub(crate) fn is_bringing(&self) -> bool {
        self.state().bringing
    }

    /// From now on that one is told.
    pub(crate) fn open(&self, supervisor: ActorRef<SupervisorMsg>) {
        let mut state = self.state();
        for _ in &state.waiting {
            let _ = supervisor.send_message(SupervisorMsg::Steered);
        }
        state.supervisor = Some(supervisor);
    }

    /// Tells the supervisor something that its successor need not know.
    pub(crate) fn tell(&self, message: SupervisorMsg) {
        if let Some(supervisor) = &self.state().supervisor {
            let _ = supervisor.send_message(message);
        }
    }

    pub(crate) fn send(&self, word: Word) -> Result<(), NotTold> {
        let mut state = self.state();
        match state.hearing {
            Hearing::Ending => return Err(NotTold::Ending),
            Hearing::Nothing | Hearing::Asking(_) => {}
        }
        state.push(word);
        Ok(())
    }

    /// The question that is asked now.
    pub(crate) fn question(&self) -> Result<EffectId, NotTold> {
        match self.state().hearing {
            Hearing::Ending => Err(NotTold::Ending),
            Hearing::Nothing => Err(NotTold::NothingAsked),
            Hearing::Asking(effect) => Ok(effect),
        }
    }

    /// From now on nobody is there whom the run could ask.
    pub(crate) fn leave(&self) -> Result<(), NotTold> {
        self.state().user = UserPresence::Absent;
        self.send(Word {
            said: Said::Left,
            receipt: Receipt::default(),
        })
    }

    /// Whether somebody is there whom the run could ask.
    pub(crate) fn user(&self) -> UserPresence {
        self.state().user
    }

    /// Nobody takes what still waits here: those who said it are told so.
    pub(crate) fn refuse_all(&self, run: RunId) {
        let waiting = {
            let mut state = self.state();
            state.hearing = Hearing::Ending;
            std::mem::take(&mut state.waiting)
        };
        for word in waiting {
            word.receipt.refused(RuntimeError::Ended { run });
        }
    }

    /// Breaks something down, whatever the run hears.
    #[cfg(test)]
    pub(crate) fn break_down(&self, said: Said) {
        self.state().push(Word {
            said,
            receipt: Receipt::default(),
        });
    }

    /// What has waited longest.
    pub(crate) fn take(&self) -> Option<Word> {
        self.state().waiting.pop_front()
    }

    fn state(&self) -> MutexGuard<'_, DoorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DoorState {
    fn push(&mut self, word: Word) {
        self.waiting.push_back(word);
        if let Some(supervisor) = &self.supervisor {
            // One that is gone has a successor, or has told its outcome.
            let _ = supervisor.send_message(SupervisorMsg::Steered);
        }
    }
}
