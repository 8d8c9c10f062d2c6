//! Checks the confirmations of a reflection against the calls in the journal (PAOR-10).
//! [`dirigent_core::confirmation`] defines the comparison. The agent's state machine submits a reflection as a call
//! of this tool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dirigent_core::agent::AgentInput;
use dirigent_core::agent_spec::AnswerForm;
use dirigent_core::confirmation::{RecordedCall, check_confirmations};
use dirigent_core::id::{EffectId, RunId};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::reflection::Reflection;
use dirigent_core::run::RunInput;
use dirigent_core::submission::submission_tool;
use dirigent_core::tool::{ToolOutcome, ToolResult, ToolSpec, code};
use dirigent_core::view::{Event, EventKind};
use dirigent_tools::{Tool, ToolContext};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::error::RuntimeError;
use crate::journal_reader::{read_entries, replay_entries};
use crate::run_log::RunLog;

/// The tool that checks a reflection's confirmations.
pub(crate) struct CheckConfirmations {
    journal: Arc<dyn RunLog>,
    spec: ToolSpec,
}

impl CheckConfirmations {
    /// Creates the tool; `None` if reflections are not submitted by a call.
    pub(crate) fn new(journal: Arc<dyn RunLog>) -> Option<Self> {
        let spec = submission_tool(AnswerForm::Reflection)?;
        Some(CheckConfirmations { journal, spec })
    }
}

impl Tool for CheckConfirmations {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn call(&self, context: ToolContext, parameters: Value) -> BoxFuture<'static, ToolResult> {
        let journal = self.journal.clone();
        async move {
            // Reading the disk blocks the thread.
            let check = move || check(&*journal, context.run, &parameters);
            match tokio::task::spawn_blocking(check).await {
                Ok(result) => result,
                Err(error) => ToolResult::failure(error.to_string()).with_code("journal"),
            }
        }
        .boxed()
    }
}

fn check(journal: &dyn RunLog, run: RunId, parameters: &Value) -> ToolResult {
    let named = match Reflection::from_parameters(parameters) {
        Ok(reflection) => reflection.confirmed_by,
        Err(error) => return ToolResult::failure(error).with_code(code::BAD_PARAMETERS),
    };
    let wanted = named.iter().map(|named| named.call).collect();
    match recorded_calls(journal, run, &wanted) {
        Ok(recorded) => check_confirmations(&named, |call| recorded.get(&call)),
        Err(error) => ToolResult::failure(format!("the calls cannot be read from the journal: {error}"))
            .with_code("journal"),
    }
}

/// Reads the requested calls, except those that have not ended.
fn recorded_calls(
    journal: &dyn RunLog,
    run: RunId,
    wanted: &BTreeSet<EffectId>,
) -> Result<BTreeMap<EffectId, RecordedCall>, RuntimeError> {
    let entries = read_entries(journal, run)?;
    let finished = Finished::read(&entries);
    let (_, events) = replay_entries(run, entries)?;
    let mut started = Vec::new();
    for Event { seq, kind, .. } in events {
        if let EventKind::ToolStarted {
            effect,
            tool,
            parameters,
            ..
        } = kind
        {
            let call = StartedCall {
                seq,
                effect,
                tool,
                parameters,
            };
            started.push(call);
        }
    }
    let requested = started.iter().filter(|call| wanted.contains(&call.effect));
    let recorded = requested.filter_map(|call| {
        let recorded = RecordedCall {
            tool: call.tool.clone(),
            parameters: call.parameters.clone(),
            result: finished.results.get(&call.effect)?.1.clone(),
            changed_since: finished.changed_since(call),
            failed_before: finished.failed_before(call, &started),
        };
        Some((call.effect, recorded))
    });
    Ok(recorded.collect())
}

/// The start of a call, as recorded in the journal.
struct StartedCall {
    seq: u64,
    effect: EffectId,
    tool: String,
    parameters: Value,
}

/// The finished calls of a run.
struct Finished {
    /// The result of each call, with the number of its journal entry.
    results: BTreeMap<EffectId, (u64, ToolResult)>,
    /// The calls that changed something, in order, each with the number of its journal entry.
    changes: Vec<(u64, EffectId)>,
}

impl Finished {
    fn read(entries: &[Entry]) -> Finished {
        let (mut results, mut changes) = (BTreeMap::new(), Vec::new());
        for Entry { seq, input, .. } in entries {
            let (Input::Run(RunInput::ToolFinished { effect, result })
            | Input::Agent(AgentInput::ToolFinished { effect, result })) = input
            else {
                continue;
            };
            results.insert(*effect, (*seq, result.clone()));
            if RecordedCall::outdates(result) {
                changes.push((*seq, *effect));
            }
        }
        Finished { results, changes }
    }

    /// Returns the last other call that ended after this call began, and that changed something which this
    /// call may have read.
    fn changed_since(&self, call: &StartedCall) -> Option<EffectId> {
        let concerns_call = |other: &EffectId| {
            let result = self.results.get(other).map(|(_, result)| result);
            result.is_some_and(|result| RecordedCall::may_outdate(result, &call.tool))
        };
        let mut later = self
            .changes
            .iter()
            .rev()
            .filter(|(ended, other)| *ended > call.seq && *other != call.effect && concerns_call(other));
        later.next().map(|(_, other)| *other)
    }

    /// Returns the first call with the same tool and parameters that failed with the same code and ended
    /// before the run's first change.
    fn failed_before(&self, call: &StartedCall, started: &[StartedCall]) -> Option<EffectId> {
        let code = self.failure(call.effect)?.1;
        let first_change = self.changes.first().map(|(ended, _)| *ended)?;
        let failed_alike = |other: &&StartedCall| {
            let is_same = (&other.tool, &other.parameters) == (&call.tool, &call.parameters);
            let failure = self.failure(other.effect);
            is_same && failure.is_some_and(|(ended, other)| ended < first_change && other == code)
        };
        started.iter().find(failed_alike).map(|other| other.effect)
    }

    /// Returns the code of a failed call and the number of its journal entry; `None` for a call that
    /// succeeded or did not end.
    fn failure(&self, effect: EffectId) -> Option<(u64, &str)> {
        let (ended, result) = self.results.get(&effect)?;
        match &result.outcome {
            ToolOutcome::Failure { code, .. } => Some((*ended, code)),
            ToolOutcome::Success { .. } => None,
        }
    }
}
