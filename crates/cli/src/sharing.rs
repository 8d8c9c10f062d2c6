//! Decides what to do if other runs work in the folder of a run that is about to start.

use dirigent::{Dirigent, DirigentError, RunHandle, RunRecord, UserPresence};

use crate::exit::Exit;
use crate::output::{Output, sanitize};
use crate::plain::sharing_text;
use crate::signals::ShutdownSignals;

/// The choice of the user or of the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Wait,
    GoOn,
    Worktree,
    Cancel,
}

/// Whether the run can use a worktree instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Worktree,
    NoWorktree,
}

/// Whether the user is told that the run waits for others before it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitNotice {
    /// The run does not wait.
    No,
    /// The run waits for other runs; the text describes them to the user.
    For(String),
}

/// Asks the user what to do. Without a user, the run starts at once, with a note about the other runs.
pub(crate) fn choose(
    others: &[RunRecord],
    wait: bool,
    offer: Offer,
    user: UserPresence,
    output: &Output,
) -> Choice {
    if wait {
        return Choice::Wait;
    }
    if others.is_empty() {
        return Choice::GoOn;
    }
    let (others_text, end) = (others_text(others), end_text(others));
    match user {
        UserPresence::Absent => {
            let worktree = match offer {
                Offer::Worktree => ", or --worktree to work in a separate copy",
                Offer::NoWorktree => "",
            };
            output.note(&format!(
                "note: {others_text}; use --wait to start after {end}{worktree}"
            ));
            Choice::GoOn
        }
        UserPresence::Present => ask(&others_text, others, offer, output),
    }
}

fn ask(others_text: &str, others: &[RunRecord], offer: Offer, output: &Output) -> Choice {
    output.print(&format!("! {others_text}"));
    for other in others {
        let goal = sanitize(&other.goal);
        let goal = goal.lines().next().unwrap_or_default();
        output.print(&format!(
            "    {}  {}",
            other.run.short(),
            console::truncate_str(goal, 70, "…")
        ));
    }
    let worktree = match offer {
        Offer::Worktree => " · t use a git worktree",
        Offer::NoWorktree => "",
    };
    let question = format!(
        "w wait until {} · g go ahead now{worktree} · c cancel: ",
        end_text(others)
    );
    loop {
        let Some(answer) = output.ask(&question) else {
            return Choice::Cancel;
        };
        match (answer.trim().to_lowercase().as_str(), offer) {
            ("w" | "wait", _) => return Choice::Wait,
            ("g" | "go on" | "go ahead", _) => return Choice::GoOn,
            ("t" | "worktree", Offer::Worktree) => return Choice::Worktree,
            ("c" | "cancel", _) => return Choice::Cancel,
            (_, Offer::Worktree | Offer::NoWorktree) => {}
        }
    }
}

/// Returns the words to use after "until" about the other runs.
fn end_text(others: &[RunRecord]) -> &'static str {
    match others {
        [_] => "it ends",
        _ => "they end",
    }
}

fn others_text(others: &[RunRecord]) -> String {
    let runs: Vec<_> = others.iter().map(|other| other.run).collect();
    sharing_text(&runs)
}

impl WaitNotice {
    pub(crate) fn from_runs(others: &[RunRecord]) -> Self {
        if others.is_empty() {
            WaitNotice::No
        } else {
            WaitNotice::For(others_text(others))
        }
    }

    /// Starts a run and returns it, or returns how the process exits if a signal ended the wait for the start. If the run still starts
    /// after the signal, it is cancelled. A second signal ends the wait at once.
    pub(crate) async fn start(
        self,
        dirigent: &Dirigent,
        starting: impl Future<Output = Result<RunHandle, DirigentError>>,
        signals: &mut ShutdownSignals,
        output: &Output,
    ) -> Result<Result<RunHandle, Exit>, DirigentError> {
        if let WaitNotice::For(others) = self {
            output.note(&format!("waiting: {others}; press Ctrl-C to stop waiting"));
        }
        let mut starting = std::pin::pin!(starting);
        let started = tokio::select! {
            started = &mut starting => return started.map(Ok),
            _ = signals.next() => {
                dirigent.cancel_starts();
                tokio::select! {
                    started = &mut starting => started,
                    () = signals.interrupted() => return Ok(Err(Exit::Killed)),
                }
            }
        };
        match started {
            Ok(run) => {
                // Fails only if the run has ended already.
                let _ = run.cancel();
                Ok(Ok(run))
            }
            Err(DirigentError::StartCancelled) => {
                output.note("stopped waiting; nothing was started");
                Ok(Err(Exit::Cancelled))
            }
            Err(error) => Err(error),
        }
    }
}
