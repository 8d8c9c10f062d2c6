//! Creates recordings of runs from their journal entries, and replays recordings as new runs in the journal.
//! No model is asked and no tool runs (HOST-9).

use std::sync::{Arc, mpsc};

use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use dirigent_core::recording::{Recorder, Recording, replay};
use dirigent_core::run::Report;
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Timestamp;
use tokio::sync::watch;
use uuid::Uuid;

use crate::blocking::blocking;
use crate::deltas::Listeners;
use crate::error::RuntimeError;
use crate::handle::RunHandle;
use crate::journal_reader::{read_entries, replay_entries};
use crate::json::to_json;
use crate::orchestrator::Orchestrator;
use crate::run_ending::{end_status, run_ending};
use crate::run_log::{Durability, NewEntry, NewRun, RunLog, RunLogError};
use crate::run_mailbox::{MailboxState, RunMailbox};
use crate::user_presence::UserPresence;

/// Creates a recording of a run's journal entries so far. Blocks on disk IO, so async code must not call it
/// directly.
///
/// # Errors
/// [`RuntimeError::Journal`], [`RuntimeError::Replay`], and [`RuntimeError::NeverBegan`] for a run without any input.
pub fn record_run(journal: &dyn RunLog, run: RunId) -> Result<Recording, RuntimeError> {
    let mut recorder = Recorder::new();
    for entry in read_entries(journal, run)? {
        let seq = entry.seq;
        recorder
            .add(entry)
            .map_err(|refusal| RuntimeError::Replay { run, seq, refusal })?;
    }
    recorder.finish().ok_or(RuntimeError::NeverBegan { run })
}

impl Orchestrator {
    /// Replays a recording with the current spec, `present`, and journals the result as a new run that has ended. The new entries keep the
    /// recorded times.
    ///
    /// # Errors
    /// [`RuntimeError::ReplayMismatch`] if the replayed run differs from the recording; in this case nothing is journaled.
    /// [`RuntimeError::Journal`] if the run cannot be written.
    pub async fn replay(&self, recording: Recording, present: RunSpec) -> Result<RunHandle, RuntimeError> {
        self.ensure_running()?;
        let run = RunId(Uuid::now_v7());
        let (journal, now) = (self.services().journal.clone(), self.services().clock.now());
        let feeds = self.inner.feeds.clone();
        blocking(move || {
            let entries = replay(&recording, present, run)?;
            let (view, _) = replay_entries(run, entries.iter().cloned())?;
            let report = Arc::new(view.report().without_account());
            write_entries(&*journal, run, &recording, &entries, &report, now)?;
            let (_, outcome) = watch::channel(Some(Ok(report)));
            Ok(RunHandle {
                run,
                feeds,
                mailbox: Arc::new(RunMailbox::new(UserPresence::Absent, MailboxState::Closed)),
                outcome,
                listeners: Listeners::default(),
            })
        })
        .await
    }
}

/// Writes a new run with these entries to the journal. `now` is the time of its creation.
fn write_entries(
    journal: &dyn RunLog,
    run: RunId,
    recording: &Recording,
    entries: &[Entry],
    report: &Report,
    now: Timestamp,
) -> Result<(), RunLogError> {
    let spec = recording.spec();
    let claim = journal.create(run, NewRun::new(&spec.goal, &spec.workspace, now))?;
    let (failed, failures) = mpsc::channel();
    for entry in entries {
        let failed = failed.clone();
        let stored = move |stored: Result<u64, RunLogError>| {
            if let Err(error) = stored {
                // Only the first failure is received. Later failures are its consequences.
                let _ = failed.send(error);
            }
        };
        let input = entry.input.as_ref();
        let entry = NewEntry {
            at: entry.at,
            scope: entry.scope,
            body: to_json(&input),
            shared: input.shared_texts(),
            durability: Durability::Normal,
            consumes: None,
        };
        claim.append(entry, Box::new(stored));
    }
    if let Some(reason) = &report.end {
        let (status, ending) = (end_status(reason), run_ending(reason));
        let on_end = move |ended| {
            if let Err(error) = ended {
                let _ = failed.send(error);
            }
        };
        claim.end(now, status, ending, Box::new(on_end));
    } else {
        drop(failed);
    }
    journal.flush()?;
    failures.try_recv().map_or(Ok(()), Err)
}
