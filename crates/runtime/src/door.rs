//! The door of a run: what people say to it waits here until its supervisor takes it, which may be another one after a
//! breakdown.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dirigent_core::id::{EffectId, RunId};
use dirigent_core::steering::Steering;
use dirigent_store::MessageId;
use ractor::ActorRef;
use tokio::sync::oneshot;

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
pub(crate) struct Door(Mutex<DoorState>);

struct DoorState {
    waiting: VecDeque<Word>,
    supervisor: Option<ActorRef<SupervisorMsg>>,
    hearing: Hearing,
    user: UserPresence,
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
        Door(Mutex::new(DoorState {
            waiting: VecDeque::new(),
            supervisor: None,
            hearing,
            user,
        }))
    }

    /// Does `work`, which may change what the run hears; whoever learns of the change by the journal finds it here.
    pub(crate) fn change<T>(&self, work: impl FnOnce() -> (Hearing, T)) -> T {
        let mut state = self.state();
        let (hearing, result) = work();
        state.hearing = hearing;
        result
    }

    /// The run ends.
    pub(crate) fn close(&self) {
        self.state().hearing = Hearing::Ending;
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

    /// Answers the question that is asked now.
    pub(crate) fn answer(&self, answer: String) -> Result<(), NotTold> {
        let mut state = self.state();
        match state.hearing {
            Hearing::Ending => Err(NotTold::Ending),
            Hearing::Nothing => Err(NotTold::NothingAsked),
            Hearing::Asking(effect) => {
                state.push(Word::of(Steering::Answer { effect, answer }));
                Ok(())
            }
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

    /// Why a word got no receipt.
    pub(crate) fn unheard(&self, run: RunId) -> RuntimeError {
        match self.state().hearing {
            Hearing::Ending => RuntimeError::Ended { run },
            Hearing::Nothing | Hearing::Asking(_) => RuntimeError::Unheard { run },
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
