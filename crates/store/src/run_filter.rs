//! Selects the runs that a list includes. A list is read page by page, newest runs first.

use std::str::FromStr;

use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{ConversationId, RunId};
use dirigent_core::time::Timestamp;
use dirigent_runtime::run_log::RunRecord;
use rusqlite::types::Value;
use serde::{Deserialize, Serialize};

use crate::sql::{conversation_key, integer, run_key};

/// The SQL expression for the reason of a run's end; empty if the run has no reason, or the reason cannot be
/// read.
const REASON: &str = "coalesce(CASE json_valid(status) WHEN 1 THEN status ->> 'reason' END, '')";

/// The default number of runs per page.
const DEFAULT_LIMIT: usize = 100;

/// The state of a run, derived from its record. JSON: the name in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunState {
    /// A live process owns the run.
    Running,
    /// The run has no entries, because its process ended immediately.
    NeverBegan,
    /// The run's process died or was shut down before the run ended.
    Interrupted,
    /// The goal was achieved.
    GoalAchieved,
    /// The run ended at its iteration limit.
    IterationLimit,
    /// The run ended at its time limit.
    TimeLimit,
    /// The run's budget was exhausted.
    BudgetExhausted,
    /// The run is waiting for its user.
    UserRequired,
    /// The run was cancelled.
    Cancelled,
    /// The run failed, or the reason for its end cannot be read.
    Failed,
}

impl RunState {
    /// All states.
    pub const ALL: [RunState; 10] = [
        RunState::Running,
        RunState::NeverBegan,
        RunState::Interrupted,
        RunState::GoalAchieved,
        RunState::IterationLimit,
        RunState::TimeLimit,
        RunState::BudgetExhausted,
        RunState::UserRequired,
        RunState::Cancelled,
        RunState::Failed,
    ];

    /// Returns the state of a run.
    pub fn from_record(record: &RunRecord) -> Self {
        let status = record.status.as_deref();
        let reason = status.and_then(|status| serde_json::from_str(status).ok());
        match (record.owner_pid, reason) {
            (Some(_), _) => RunState::Running,
            // The reason for the run's end cannot be read.
            (None, None) if record.ended_at.is_some() => RunState::Failed,
            (None, None) if record.entries == 0 => RunState::NeverBegan,
            (None, None) => RunState::Interrupted,
            (None, Some(reason)) => RunState::from_end(&reason),
        }
    }

    /// Returns the state of a run that has ended for this reason.
    pub fn from_end(reason: &EndReason) -> Self {
        match reason {
            EndReason::GoalAchieved => RunState::GoalAchieved,
            EndReason::IterationLimit { .. } => RunState::IterationLimit,
            EndReason::TimeLimit => RunState::TimeLimit,
            EndReason::BudgetExhausted { .. } => RunState::BudgetExhausted,
            EndReason::UserRequired => RunState::UserRequired,
            EndReason::Cancelled => RunState::Cancelled,
            EndReason::Failed { .. } => RunState::Failed,
        }
    }

    /// Returns the state's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::NeverBegan => "never_began",
            RunState::Interrupted => "interrupted",
            RunState::GoalAchieved => "goal_achieved",
            RunState::IterationLimit => "iteration_limit",
            RunState::TimeLimit => "time_limit",
            RunState::BudgetExhausted => "budget_exhausted",
            RunState::UserRequired => "user_required",
            RunState::Cancelled => "cancelled",
            RunState::Failed => "failed",
        }
    }

    /// Returns the SQL condition for this state. `is_owned` is the SQL condition that a live process owns the
    /// run.
    fn condition(self, is_owned: &str) -> String {
        match self {
            RunState::Running => is_owned.to_owned(),
            RunState::NeverBegan => format!("ended_at IS NULL AND entries = 0 AND NOT {is_owned}"),
            RunState::Interrupted => format!("ended_at IS NULL AND entries > 0 AND NOT {is_owned}"),
            RunState::Failed => {
                let others = RunState::ALL
                    .into_iter()
                    .filter(|state| *state != RunState::Failed);
                let names: Vec<_> = others.map(|state| format!("'{}'", state.name())).collect();
                let names = names.join(", ");
                format!("ended_at IS NOT NULL AND {REASON} NOT IN ({names}) AND NOT {is_owned}")
            }
            ended => format!("{REASON} = '{}' AND NOT {is_owned}", ended.name()),
        }
    }
}

impl FromStr for RunState {
    type Err = UnknownRunState;

    fn from_str(name: &str) -> Result<Self, UnknownRunState> {
        let found = RunState::ALL.into_iter().find(|state| state.name() == name);
        found.ok_or_else(|| UnknownRunState {
            name: name.to_owned(),
        })
    }
}

/// A string that is not the name of a [`RunState`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a state of runs: use one of {}", RunState::ALL.map(RunState::name).join(", "))]
pub struct UnknownRunState {
    name: String,
}

