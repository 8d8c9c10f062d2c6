//! The arguments of the tools. Their comments are the descriptions that the calling model reads.

use std::path::PathBuf;

use dirigent::{LimitSetting, LimitSettings as _, RunLimitSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::problem::Problem;
use crate::steering;

/// The largest number of runs of a page.
pub(crate) const MAX_PAGE: usize = 100;
/// The longest time to wait for a run, in seconds.
pub(crate) const MAX_WAIT: u32 = 3_600;

/// Reads the arguments of a call, and says which one is wrong.
pub(crate) fn parse<T: DeserializeOwned>(arguments: Option<Map<String, Value>>) -> Result<T, Problem> {
    let arguments = Value::Object(arguments.unwrap_or_default());
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let place = match error.path().to_string().as_str() {
            "." => "the arguments are".to_owned(),
            path => format!("`{path}` is"),
        };
        Problem::invalid(format!("{place} invalid: {}", error.into_inner()))
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartGoal {
    /// What to achieve, complete in itself: Dirigent's agents do not see this conversation. Files that it mentions as `@path` are included.
    pub(crate) goal: String,
    /// The folder to work in. Leave it out for the folder of the server.
    #[schemars(with = "Option<String>")]
    pub(crate) workspace: Option<PathBuf>,
    /// `auto`: agents act at once. `plan`: the plan is shown to the user, and nothing is changed until they approve it.
    #[serde(default)]
    pub(crate) mode: GoalMode,
    /// The default model of the run's agents: a name of the configuration, `offline`, or `PROVIDER/NAME`. Leave it out unless the user named one.
    pub(crate) model: Option<String>,
    /// Limits of the run. Those that are left out are those of the configuration.
    #[serde(default)]
    #[schemars(schema_with = "limits_schema")]
    pub(crate) limits: Map<String, Value>,
}

/// What the agents may do before the user has seen a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GoalMode {
    #[default]
    Auto,
    Plan,
}

/// The limits of runs by their names, each with its help text.
fn limits_schema(_: &mut SchemaGenerator) -> Schema {
    let properties: Map<String, Value> = RunLimitSettings::ALL
        .iter()
        .map(|limit| {
            let kind = match limit.setting {
                LimitSetting::Count(_) | LimitSetting::Tokens(_) => "integer",
                LimitSetting::Time(_) | LimitSetting::Money(_) => "string",
            };
            let schema = json!({"type": kind, "description": limit.help});
            (limit.name.to_owned(), schema)
        })
        .collect();
    json_schema!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "description": "Limits of the run, such as {\"max_iterations\": 5, \"timeout\": \"20m\", \"max_cost\": \"2.50\"}. Those that are left out are those of the configuration.",
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitRun {
    /// The run: its id, at least four digits of its beginning or end, or `last`.
    pub(crate) run: String,
    /// How long to wait at most, in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 0, max = MAX_WAIT))]
    pub(crate) timeout: u32,
}

/// The default time to wait, in seconds. Many clients end a call after a minute.
fn default_timeout() -> u32 {
    50
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneRun {
    /// The run: its id, at least four digits of its beginning or end, or `last`.
    pub(crate) run: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuideRun {
    /// The run: its id, at least four digits of its beginning or end, or `last`.
    pub(crate) run: String,
    /// What the next plan has to take into account.
    pub(crate) guidance: String,
    /// `next_plan`: with the next plan. `now`: the current work is stopped, and the run plans again at once.
    #[serde(default)]
    pub(crate) when: GuidanceTime,
}

/// When guidance takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuidanceTime {
    #[default]
    NextPlan,
    Now,
}

impl From<GuidanceTime> for steering::GuidanceTime {
    fn from(when: GuidanceTime) -> Self {
        match when {
            GuidanceTime::NextPlan => steering::GuidanceTime::NextPlan,
            GuidanceTime::Now => steering::GuidanceTime::Now,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerRun {
    /// The run: its id, at least four digits of its beginning or end, or `last`.
    pub(crate) run: String,
    /// The user's answer: text, or the number of a choice, counted from 1.
    pub(crate) answer: String,
    /// The id of the question. Needed only if several questions are open.
    pub(crate) question: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListRuns {
    /// Only runs in these states.
    #[serde(default)]
    #[schemars(schema_with = "states_schema")]
    pub(crate) states: Vec<String>,
    /// Only runs whose goal contains this text.
    pub(crate) query: Option<String>,
    /// The number of runs, newest first.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = MAX_PAGE))]
    pub(crate) limit: usize,
    /// The value of `next` of the page before.
    pub(crate) after: Option<String>,
}

fn default_limit() -> usize {
    20
}

fn states_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {"type": "string", "enum": dirigent::RunState::ALL.map(dirigent::RunState::name)},
        "description": "Only runs in these states.",
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecideCall {
    /// The run: its id, at least four digits of its beginning or end, or `last`.
    pub(crate) run: String,
    /// The id of the call that waits for approval.
    pub(crate) call: String,
    /// The digest of the call as you have seen it. If the call has changed since, the decision is refused.
    pub(crate) digest: String,
    /// `approve` runs the call as shown; `edit` with other `parameters`; `reject` ends the agent that wants to make it; `guide` does not run it, and gives `guidance` to
    /// the agent.
    pub(crate) decision: DecisionKind,
    /// All new parameters, for `edit`.
    pub(crate) parameters: Option<Value>,
    /// What the agent is to do instead, for `guide`.
    pub(crate) guidance: Option<String>,
    /// Why, for `reject`.
    pub(crate) reason: Option<String>,
}

/// The decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DecisionKind {
    Approve,
    Edit,
    Reject,
    Guide,
}
