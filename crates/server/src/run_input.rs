//! What requests say about runs that start, resume or are forked.

use std::path::PathBuf;

use dirigent::{
    Dirigent, Goal, LimitSettings as _, Mode, RunLimitSettings, RunLimits, UserPresence, WhenShared,
    set_limit,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::problem::Problem;

/// Whether somebody answers the questions of a run and decides about its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum User {
    /// The run waits.
    #[default]
    Present,
    /// The run stops once only the user can let it continue, and can be resumed.
    Absent,
}

impl From<User> for UserPresence {
    fn from(user: User) -> Self {
        match user {
            User::Present => UserPresence::Present,
            User::Absent => UserPresence::Absent,
        }
    }
}

/// The folder in which a run works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Location {
    /// The workspace itself.
    #[default]
    Workspace,
    /// A new git worktree of the workspace's repository.
    Worktree,
}

/// What happens if other active runs work in the folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sharing {
    #[default]
    GoOn,
    Refuse,
}

/// The body of `POST /v1/runs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRun {
    goal: String,
    workspace: Option<PathBuf>,
    #[serde(default)]
    mode: Mode,
    model: Option<String>,
    system_prompt: Option<String>,
    #[serde(default)]
    limits: Map<String, Value>,
    #[serde(default)]
    user: User,
    #[serde(default)]
    location: Location,
    #[serde(default)]
    when_shared: Sharing,
}

impl NewRun {
    /// Returns the goal, and notes about the files that its text mentions.
    pub(crate) async fn goal(
        self,
        dirigent: &Dirigent,
        default_workspace: &std::path::Path,
    ) -> Result<(Goal, Vec<String>), Problem> {
        let workspace = workspace(self.workspace, default_workspace)?;
        let mut goal = Goal::new(self.goal)
            .workspace(workspace)
            .mode(self.mode)
            .user(self.user.into())
            .when_shared(match self.when_shared {
                Sharing::GoOn => WhenShared::GoOn,
                Sharing::Refuse => WhenShared::Refuse,
            });
        if let Some(model) = self.model {
            goal = goal.default_model(model);
        }
        if let Some(name) = self.system_prompt {
            goal = goal.system_prompt(name);
        }
        if !self.limits.is_empty() {
            goal = goal.limits(limits(&self.limits, dirigent.default_limits())?);
        }
        if self.location == Location::Worktree {
            goal = goal.in_worktree();
        }
        Ok(goal.include_files().await?)
    }
}

/// Returns the folder that a request names, or the default one.
pub(crate) fn workspace(named: Option<PathBuf>, default: &std::path::Path) -> Result<PathBuf, Problem> {
    match named {
        None => Ok(default.to_owned()),
        Some(folder) if folder.is_absolute() => Ok(folder),
        Some(folder) => Err(Problem::invalid(format!(
            "`workspace` is invalid: {} is not an absolute path",
            folder.display()
        ))),
    }
}

/// The body of `POST /v1/runs/{run}/resume`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeInput {
    pub(crate) answer: Option<String>,
    #[serde(default)]
    pub(crate) limits: Map<String, Value>,
    #[serde(default)]
    pub(crate) user: User,
}

/// The body of `POST /v1/runs/{run}/fork`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkInput {
    pub(crate) at: Option<u64>,
    pub(crate) guidance: Option<String>,
    #[serde(default)]
    pub(crate) user: User,
}

/// Returns the limits with those that a request sets, in the form of the configuration: `{"max_iterations": 3, "timeout": "10m", "max_cost": 2.5}`.
pub(crate) fn limits(set: &Map<String, Value>, defaults: RunLimits) -> Result<RunLimits, Problem> {
    let mut settings = RunLimitSettings::default();
    for (name, value) in set {
        let limit = RunLimitSettings::ALL.iter().find(|limit| limit.name == name);
        let Some(limit) = limit else {
            let known: Vec<&str> = RunLimitSettings::ALL.iter().map(|limit| limit.name).collect();
            return Err(Problem::invalid(format!(
                "`limits.{name}` is invalid: there is no such limit; there are {}",
                known.join(", ")
            )));
        };
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        set_limit(limit, &mut settings, &text)
            .map_err(|problem| Problem::invalid(format!("`limits.{name}` {problem}")))?;
    }
    Ok(settings.unwrap_or(defaults))
}
