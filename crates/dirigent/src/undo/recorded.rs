//! The changes that a run's journal records: the plans that undo them, and what calls may have changed without reporting it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use dirigent_core::id::{EffectId, RunId};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::tool::Access;
use dirigent_core::undo::UndoPlan;
use dirigent_core::view::EventKind;
use dirigent_runtime::read_run;
use dirigent_store::{Journal, Original, StoreError};
use serde::Serialize;
use serde_json::Value;

use crate::DirigentError;

/// The changes of a run, from its journal.
pub(super) struct RecordedChanges {
    pub(super) after: u64,
    pub(super) workspace: PathBuf,
    /// The folder that the user named, if the run worked in a worktree of its repository.
    pub(super) origin: Option<String>,
    /// The plan that undoes only the changes made by file tools.
    pub(super) plan: UndoPlan,
    /// The plan that also undoes the changes made while commands were running.
    pub(super) with_commands: UndoPlan,
    /// The original versions of files that may have been changed by calls whose results were never reported.
    pub(super) interrupted: Vec<Original>,
    pub(super) unfinished: Vec<UnfinishedCall>,
}

impl RecordedChanges {
    pub(super) fn load(
        journal: &Journal,
        run: RunId,
        after: Option<u64>,
    ) -> Result<RecordedChanges, DirigentError> {
        let record = journal.run(run)?;
        let after = after
            .or(record.forked_from.map(|point| point.seq))
            .unwrap_or_default();
        if after > record.entries {
            let last = record.entries;
            return Err(StoreError::NoSuchEntry { run, at: after, last }.into());
        }
        let entries = journal.entries(run, 0, usize::MAX)?;
        let plan = UndoPlan::from_entries(&entries, after);
        let with_commands = UndoPlan::with_commands(&entries, after);
        let mut interrupted = journal.originals(run)?;
        interrupted.retain(|original| plan.is_unreported(original.effect, &original.path, &original.version));
        let unfinished = match plan.unfinished.is_empty() {
            true => Vec::new(),
            false => unfinished(journal, run, &plan.unfinished)?,
        };
        Ok(RecordedChanges {
            after,
            workspace: PathBuf::from(record.workspace),
            origin: entries.first().and_then(origin),
            plan,
            with_commands,
            interrupted,
            unfinished,
        })
    }
}

/// A call that may have changed something without reporting it, because it was interrupted, crashed or abandoned. JSON: `{"call": "a1.3",
/// "tool": "execute_command"}`. Display format: `a1.3 (execute_command)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnfinishedCall {
    /// The effect id of the call.
    pub call: EffectId,
    /// The name of the tool.
    pub tool: String,
}

impl fmt::Display for UnfinishedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.call, self.tool)
    }
}

/// Returns the folder that the user named for a run in a worktree, from the run's first entry.
fn origin(first: &Entry) -> Option<String> {
    match &first.input {
        Input::Run(RunInput::Started { spec }) => Some(spec.worktree.as_ref()?.origin.clone()),
        Input::Run(_) | Input::Agent(_) => None,
    }
}

/// Returns the calls among `calls` that may have changed something.
fn unfinished(
    journal: &Journal,
    run: RunId,
    calls: &BTreeSet<EffectId>,
) -> Result<Vec<UnfinishedCall>, DirigentError> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let (view, events) = read_run(journal, run)?;
    let tools = view.run().spec().tool_set();
    let is_read_only = |tool: &str, parameters: &Value| {
        let tool = tools.get(tool);
        tool.is_some_and(|tool| tool.access == Access::ReadOnly && tool.repeat.is_safe(parameters))
    };
    let mut found = BTreeMap::new();
    for event in events {
        if let EventKind::ToolStarted {
            effect,
            tool,
            parameters,
            ..
        } = event.kind
            && calls.contains(&effect)
            && !is_read_only(&tool, &parameters)
        {
            found.insert(effect, tool);
        }
    }
    let found = found.into_iter();
    Ok(found.map(|(call, tool)| UnfinishedCall { call, tool }).collect())
}
