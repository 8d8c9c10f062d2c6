//! A new run that shares another's past up to a point, and goes on from there in its own way (HOST-9).

use std::collections::{BTreeMap, BTreeSet};

use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::steering::Steering;
use dirigent_core::view::RunView;
use dirigent_store::Journal;
use uuid::Uuid;

use crate::door::{Door, Hearing};
use crate::error::RuntimeError;
use crate::handle::{RunHandle, read_entries};
use crate::orchestrator::{Orchestrator, UserPresence, blocking};
use crate::replaying::view_of;
use crate::supervisor::{Begin, Recovery};

/// What a run goes on from.
pub(crate) struct Past {
    pub(crate) view: RunView,
    /// The machines of a fork that have no entry but those of the run that it was forked off: what was decided there does not count for
    /// them (APPROVE-3).
    pub(crate) shared: BTreeSet<Scope>,
}

impl Past {
    /// What the journal has of a run. Reads the disk.
    pub(crate) fn read(journal: &Journal, run: RunId) -> Result<Past, RuntimeError> {
        let entries = read_entries(journal, run)?;
        let mut shared = BTreeSet::new();
        if let Some(point) = journal.run(run)?.forked_from {
            let (of_both, own): (Vec<&Entry>, Vec<&Entry>) =
                entries.iter().partition(|entry| entry.seq <= point.seq);
            shared.extend(of_both.iter().map(|entry| entry.scope));
            for entry in own {
                shared.remove(&entry.scope);
            }
        }
        let view = view_of(run, &entries)?;
        Ok(Past { view, shared })
    }
}

/// Where a run can be forked.
struct Places {
    /// After its last entry after which it is not over.
    last: u64,
    /// Where nothing else is said.
    usual: u64,
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
        let question = past.view.run().question().map(|(question, _)| question);
        let first = guidance.map(|guidance| match question {
            Some(_) => Steering::Redirect { guidance },
            None => Steering::Guide { guidance },
        });
        let hearing = question.map_or(Hearing::Nothing, Hearing::Asking);
        let past = Box::new(past);
        let begin = Begin::Resume {
            past,
            recovery: Recovery::StayEnded,
            limits: None,
            first,
        };
        self.launch(new, claim, begin, Door::new(user, hearing)).await
    }
}

/// The run as it was after that entry, or after the usual one; and which that is.
fn shared_past(run: RunId, entries: &[Entry], at: Option<u64>) -> Result<(Past, u64), RuntimeError> {
    let Places { last, usual } = places(run, entries)?;
    if entries.is_empty() {
        return Err(RuntimeError::NeverBegan { run });
    }
    let at = at.unwrap_or(usual);
    if at == 0 || at > last {
        let over = if at > last && at <= entries.len() as u64 {
            "the run is over then"
        } else {
            "there is no such entry"
        };
        let reason = format!("{over}; it can be forked at the entries 1 to {last}");
        return Err(RuntimeError::NoFork { run, at, reason });
    }
    let both = || entries.iter().take_while(|entry| entry.seq <= at);
    let past = Past {
        view: view_of(run, both())?,
        shared: both().map(|entry| entry.scope).collect(),
    };
    Ok((past, at))
}

fn places(run: RunId, entries: &[Entry]) -> Result<Places, RuntimeError> {
    let mut places = Places { last: 0, usual: 0 };
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
            places = Places {
                last: seq,
                usual: seq,
            };
        } else if let Some(end) = failed.and_then(|agent| ends.get(&agent)) {
            places.usual = end - 1;
        }
    }
    Ok(places)
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