/// Selects the runs of a list. The default is all runs, 100 per page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct RunFilter {
    states: Vec<RunState>,
    workspace: Option<String>,
    within: Option<String>,
    text: Option<String>,
    conversation: Option<ConversationId>,
    created_after: Option<Timestamp>,
    created_before: Option<Timestamp>,
    ended_after: Option<Timestamp>,
    after: Option<RunId>,
    limit: Option<usize>,
}

impl RunFilter {
    /// Creates the filter that selects all runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects runs in this state. If called several times, selects runs in any of the states.
    pub fn state(mut self, state: RunState) -> Self {
        self.states.push(state);
        self
    }

    /// Selects runs that work in this folder, an absolute path with links resolved.
    pub fn workspace(mut self, folder: impl Into<String>) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    /// Selects runs that work in this folder, an absolute path with links resolved, or in a folder below it.
    pub fn workspace_within(mut self, folder: impl Into<String>) -> Self {
        self.within = Some(folder.into());
        self
    }

    /// Selects runs with this text in their goal. Case-insensitive for ASCII letters.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Selects the turns of a conversation.
    pub fn conversation(mut self, conversation: ConversationId) -> Self {
        self.conversation = Some(conversation);
        self
    }

    /// Selects runs that were created after this time.
    pub fn created_after(mut self, at: Timestamp) -> Self {
        self.created_after = Some(at);
        self
    }

    /// Selects runs that were created before this time.
    pub fn created_before(mut self, at: Timestamp) -> Self {
        self.created_before = Some(at);
        self
    }

    /// Selects runs that have ended, or stopped to wait for their user, after this time.
    pub fn ended_after(mut self, at: Timestamp) -> Self {
        self.ended_after = Some(at);
        self
    }

    /// Begins after this run, which is the last run of the previous page ([`RunPage::next`]).
    pub fn after(mut self, run: impl Into<Option<RunId>>) -> Self {
        self.after = run.into();
        self
    }

    /// Sets the maximum number of runs per page, at least 1.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit.max(1));
        self
    }

    /// Returns the run after which the page begins.
    pub(crate) fn last_known(&self) -> Option<RunId> {
        self.after
    }

    /// Returns the maximum number of runs per page.
    pub(crate) fn page_size(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_LIMIT)
    }

    /// Returns the SQL condition that selects the runs of all pages, with its parameters. `owners` are the
    /// live owners of runs, as a JSON array.
    pub(crate) fn condition(&self, owners: String) -> (String, Vec<Value>) {
        const IS_OWNED: &str =
            "id IN (SELECT run FROM claims WHERE owner IN (SELECT value FROM json_each(?1)))";
        let mut parameters = vec![Value::from(owners)];
        // SQLite refuses parameters that a statement does not use.
        let mut conditions = vec!["json_valid(?1)".to_owned()];
        if !self.states.is_empty() {
            let states: Vec<_> = self
                .states
                .iter()
                .map(|state| format!("({})", state.condition(IS_OWNED)))
                .collect();
            conditions.push(format!("({})", states.join(" OR ")));
        }
        let mut add = |condition: &str, value: Value| {
            parameters.push(value);
            conditions.push(condition.replace("??", &format!("?{}", parameters.len())));
        };
        if let Some(workspace) = &self.workspace {
            add("workspace = ??", workspace.clone().into());
        }
        if let Some(folder) = &self.within {
            add(
                "(workspace = ?? OR substr(workspace, 1, length(??) + 1) = ?? || '/')",
                folder.clone().into(),
            );
        }
        if let Some(text) = &self.text {
            add("instr(lower(goal), lower(??)) > 0", text.clone().into());
        }
        if let Some(conversation) = self.conversation {
            add(
                "entries > 0 AND conversation = ??",
                conversation_key(conversation).into(),
            );
        }
        if let Some(at) = self.created_after {
            add("created_at > ??", integer(at.0).into());
        }
        if let Some(at) = self.created_before {
            add("created_at < ??", integer(at.0).into());
        }
        if let Some(at) = self.ended_after {
            add("ended_at > ??", integer(at.0).into());
        }
        (conditions.join(" AND "), parameters)
    }

    /// Returns the SQL condition for the runs of this page and the later pages. `None` for the first page.
    pub(crate) fn page_condition(&self, parameters: &mut Vec<Value>) -> Option<String> {
        parameters.push(run_key(self.after?).into());
        let index = parameters.len();
        Some(format!(
            "(created_at, id) < (SELECT created_at, id FROM runs WHERE run = ?{index})"
        ))
    }
}

/// A page of a list of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    /// The runs, newest first.
    pub runs: Vec<RunRecord>,
    /// The number of runs on all pages.
    pub total: u64,
    /// The run after which the next page begins ([`RunFilter::after`]); `None` if this is the last page.
    pub next: Option<RunId>,
}
