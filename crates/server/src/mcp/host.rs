//! What all tools share: the orchestrator, the folders that a client may use, and who decides.

use std::sync::Arc;

use dirigent::{Dirigent, DirigentError, EffectId, Resume, RunId, SteerOutcome, Steering, UserPresence};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::folders::Folders;
use crate::problem::Problem;
use crate::run_slots::{RunSlot, RunSlots};

/// Who decides about calls that need approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decider {
    /// A person: asked through the client if it can ask, otherwise with the command line or in the console.
    #[default]
    Person,
    /// The calling model, with the tool `decide_call`.
    Model,
}

/// What all tools share. Clones share it.
#[derive(Clone)]
pub(crate) struct Host(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) dirigent: Dirigent,
    pub(crate) folders: Folders,
    pub(crate) decider: Decider,
    /// The slots for active runs.
    pub(crate) runs: RunSlots,
    /// Cancelled when the server begins to shut down.
    pub(crate) stopping: CancellationToken,
}

impl std::ops::Deref for Host {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// What became of a message to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Delivery {
    /// The run has accepted it.
    Accepted,
    /// No process owned the run, so it was resumed with the message.
    Resumed,
}

impl Host {
    pub(crate) fn new(shared: Shared) -> Self {
        Host(Arc::new(shared))
    }

    /// Finds a run that the client may use.
    pub(crate) async fn find(&self, text: &str) -> Result<RunId, Problem> {
        let run = self.dirigent.find(text.trim()).await?;
        let record = self.dirigent.record(run).await?;
        self.folders.check_run(&self.dirigent, &record).await?;
        Ok(run)
    }

    /// Reserves a slot for a run that is going to start or to be resumed.
    pub(crate) fn reserve(&self) -> Result<RunSlot, Problem> {
        match self.stopping.is_cancelled() {
            true => Err(Problem::shutting_down()),
            false => self.runs.reserve(),
        }
    }

    /// Sends a message to a run, and resumes the run if no process owns it.
    pub(crate) async fn deliver(&self, run: RunId, steering: Steering) -> Result<Delivery, Problem> {
        self.deliver_with(run, self.dirigent.steer(run, steering)).await
    }

    /// Answers a question of a run, and resumes the run if no process owns it.
    pub(crate) async fn answer(
        &self,
        run: RunId,
        question: Option<EffectId>,
        text: &str,
    ) -> Result<Delivery, Problem> {
        self.deliver_with(run, self.dirigent.answer(run, question, text))
            .await
    }

    /// Sends with `send` what a run that no process owns is resumed for. The slot is reserved first, so that a message which cannot take effect is
    /// not stored.
    async fn deliver_with(
        &self,
        run: RunId,
        send: impl Future<Output = Result<SteerOutcome, DirigentError>>,
    ) -> Result<Delivery, Problem> {
        let slot = match self.reserve() {
            Ok(slot) => Some(slot),
            // A message to an active run is accepted even if all slots are taken.
            Err(_) if self.dirigent.record(run).await?.owner_pid.is_some() => None,
            Err(problem) => return Err(problem),
        };
        match send.await? {
            SteerOutcome::Accepted => Ok(Delivery::Accepted),
            SteerOutcome::Pending => {
                let resume = Resume::new().user(UserPresence::Present);
                let handle = self.dirigent.resume(run, resume).await?;
                match slot {
                    Some(slot) => slot.keep_for(&handle),
                    // The run has stopped meanwhile.
                    None => self.runs.count(&handle),
                }
                Ok(Delivery::Resumed)
            }
        }
    }
}
