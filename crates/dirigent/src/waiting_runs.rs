//! Runs that wait for their user, and runs whose process has died.

use dirigent_core::id::{EffectId, RunId};
use dirigent_core::question::{OpenQuestion, select_question};
use dirigent_core::run::WaitingCall;
use dirigent_core::steering::Steering;
use dirigent_runtime::{Resume, RunHandle, RuntimeError, SteerOutcome, UserPresence, read_run};
use dirigent_store::{RunFilter, RunRecord, RunState};

use crate::{Dirigent, DirigentError};

/// A run that waits for its user, with everything that it waits for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WaitingRun {
    /// The record of the run.
    pub record: RunRecord,
    /// The calls that wait for approval, oldest first.
    pub calls: Vec<WaitingCall>,
    /// The open questions, oldest first.
    pub questions: Vec<OpenQuestion>,
}

/// The result of resuming an interrupted run.
#[non_exhaustive]
pub struct ResumedRun {
    /// The run's id.
    pub run: RunId,
    /// The run, or why it was not resumed.
    pub result: Result<RunHandle, DirigentError>,
}

impl Dirigent {
    /// Finds the runs that wait for a decision about a call or for an answer, the newest first: active, interrupted and paused runs of all processes. A run whose
    /// entries cannot be read is left out with a warning. Reads all entries of these runs.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn waiting_runs(&self) -> Result<Vec<WaitingRun>, DirigentError> {
        let filter = RunFilter::new()
            .state(RunState::Running)
            .state(RunState::Interrupted)
            .state(RunState::UserRequired)
            .limit(usize::MAX);
        let mut waiting = Vec::new();
        for record in self.runs(filter).await?.runs {
            if record.entries == 0 {
                continue;
            }
            match self.requests_of(record).await {
                Ok(run) if run.calls.is_empty() && run.questions.is_empty() => {}
                Ok(run) => waiting.push(run),
                Err(error) => tracing::warn!(%error, "a run is missing among those that wait for the user"),
            }
        }
        Ok(waiting)
    }

    /// Reads what a run waits for.
    async fn requests_of(&self, record: RunRecord) -> Result<WaitingRun, DirigentError> {
        self.reading(move |journal| {
            let (view, _) = read_run(journal, record.run)?;
            let (calls, questions) = (view.waiting(), view.questions());
            Ok::<_, RuntimeError>(WaitingRun {
                record,
                calls,
                questions,
            })
        })
        .await
    }

    /// Answers a question of any run of the journal with text or the number of a choice, as [`Dirigent::steer`] sends messages. Without `question`, answers the
    /// only open question.
    ///
    /// # Errors
    /// [`RuntimeError::NoQuestion`] if the question is not open; [`RuntimeError::Question`] if several are open and none is named;
    /// [`RuntimeError::Answer`] for a number that no choice has; as [`Dirigent::steer`].
    pub async fn answer(
        &self,
        run: RunId,
        question: Option<EffectId>,
        text: &str,
    ) -> Result<SteerOutcome, DirigentError> {
        let (view, _) = self.read(run).await?;
        let open = view.questions();
        let asked = select_question(&open, question).map_err(|error| RuntimeError::question(run, error))?;
        let chosen = asked.question.choose(text);
        let answer = chosen.map_err(|error| RuntimeError::Answer { run, error })?;
        let effect = asked.effect;
        self.steer(run, Steering::Answer { effect, answer }).await
    }

    /// Resumes all runs that were interrupted, because their process died or was shut down, the oldest first, and returns them with those that could not be
    /// resumed. Runs that wait for their user stay as they are.
    ///
    /// # Errors
    /// The interrupted runs cannot be listed, because of an error of the journal.
    pub async fn resume_interrupted(&self, user: UserPresence) -> Result<Vec<ResumedRun>, DirigentError> {
        let filter = RunFilter::new().state(RunState::Interrupted).limit(usize::MAX);
        let mut resumed = Vec::new();
        for record in self.runs(filter).await?.runs.into_iter().rev() {
            let run = record.run;
            let result = self.resume(run, Resume::new().user(user)).await;
            resumed.push(ResumedRun { run, result });
        }
        Ok(resumed)
    }
}
