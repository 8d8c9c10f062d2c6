//! A new run that shares another's past up to a point, and goes on from there in its own way (HOST-9).

use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use dirigent_core::steering::Steering;
use dirigent_core::view::RunView;
use uuid::Uuid;

use crate::door::{Door, Hearing};
use crate::error::RuntimeError;
use crate::handle::{RunHandle, read_entries};
use crate::orchestrator::{Orchestrator, UserPresence, blocking};
use crate::replaying::view_of;
use crate::supervisor::Begin;

impl Orchestrator {
    /// Starts a new run that shares the first `at` entries of that run's journal, and goes on with the guidance, if there is any. Without
    /// `at` it shares all up to the run's end. The run itself, which may be under way, stays as it is.
    ///
    /// Only what the journal has is shared: the files of the workspace are not wound back, and both runs work in the same folder.
    ///
    /// # Errors
    /// [`RuntimeError::NoFork`] where there is no such entry, or the run is over after it. [`RuntimeError::NeverBegan`] for a run without
    /// any entry. [`RuntimeError::Journal`] and [`RuntimeError::Replay`].
    pub async fn fork(
        &self,
        run: RunId,
        at: Option<u64>,
        guidance: Option<String>,
        user: UserPresence,
    ) -> Result<RunHandle, RuntimeError> {
        let services = self.services();
        let (journal, now, new) = (
            services.journal.clone(),
            services.clock.now(),
            RunId(Uuid::now_v7()),
        );
        let (claim, past) = blocking(move || {
            let (past, at) = shared_past(run, &read_entries(&journal, run)?, at)?;
            Ok((journal.fork(run, at, new, now)?, past))
        })
        .await?;
        let hearing = match past.run().question() {
            Some((question, _)) => Hearing::Asking(question),
            None => Hearing::Nothing,
        };
        let begin = Begin::Resume {
            view: Box::new(past),
            first: guidance.map(|guidance| Steering::Guide { guidance }),
        };
        self.launch(new, claim, begin, Door::new(user, hearing)).await
    }
}

/// The run as it was after that entry, or after the last from which it can go on; and which that is.
fn shared_past(run: RunId, entries: &[Entry], at: Option<u64>) -> Result<(RunView, u64), RuntimeError> {
    let last = last_alive(run, entries)?;
    if entries.is_empty() {
        return Err(RuntimeError::NeverBegan { run });
    }
    let at = at.unwrap_or(last);
    let shared = entries.iter().take_while(|entry| entry.seq <= at);
    if at == 0 || at > last {
        let over = if at > last && at <= entries.len() as u64 {
            "the run is over then"
        } else {
            "there is no such entry"
        };
        let reason = format!("{over}; it can be forked at the entries 1 to {last}");
        return Err(RuntimeError::NoFork { run, at, reason });
    }
    Ok((view_of(run, shared)?, at))
}

/// The last entry after which the run is not over.
fn last_alive(run: RunId, entries: &[Entry]) -> Result<u64, RuntimeError> {
    let mut view = RunView::new();
    for entry in entries {
        let seq = entry.seq;
        view.apply(entry.clone())
            .map_err(|refusal| RuntimeError::Replay { run, seq, refusal })?;
        if view.run().phase().is_terminal() {
            return Ok(seq - 1);
        }
    }
    Ok(entries.len() as u64)
}
