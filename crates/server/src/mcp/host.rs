//! What all tools share: the orchestrator, the folders that a client may use, and who decides.

use std::sync::Arc;

use dirigent::{Dirigent, Resume, RunId, SteerOutcome, Steering, UserPresence};
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
        let outcome = self.dirigent.steer(run, steering).await?;
        self.continue_after(run, outcome).await
    }

    /// Resumes a run whose message waits because no process owns the run.
    pub(crate) async fn continue_after(
        &self,
        run: RunId,
        outcome: SteerOutcome,
    ) -> Result<Delivery, Problem> {
        match outcome {
            SteerOutcome::Accepted => Ok(Delivery::Accepted),
            SteerOutcome::Pending => {
                let slot = self.reserve()?;
                let resume = Resume::new().user(UserPresence::Present);
                slot.keep_for(&self.dirigent.resume(run, resume).await?);
                Ok(Delivery::Resumed)
            }
        }
    }
}
