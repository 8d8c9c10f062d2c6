//! What is known of an agent whose actor broke down: its state died with it, but its inputs are in the journal. Never asks
//! a model or runs a tool.

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::agent_report::{AgentFailure, AgentReport, AgentWork};
use dirigent_core::id::{AgentId, RunId};
use dirigent_core::machine::Machine;
use dirigent_core::time::{Millis, Timestamp};
use dirigent_store::Journal;

use crate::handle::read_run;
use crate::orchestrator::blocking;

/// How the agent ended and what it had done until then.
pub(crate) async fn report(
    journal: Journal,
    run: RunId,
    agent: AgentId,
    now: Timestamp,
    message: String,
) -> AgentReport {
    let read = blocking(move || {
        journal.flush()?;
        let (_, mut agents) = read_run(&journal, run)?.0.into_machines();
        Ok(agents.remove(&agent))
    });
    let machine = read.await.unwrap_or_else(|error| {
        tracing::warn!(%run, %agent, %error, "what the agent did is not known");
        None
    });
    let failure = AgentFailure::Panicked { message };
    machine
        .and_then(|machine| end(machine, now, &failure))
        .unwrap_or(AgentReport {
            result: Err(failure),
            work: AgentWork::default(),
            duration: Millis(0),
        })
}

/// The agent's own end, if it had come to one; none if it never started.
fn end(mut machine: Agent, now: Timestamp, failure: &AgentFailure) -> Option<AgentReport> {
    if let Some(report) = machine.report() {
        return Some(report.clone());
    }
    // Only this copy ends so, which adds up what it did; the journal has the report as the run's input.
    machine.handle(now, AgentInput::Cancelled).ok()?;
    machine.report().map(|report| AgentReport {
        result: Err(failure.clone()),
        ..report.clone()
    })
}
