//! A new run that shares another's past up to a point, and goes on from there in its own way (HOST-9).

use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use dirigent_core::view::RunView;

use crate::error::RuntimeError;
use crate::handle::{RunHandle, read_entries};
use crate::orchestrator::{Orchestrator, UserPresence, blocking};

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
        _guidance: Option<String>,
        _user: UserPresence,
    ) -> Result<RunHandle, RuntimeError> {
        let journal = self.services().journal.clone();
        let (_past, at) = blocking(move || shared_past(run, read_entries(&journal, run)?, at)).await?;
        Err(RuntimeError::NoFork {
            run,
            at,
            reason: "not yet".to_owned(),
        })
    }
}

/// The run as it was at that point, or at the last from which it can go on; and which that is.
fn shared_past(run: RunId, entries: Vec<Entry>, at: Option<u64>) -> Result<(RunView, u64), RuntimeError> {
    let last = entries.len() as u64;
    let wanted = at.unwrap_or(last);
    if last == 0 {
        return Err(RuntimeError::NeverBegan { run });
    }
    let no_fork = |reason: String| RuntimeError::NoFork {
        run,
        at: wanted,
        reason,
    };
    if wanted == 0 || wanted > last {
        return Err(no_fork(format!("it has the entries 1 to {last}")));
    }
    let (mut view, mut good) = (RunView::new(), None);
    for entry in entries.into_iter().take_while(|entry| entry.seq <= wanted) {
        let seq = entry.seq;
        let before = view.clone();
        view.apply(entry)
            .map_err(|refusal| RuntimeError::Replay { run, seq, refusal })?;
        if view.run().phase().is_terminal() {
            good = Some((before, seq - 1));
            break;
        }
    }
    match good {
        None => Ok((view, wanted)),
        Some((before, seq)) if at.is_none() => Ok((before, seq)),
        Some((_, seq)) => Err(no_fork(format!(
            "the run is over then; the last entry that it can be forked at is {seq}"
        ))),
    }
}
