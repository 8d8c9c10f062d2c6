//! Recordings and the journal: a run's journal becomes a recording, and a recording that replays becomes a run's journal. No
//! model is asked and no tool runs (HOST-9).

use std::sync::{Arc, mpsc};

use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use dirigent_core::recording::{Recorder, Recording, replay};
use dirigent_core::run::Report;
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Timestamp;
use dirigent_core::view::RunView;
use dirigent_store::{Durability, Journal, NewEntry, StoreError};
use tokio::sync::watch;
use uuid::Uuid;

use crate::deltas::Listeners;
use crate::driver::run_ending;
use crate::error::RuntimeError;
use crate::handle::{RunHandle, read_entries};
use crate::orchestrator::{Orchestrator, UserPresence, blocking};
use crate::run_mailbox::{MailboxState, RunMailbox};

/// A recording of a run as its journal has it now. Reads the disk: not for an async context.
///
/// # Errors
/// [`RuntimeError::Journal`], [`RuntimeError::Replay`], and [`RuntimeError::NeverBegan`] for a run without any input.
pub fn record_run(journal: &Journal, run: RunId) -> Result<Recording, RuntimeError> {
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
    /// Replays a recording with that spec, and journals it as a new run, which has ended: times are the recorded ones.
    ///
    /// # Errors
    /// [`RuntimeError::ReplayMismatch`] where the present run is another one: nothing is journaled then.
    /// [`RuntimeError::Journal`] where it cannot be written.
    pub async fn replay(&self, recording: Recording, present: RunSpec) -> Result<RunHandle, RuntimeError> {
        let run = RunId(Uuid::now_v7());
        let (journal, now) = (self.services().journal.clone(), self.services().clock.now());
        blocking(move || {
            let entries = replay(&recording, present, run)?;
            let report = Arc::new(replay_view(run, &entries)?.report().without_account());
            write_entries(&journal, run, &recording, &entries, &report, now)?;
            let (_, outcome) = watch::channel(Some(Ok(report)));
            Ok(RunHandle {
                run,
                journal,
                mailbox: Arc::new(RunMailbox::new(UserPresence::Absent, MailboxState::Closed)),
                outcome,
                listeners: Listeners::default(),
            })
        })
        .await
    }
}

pub(crate) fn replay_view<'a>(
    run: RunId,
    entries: impl IntoIterator<Item = &'a Entry>,
) -> Result<RunView, RuntimeError> {
    let mut view = RunView::new();
    for entry in entries {
        let seq = entry.seq;
        view.apply(entry.clone())
            .map_err(|refusal| RuntimeError::Replay { run, seq, refusal })?;
    }
    Ok(view)
}

/// Writes the entries; the run stands among the others as of now.
fn write_entries(
    journal: &Journal,
    run: RunId,
    recording: &Recording,
    entries: &[Entry],
    report: &Report,
    now: Timestamp,
) -> Result<(), StoreError> {
    let spec = recording.spec();
    let claim = journal.create(run, &spec.goal, &spec.workspace, now)?;
    let (failed, failures) = mpsc::channel();
    for entry in entries {
        let failed = failed.clone();
        let stored = move |stored: Result<u64, StoreError>| {
            if let Err(error) = stored {
                // The first is waited for; the others follow from it.
                let _ = failed.send(error);
            }
        };
        #[expect(clippy::expect_used, reason = "plain data, which always serializes")]
        let body = serde_json::to_string(&entry.input).expect("an input serializes");
        let entry = NewEntry {
            at: entry.at,
            scope: entry.scope,
            body,
            durability: Durability::Normal,
            consumes: None,
        };
        journal.append(&claim, entry, stored);
    }
    if let Some(reason) = &report.end {
        #[expect(clippy::expect_used, reason = "plain data, which always serializes")]
        let status = serde_json::to_string(reason).expect("an end serializes");
        journal.end(&claim, now, status, run_ending(reason), move |ended| {
            if let Err(error) = ended {
                let _ = failed.send(error);
            }
        });
    } else {
        drop(failed);
    }
    journal.flush()?;
    failures.try_recv().map_or(Ok(()), Err)
}
