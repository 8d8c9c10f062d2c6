//! What requests say about runs that start, resume or are forked.

use std::path::PathBuf;

use dirigent::workflows::UserRequest;
use dirigent::{Goal, Mode, UserPresence, WhenShared};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::limits::limits;
use crate::private_files::workspace;
use crate::problem::Problem;
use crate::requested_goal::requested_goal;
use crate::schemas;
use crate::service::Service;

/// Whether somebody answers the questions of a run and decides about its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Location {
    /// The workspace itself.
    #[default]
    Workspace,
    /// A new git worktree of the workspace's repository.
    Worktree,
}

/// What happens if other active runs work in the folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sharing {
    /// The run starts all the same.
    #[default]
    GoOn,
    /// The run is not started.
    Refuse,
}

/// The body of `POST /v1/runs`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRun {
    /// What to achieve, or the invocation of a workflow, such as `/create_project my-app`. Files that it mentions as `@path` are included.
    goal: String,
    /// Absolute path of the folder; that of the server if absent.
    #[schema(value_type = Option<String>)]
    workspace: Option<PathBuf>,
    /// The mode.
    #[serde(default)]
    #[schema(value_type = Option<schemas::Mode>)]
    mode: Mode,
    /// The default model: a name from `[models.NAME]`, `offline`, or `PROVIDER/NAME`.
    model: Option<String>,
    /// The name of a base system prompt.
    system_prompt: Option<String>,
    /// Limits of the run by their names, such as `{"max_iterations": 5, "timeout": "20m", "max_cost": "2.50"}`; the others are those of the configuration. A text is in the form of the configuration: a time, or US dollars. A number is in milliseconds, or in nano-dollars.
    #[serde(default)]
    #[schema(value_type = Object)]
    limits: Map<String, Value>,
    /// Whether somebody answers its questions.
    #[serde(default)]
    user: User,
    /// Where it works.
    #[serde(default)]
    location: Location,
    /// What happens if other runs work in the folder.
    #[serde(default)]
    when_shared: Sharing,
}

impl NewRun {
    /// Returns the goal, and notes about the files that its text mentions.
    pub(crate) async fn goal(self, service: &Service) -> Result<(Goal, Vec<String>), Problem> {
        let workspace = workspace(service, self.workspace).await?;
        let options = RunOptions {
            mode: self.mode,
            model: self.model,
            system_prompt: self.system_prompt,
            limits: self.limits,
            user: self.user,
            location: self.location,
            when_shared: self.when_shared,
        };
        let request = UserRequest::Text(&self.goal);
        let goal = requested_goal(service, request, &workspace).await?;
        options.apply(service, goal.workspace(workspace)).await
    }
}

/// The body of `POST /v1/workflows/{name}/runs`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewWorkflowRun {
    /// The values of the workflow's parameters, by name.
    #[serde(default)]
    #[schema(value_type = Object)]
    parameters: Map<String, Value>,
    /// Absolute path of the folder; that of the server if absent.
    #[schema(value_type = Option<String>)]
    workspace: Option<PathBuf>,
    /// The mode.
    #[serde(default)]
    #[schema(value_type = Option<schemas::Mode>)]
    mode: Mode,
    /// The default model: a name from `[models.NAME]`, `offline`, or `PROVIDER/NAME`.
    model: Option<String>,
    /// The name of a base system prompt.
    system_prompt: Option<String>,
    /// Limits of the run by their names, such as `{"max_iterations": 5, "timeout": "20m", "max_cost": "2.50"}`; the others are those of the configuration. A text is in the form of the configuration: a time, or US dollars. A number is in milliseconds, or in nano-dollars.
    #[serde(default)]
    #[schema(value_type = Object)]
    limits: Map<String, Value>,
    /// Whether somebody answers its questions.
    #[serde(default)]
    user: User,
    /// Where it works.
    #[serde(default)]
    location: Location,
    /// What happens if other runs work in the folder.
    #[serde(default)]
    when_shared: Sharing,
}

impl NewWorkflowRun {
    /// Returns the goal, and notes about the files that its text mentions.
    pub(crate) async fn goal(self, service: &Service, name: &str) -> Result<(Goal, Vec<String>), Problem> {
        let workspace = workspace(service, self.workspace).await?;
        let options = RunOptions {
            mode: self.mode,
            model: self.model,
            system_prompt: self.system_prompt,
            limits: self.limits,
            user: self.user,
            location: self.location,
            when_shared: self.when_shared,
        };
        let values = parameter_values(self.parameters)?;
        let request = UserRequest::Values {
            name,
            values: &values,
        };
        let goal = requested_goal(service, request, &workspace).await?;
        options.apply(service, goal.workspace(workspace)).await
    }
}

/// The values of parameters as text, in which form they are checked.
fn parameter_values(parameters: Map<String, Value>) -> Result<Vec<(String, String)>, Problem> {
    let values = parameters.into_iter().map(|(name, value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Bool(_) | Value::Number(_) => Ok((name, value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(Problem::invalid(format!(
            "`parameters.{name}` is invalid: it must be a text, a number or a boolean"
        ))),
    });
    values.collect()
}

/// How a run works on its goal.
struct RunOptions {
    mode: Mode,
    model: Option<String>,
    system_prompt: Option<String>,
    limits: Map<String, Value>,
    user: User,
    location: Location,
    when_shared: Sharing,
}

impl RunOptions {
    /// Returns the goal with the options, and notes about the files that its text mentions.
    async fn apply(self, service: &Service, goal: Goal) -> Result<(Goal, Vec<String>), Problem> {
        let mut goal = goal.user(self.user.into()).when_shared(match self.when_shared {
            Sharing::GoOn => WhenShared::GoOn,
            Sharing::Refuse => WhenShared::Refuse,
        });
        // A workflow may restrict the lead further than the request does.
        if !self.mode.is_auto() {
            goal = goal.mode(self.mode);
        }
        if let Some(model) = self.model {
            goal = goal.default_model(model);
        }
        if let Some(name) = self.system_prompt {
            goal = goal.system_prompt(name);
        }
        if !self.limits.is_empty() {
            goal = goal.limits(limits(&self.limits, service.dirigent.default_limits())?);
        }
        if self.location == Location::Worktree {
            goal = goal.in_worktree();
        }
        Ok(goal.include_files().await?)
    }
}

/// The body of `POST /v1/runs/{run}/resume`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeInput {
    /// The answer to the question with which the run stopped.
    pub(crate) answer: Option<String>,
    /// New limits by their names, in the same form as for a new run.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub(crate) limits: Map<String, Value>,
    /// Whether somebody answers its questions.
    #[serde(default)]
    pub(crate) user: User,
}

/// The body of `POST /v1/runs/{run}/fork`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkInput {
    /// The number of journal entries that both runs share; all before the end if absent.
    pub(crate) at: Option<u64>,
    /// What the new run is to do differently.
    pub(crate) guidance: Option<String>,
    /// Whether somebody answers its questions.
    #[serde(default)]
    pub(crate) user: User,
}
