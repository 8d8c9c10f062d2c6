//! The report of an agent whose actor crashed, rebuilt from the agent's inputs in the journal. No model is asked and no tool runs.

use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::agent_report::{AgentFailure, AgentReport, AgentWork};
use dirigent_core::id::{AgentId, RunId};
use dirigent_core::machine::Machine;
use dirigent_core::time::{Millis, Timestamp};

use crate::blocking::blocking;
use crate::journal_reader::read_view;
use crate::run_log::RunLog;

/// Builds the agent's report: the failure, and the work done before the crash.
pub(crate) async fn report(
    journal: Arc<dyn RunLog>,
    run: RunId,
    agent: AgentId,
    now: Timestamp,
    message: String,
) -> AgentReport {
    let read = blocking(move || {
        journal.flush()?;
        let (_, mut agents) = read_view(&*journal, run)?.into_machines().into_machines();
        Ok(agents.remove(&agent))
    });
    let machine = read.await.unwrap_or_else(|error| {
        tracing::warn!(%run, %agent, %error, "cannot read a crashed agent's work");
        None
    });
    let failure = AgentFailure::Panicked { message };
    machine
        .and_then(|machine| end(machine, now, &failure))
        .unwrap_or(AgentReport {
            result: Err(failure),
            work: AgentWork::default(),
            duration: Millis(0),
            guidance: None,
        })
}

/// Returns the agent's own report if the agent had ended before the crash, otherwise a report with `failure`.
/// `None` if the machine refuses to end.
fn end(mut machine: Agent, now: Timestamp, failure: &AgentFailure) -> Option<AgentReport> {
    if let Some(report) = machine.report() {
        return Some(report.clone());
    }
    // Cancelling this copy of the machine makes it summarize the agent's work. Only the report is journaled,
    // as an input of the run; the cancellation is not.
    machine.handle(now, AgentInput::Cancelled).ok()?;
    machine.report().map(|report| AgentReport {
        result: Err(failure.clone()),
        ..report.clone()
    })
}
