//! The tool calls of a run, as its journal shows them: which have ended, which ran at the same time, and what changed while a command was
//! running.

use std::collections::{BTreeMap, BTreeSet};

use super::DuringCommand;
use super::attribution::without_file_tools;
use super::parallel::{self, SeenChange};
use crate::agent::AgentInput;
use crate::id::EffectId;
use crate::journal::{Entry, Input};
use crate::run::RunInput;
use crate::tool::{StateChange, ToolOutcome, ToolResult, code};

/// The calls of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Calls {
    /// The calls that ended, in journal order.
    ended: Vec<EndedCall>,
    /// The number of the start entry of each call that has not ended.
    started: BTreeMap<EffectId, u64>,
    /// The calls that ended without a reliable result.
    cut_off: BTreeSet<EffectId>,
}

/// A call that ended, with the numbers of its first and its last journal entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EndedCall {
    pub(super) effect: EffectId,
    pub(super) first: u64,
    pub(super) last: u64,
    changes: Vec<StateChange>,
}

/// A journal entry that starts or ends a call.
pub(crate) struct CallEntry {
    effect: EffectId,
    seq: u64,
    /// `None` for the start of the call.
    end: Option<CallEnd>,
}

struct CallEnd {
    was_cut_off: bool,
    changes: Vec<StateChange>,
}

impl CallEntry {
    /// Reads an entry; `None` if it neither starts nor ends a call.
    pub(crate) fn new(entry: &Entry) -> Option<Self> {
        let (effect, end) = match &entry.input {
            Input::Run(RunInput::ToolStarted { effect })
            | Input::Agent(AgentInput::ToolStarted { effect }) => (*effect, None),
            Input::Run(RunInput::ToolFinished { effect, result })
            | Input::Agent(AgentInput::ToolFinished { effect, result }) => {
                let end = CallEnd {
                    was_cut_off: was_cut_off(result),
                    changes: result.changes.clone(),
                };
                (*effect, Some(end))
            }
            Input::Run(_) | Input::Agent(_) => return None,
        };
        let seq = entry.seq;
        Some(CallEntry { effect, seq, end })
    }
}

impl Calls {
    /// Collects the calls of journal entries.
    pub(super) fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut calls = Calls::default();
        for entry in entries {
            if let Some(entry) = CallEntry::new(entry) {
                calls.record(entry);
            }
        }
        calls
    }

    /// Records the start or the end of a call. Ignores results of calls that have no start entry: delegations have none, and their results
    /// repeat the changes of the agents that they started.
    pub(crate) fn record(&mut self, entry: CallEntry) {
        let CallEntry { effect, seq, end } = entry;
        let Some(end) = end else {
            self.started.insert(effect, seq);
            return;
        };
        let Some(first) = self.started.remove(&effect) else {
            return;
        };
        if end.was_cut_off {
            self.cut_off.insert(effect);
        }
        self.ended.push(EndedCall {
            effect,
            first,
            last: seq,
            changes: end.changes,
        });
    }

    /// Returns the calls that started or ended after an entry.
    pub(super) fn after(&self, after: u64) -> BTreeSet<EffectId> {
        let ended = self.ended.iter().filter(|call| call.last > after);
        let ended = ended.map(|call| call.effect);
        ended.chain(self.open(after)).collect()
    }

    /// Returns the calls after an entry that may have made unreported changes.
    pub(super) fn unfinished(&self, after: u64) -> BTreeSet<EffectId> {
        let cut_off = self.ended.iter().filter(|call| call.last > after);
        let cut_off = cut_off
            .map(|call| call.effect)
            .filter(|effect| self.cut_off.contains(effect));
        cut_off.chain(self.open(after)).collect()
    }

    fn open(&self, after: u64) -> impl Iterator<Item = EffectId> {
        let open = self.started.iter().filter(move |(_, first)| **first > after);
        open.map(|(effect, _)| *effect)
    }

    /// Returns the changes of the calls that ended after an entry, in journal order, each with its call.
    pub(super) fn changes(&self, after: u64) -> impl DoubleEndedIterator<Item = (EffectId, &StateChange)> {
        let ended = self.ended.iter().filter(move |call| call.last > after);
        ended.flat_map(|call| call.changes.iter().map(|change| (call.effect, change)))
    }

    /// Returns what changed while the commands that ended after an entry were running, in journal order. Leaves out the changes that file
    /// tools made at the same time. A change that several commands saw, because they ran in parallel, is returned once, with all of
    /// them. Only this function separates the changes of file tools from all others (PAOR-10).
    pub(crate) fn during_commands(&self, after: u64) -> Vec<DuringCommand> {
        let mut seen = Vec::new();
        for call in self.ended.iter().filter(|call| call.last > after) {
            for change in &call.changes {
                let StateChange::ProcessExited { command, files, .. } = change else {
                    continue;
                };
                let others = files
                    .iter()
                    .filter_map(|file| without_file_tools(file, self.concurrent(call)));
                seen.extend(others.map(|change| SeenChange::new(call, command, change)));
            }
        }
        parallel::during_commands(seen)
    }

    fn concurrent(&self, call: &EndedCall) -> impl Iterator<Item = &StateChange> {
        let (effect, first, last) = (call.effect, call.first, call.last);
        let others = self.ended.iter();
        let others =
            others.filter(move |other| other.effect != effect && other.first < last && other.last > first);
        others.flat_map(|other| &other.changes)
    }
}

/// Returns true if the call was stopped (it panicked, was cancelled or timed out) and reported no changes.
fn was_cut_off(result: &ToolResult) -> bool {
    let gave_up = |code: &str| [code::BROKE_DOWN, code::CANCELLED, code::TIMED_OUT].contains(&code);
    match &result.outcome {
        ToolOutcome::Success { .. } => false,
        ToolOutcome::Failure { code, .. } => result.changes.is_empty() && gave_up(code),
    }
}
