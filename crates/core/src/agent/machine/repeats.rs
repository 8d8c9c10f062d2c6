//! Detects an agent that makes no progress (LOOP-10): the same call with the same result, again and again, while nothing else changes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::message::ToolCall;
use crate::tool::{StateChange, ToolOutcome, ToolResult};

/// The number of times that each result occurred, by digest of call and result. Digests are compared only within one machine and never
/// stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Repeats(BTreeMap<u64, u32>);

impl Repeats {
    /// Counts how many times the call has returned this result. Counting restarts when a call changes the workspace, unless that call is
    /// itself a repetition.
    pub(super) fn count(&mut self, call: &ToolCall, result: &ToolResult) -> u32 {
        let key = digest(call, result);
        if !self.0.contains_key(&key) && result.changes.iter().any(is_progress) {
            self.0.clear();
        }
        let times = self.0.entry(key).or_default();
        *times += 1;
        *times
    }
}

/// Returns true if the change counts as progress. An exited command counts only if files changed while it was running.
fn is_progress(change: &StateChange) -> bool {
    match change {
        StateChange::FileCreated { .. }
        | StateChange::FileEdited { .. }
        | StateChange::FileDeleted { .. }
        | StateChange::FileMoved { .. }
        | StateChange::TableCreated { .. }
        | StateChange::TableDropped { .. }
        | StateChange::RowsChanged { .. }
        | StateChange::RequestSent { .. } => true,
        StateChange::ProcessExited { files, .. } => !files.is_empty(),
    }
}

fn digest(call: &ToolCall, result: &ToolResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.tool.hash(&mut hasher);
    call.parameters.hash(&mut hasher);
    match &result.outcome {
        ToolOutcome::Success { output } => (true, output).hash(&mut hasher),
        ToolOutcome::Failure { error, output, .. } => (false, error, output).hash(&mut hasher),
    }
    hasher.finish()
}
