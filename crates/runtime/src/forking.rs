//! A new run that shares another's past up to a point, and goes on from there in its own way (HOST-9).

use std::collections::{BTreeMap, BTreeSet};

use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::steering::Steering;
use dirigent_core::view::RunView;
use dirigent_store::Journal;
use uuid::Uuid;

use crate::error::RuntimeError;
use crate::handle::{RunHandle, read_entries};
use crate::orchestrator::{Orchestrator, UserPresence, blocking};
use crate::replaying::replay_view;
use crate::run_mailbox::{MailboxState, RunMailbox};
use crate::supervisor::{Recovery, StartMode};

/// What a run goes on from.
pub(crate) struct ReplayedRun {
    pub(crate) view: RunView,
    /// The machines of a fork that have no entry but those of the run that it was forked off: what was decided there does not count for
    /// them (APPROVE-3).
    pub(crate) inherited: BTreeSet<Scope>,
}

impl ReplayedRun {
    /// What the journal has of a run. Reads the disk.
    pub(crate) fn read(journal: &Journal, run: RunId) -> Result<ReplayedRun, RuntimeError> {
        let entries = read_entries(journal, run)?;
        let mut inherited = BTreeSet::new();
        if let Some(point) = journal.run(run)?.forked_from {
            let (of_both, own): (Vec<&Entry>, Vec<&Entry>) =
                entries.iter().partition(|entry| entry.seq <= point.seq);
            inherited.extend(of_both.iter().map(|entry| entry.scope));
            for entry in own {
                inherited.remove(&entry.scope);
            }
        }
        let view = replay_view(run, &entries)?;
        Ok(ReplayedRun { view, inherited })
    }
}

/// Where a run can be forked.
struct ForkRange {
    /// After its last entry after which it is not over.
    last: u64,
    /// Where nothing else is said.
    default_at: u64,
}

impl Orchestrator {
    /// Starts a new run that shares the first `at` entries of that run's journal, and goes on with the guidance, if there is any. Without
    /// `at` it shares all up to the run's end; of a run that ended as an agent failed, as when a model did not answer, all up to what that
    /// agent ended with, so that the fork asks again. The run itself, which may be under way, stays as it is.
    ///
    /// Guidance for a run that stands at a question takes the place of the answer: the question is withdrawn, and the next plan made now.
    /// What people decided about the run's calls does not count for the fork's: each that waits or has not ended is asked about anew
    /// (APPROVE-3).
    ///
    /// Only what the journal has is shared: the files of the workspace are not wound back, and both runs work in the same folder.
    ///
    /// # Errors
    /// [`RuntimeError::CannotFork`] where there is no such entry, or the run is over after it. [`RuntimeError::NeverBegan`] for a run without
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
        let (claim, replayed) = blocking(move || {
            let (replayed, at) = replay_prefix(run, &read_entries(&journal, run)?, at)?;
            Ok((journal.fork(run, at, new, now)?, replayed))
        })
        .await?;
        let question = replayed.view.run().question().map(|(question, _)| question);
        let first_message = guidance.map(|guidance| match question {
            Some(_) => Steering::Redirect { guidance },
            None => Steering::Guide { guidance },
        });
        let mailbox_state = question.map_or(MailboxState::Open, MailboxState::AwaitingAnswer);
        let replayed = Box::new(replayed);
        let begin = StartMode::Resume {
            replayed,
            recovery: Recovery::StayEnded,
            limits: None,
            first_message,
        };
        self.launch(new, claim, begin, RunMailbox::new(user, mailbox_state))
            .await
    }
}

/// The run as it was after that entry, or after the usual one; and which that is.
fn replay_prefix(run: RunId, entries: &[Entry], at: Option<u64>) -> Result<(ReplayedRun, u64), RuntimeError> {
    let ForkRange { last, default_at } = fork_range(run, entries)?;
    if entries.is_empty() {
        return Err(RuntimeError::NeverBegan { run });
    }
    let at = at.unwrap_or(default_at);
    if at == 0 || at > last {
        let over = if at > last && at <= entries.len() as u64 {
            "the run is over then"
        } else {
            "there is no such entry"
        };
        let reason = format!("{over}; it can be forked at the entries 1 to {last}");
        return Err(RuntimeError::CannotFork { run, at, reason });
    }
    let both = || entries.iter().take_while(|entry| entry.seq <= at);
    let replayed = ReplayedRun {
        view: replay_view(run, both())?,
        inherited: both().map(|entry| entry.scope).collect(),
    };
    Ok((replayed, at))
}

fn fork_range(run: RunId, entries: &[Entry]) -> Result<ForkRange, RuntimeError> {
    let mut range = ForkRange {
        last: 0,
        default_at: 0,
    };
    let mut view = RunView::new();
    // The entries with which agents ended.
    let mut ends: BTreeMap<AgentId, u64> = BTreeMap::new();
    for entry in entries {
        let (seq, scope) = (entry.seq, entry.scope);
        let failed = failed_agent(&view, &entry.input);
        view.apply(entry.clone())
            .map_err(|refusal| RuntimeError::Replay { run, seq, refusal })?;
        if let Scope::Agent(agent) = scope
            && view.agent(agent).is_some_and(|agent| agent.report().is_some())
        {
            ends.entry(agent).or_insert(seq);
        }
        if !view.run().phase().is_terminal() {
            range = ForkRange {
                last: seq,
                default_at: seq,
            };
        } else if let Some(end) = failed.and_then(|agent| ends.get(&agent)) {
            range.default_at = end - 1;
        }
    }
    Ok(range)
}

/// The agent of which that input says that it has failed.
fn failed_agent(view: &RunView, input: &Input) -> Option<AgentId> {
    match input {
        Input::Run(RunInput::AgentFinished { effect, report }) if report.result.is_err() => {
            view.run().agent_of(*effect)
        }
        Input::Run(_) | Input::Agent(_) => None,
    }
}
