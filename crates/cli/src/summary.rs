//! The summary of a run for the user, with the command that continues it.

use std::fmt::Write as _;

use dirigent::events::BudgetKind;
use dirigent::{Detail, EndReason, FailureCause, RunId, RunView, render};

use crate::output::sanitize;
use crate::pending_requests::PendingRequests;
use crate::request_text::request_lines;

pub(crate) fn detail(verbose: bool) -> Detail {
    if verbose { Detail::Verbose } else { Detail::Concise }
}

/// The run's report, with transcripts if verbose, then its pending requests and the command that continues it.
pub(crate) fn summary(view: &RunView, run: RunId, detail: Detail) -> String {
    let report = view.report();
    let mut text = render::report(&report, detail);
    match detail {
        Detail::Concise => {}
        Detail::Verbose => {
            let _ = write!(text, "\nTranscripts:\n{}", render::transcripts(view));
        }
    }
    let mut text = sanitize(&text);
    let mut requests = PendingRequests::from_view(view);
    let next = report
        .end
        .as_ref()
        .and_then(|end| next_command(run, end, &requests));
    if report.end.is_some() {
        // The report of an ended run already contains the question. If there are several questions, it does not say how
        // to answer each of them.
        if let [_] = requests.questions.as_slice() {
            requests.questions.clear();
        }
    }
    let mut more = request_lines(run, &requests);
    more.extend(next.map(|command| format!("  {command}")));
    if !more.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for line in more {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns the command that continues an ended run or, if the run cannot continue, forks it. `None` if nothing is left to do.
pub(crate) fn next_command(run: RunId, end: &EndReason, requests: &PendingRequests) -> Option<String> {
    let run = run.short();
    match end {
        EndReason::UserRequired if !requests.calls.is_empty() || requests.questions.len() > 1 => {
            Some(format!("dirigent resume {run}"))
        }
        EndReason::UserRequired => Some(format!("dirigent resume {run} --answer \"…\"")),
        EndReason::IterationLimit { .. } => Some(format!("dirigent resume {run} --max-iterations N")),
        EndReason::TimeLimit => Some(format!("dirigent resume {run} --timeout TIME")),
        EndReason::BudgetExhausted { budget, .. } => {
            let limit = match budget {
                BudgetKind::Tokens => "--max-tokens N",
                BudgetKind::Cost => "--max-cost DOLLARS",
                BudgetKind::ModelCalls => "--max-model-calls N",
            };
            Some(format!("dirigent resume {run} {limit}"))
        }
        EndReason::Failed { cause, .. } => match cause {
            FailureCause::ModelUnavailable => Some(format!("dirigent resume {run}")),
            FailureCause::AgentLimit => Some(format!(
                "dirigent resume {run}    (its agents get their turns and time anew; higher limits need a new run: --max-turns N or --agent-timeout TIME)"
            )),
            FailureCause::Unrecoverable => Some(format!(
                "dirigent fork {run}    (a new run that continues from a copy of this one)"
            )),
        },
        EndReason::GoalAchieved | EndReason::Cancelled => None,
    }
}
