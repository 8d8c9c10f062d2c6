//! Forking: a new run that shares the first entries of another run and continues on its own (HOST-9).

use std::collections::BTreeMap;

use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::policy::CallPattern;
use dirigent_core::run::RunInput;
use dirigent_core::steering::Steering;
use dirigent_core::view::RunView;
use uuid::Uuid;

use crate::blocking::blocking;
use crate::error::RuntimeError;
use crate::handle::RunHandle;
use crate::journal_reader::{read_entries, replay_entries};
use crate::orchestrator::Orchestrator;
use crate::replayed_run::ReplayedRun;
use crate::resuming::allow_messages;
use crate::run_log::{RunLogError, RunLogErrorKind};
use crate::run_mailbox::{MailboxState, RunMailbox};
use crate::services::RunServices;
use crate::supervisor::{Recovery, ResumedRun, StartMode};
use crate::user_presence::UserPresence;

/// The entries at which a run can be forked.
struct ForkRange {
    /// The last entry at which the run has not ended yet.
    last: u64,
    /// The entry at which the run is forked by default.
    default_at: u64,
}

impl Orchestrator {
    /// Starts a new run that shares the first `at` entries of `run`, and continues with `guidance`, if any. By default it shares all
    /// entries up to the run's end. If the run ended because an agent failed, for example because its model did not answer, the default is
    /// the entry before that agent's end, so that the fork asks the model again. The source run does not change, and may be active.
    ///
    /// If the run is waiting for the answer to a question, guidance replaces the answer: the question is
    /// withdrawn, and the fork plans again at once. Guidance also replaces the answers to sub-agents'
    /// questions, once no other work can continue. The user's decisions about calls of the source run do not
    /// apply to the fork: the fork asks again about each call that waits for an approval or has not ended
    /// (APPROVE-3).
    ///
    /// Calls that the user had allowed in the source run up to this entry need no approval in the fork, nor
    /// do calls that match `allowed`.
    ///
    /// Only journal entries are shared: the files of the workspace are not restored, and both runs work in the same folder.
    ///
    /// # Errors
    /// [`RuntimeError::CannotFork`] if the run has no entry `at`, or has ended at this entry. [`RuntimeError::NeverBegan`] for a run
    /// without entries. [`RuntimeError::Journal`] and [`RuntimeError::Replay`].
    pub async fn fork(
        &self,
        run: RunId,
        at: Option<u64>,
        guidance: Option<String>,
        allowed: Vec<CallPattern>,
        user: UserPresence,
    ) -> Result<RunHandle, RuntimeError> {
        self.ensure_running()?;
        let services = self.services();
        let (journal, now, new) = (
            services.journal.clone(),
            services.clock.now(),
            RunId(Uuid::now_v7()),
        );
        let (claim, replayed) = blocking(move || {
            let entries = match (read_entries(&*journal, run), at) {
                // The entries before a damaged one can still be shared.
                (Err(error), Some(at)) if is_broken_after(&error, at) => {
                    journal.entries(run, 0, usize::try_from(at).unwrap_or(usize::MAX))
                }
                (entries, _) => entries,
            };
            let (replayed, at) = replay_prefix(run, &entries?, at)?;
            Ok((journal.fork(run, at, new, now)?, replayed))
        })
        .await?;
        let question = replayed.view.run().question().map(|(question, _)| question);
        let guided = guidance.map(|guidance| match question {
            Some(_) => Steering::Redirect { guidance },
            None => Steering::Guide { guidance },
        });
        let mut first_messages = allow_messages(allowed, replayed.view.run());
        first_messages.extend(guided);
        let mailbox_state = question.map_or(MailboxState::Open, MailboxState::AwaitingAnswer);
        let mode = StartMode::Resume(Box::new(ResumedRun {
            replayed,
            recovery: Recovery::StayEnded,
            limits: None,
            first_messages,
        }));
        let mailbox = RunMailbox::new(user, mailbox_state);
        self.launch(new, claim, mode, mailbox, RunServices::default())
            .await
    }
}

/// Returns true if only entries after `at` are damaged, so that the entries up to `at` can be read.
fn is_broken_after(error: &RunLogError, at: u64) -> bool {
    matches!(error.kind(), RunLogErrorKind::BrokenEntry { seq } if at < seq)
}

/// Replays a run up to entry `at`, or up to the default entry. Also returns the entry's number.
fn replay_prefix(run: RunId, entries: &[Entry], at: Option<u64>) -> Result<(ReplayedRun, u64), RuntimeError> {
    let ForkRange { last, default_at } = fork_range(run, entries)?;
    if entries.is_empty() {
        return Err(RuntimeError::NeverBegan { run });
    }
    let at = at.unwrap_or(default_at);
    if at == 0 || at > last {
        let cause = if at > last && at <= entries.len() as u64 {
            "the run has already ended there"
        } else {
            "there is no such entry"
        };
        let reason = match last {
            0 => "the run ended with its first entry, so there is nothing to continue".to_owned(),
            _ => format!("{cause}; choose an entry from 1 to {last}"),
        };
        return Err(RuntimeError::CannotFork { run, at, reason });
    }
    let shared = || entries.iter().take_while(|entry| entry.seq <= at);
    let (view, _) = replay_entries(run, shared().cloned())?;
    let inherited = shared().map(|entry| entry.scope).collect();
    Ok((ReplayedRun { view, inherited }, at))
}

fn fork_range(run: RunId, entries: &[Entry]) -> Result<ForkRange, RuntimeError> {
    let mut range = ForkRange {
        last: 0,
        default_at: 0,
    };
    let Some((first, rest)) = entries.split_first() else {
        return Ok(range);
    };
    let refused = |seq| move |refusal| RuntimeError::Replay { run, seq, refusal };
    let (mut view, _) = RunView::start(first.clone()).map_err(refused(first.seq))?;
    if !view.run().phase().is_terminal() {
        range = ForkRange {
            last: first.seq,
            default_at: first.seq,
        };
    }
    // For each agent that has ended, the number of the entry that ended it last. The lead can end several
    // times, because it is continued after its report.
    let mut ends: BTreeMap<AgentId, u64> = BTreeMap::new();
    for entry in rest {
        let (seq, scope) = (entry.seq, entry.scope);
        let failed = failed_agent(&view, &entry.input);
        let had_ended = has_ended(&view, scope);
        view.apply(entry.clone()).map_err(refused(seq))?;
        if let Scope::Agent(agent) = scope
            && !had_ended
            && has_ended(&view, scope)
        {
            ends.insert(agent, seq);
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

/// Returns true for an agent that has ended and has not been continued since then.
fn has_ended(view: &RunView, scope: Scope) -> bool {
    let agent = scope.agent().and_then(|agent| view.agent(agent));
    agent.is_some_and(|agent| agent.report().is_some())
}

/// Returns the agent whose failure the input reports.
fn failed_agent(view: &RunView, input: &Input) -> Option<AgentId> {
    match input {
        Input::Run(RunInput::AgentFinished { effect, report }) if report.result.is_err() => {
            view.run().agent_of(*effect)
        }
        Input::Run(_) | Input::Agent(_) => None,
    }
}
