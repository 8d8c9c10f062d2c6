//! Plans: graphs of sub-tasks. The lead submits a [`Plan`]; [`PlanGraph`] tracks its execution.

mod draft;
mod error;
mod graph;
mod structure;
mod submit;
mod validate;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use error::{PlanError, TextField};
pub use graph::{PlanGraph, Skipped, SubTaskCounts, SubTaskOutcome, SubTaskState};
pub(crate) use submit::errors_of_unreadable;
pub use submit::plan_schema;
pub use validate::PlanRules;

use crate::id::SubTaskId;

/// The id of the observation of the lead's own work (LEAD-3). No sub-task of a plan may have this id.
pub const LEAD: &str = "lead";

/// A plan as the lead submits it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The idea of the plan in one or two sentences. For a plan without sub-tasks: the reason why there are none.
    pub summary: String,
    /// Numbers of the guidance entries that the plan takes into account (PAOR-8).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers_guidance: Vec<u32>,
    /// The sub-tasks, in any order.
    pub subtasks: Vec<SubTask>,
}

/// A sub-task: a node of the plan's graph. JSON: `{"id", "title", "depends_on": [id], "agent", "task"}` or
/// `{"id", "title", "depends_on": [id], "calls": [{"tool", "parameters"}]}`, both with `"may_fail": true` if the sub-task may fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubTask {
    /// The id, which is unique within the plan.
    pub id: SubTaskId,
    /// A short description for the user.
    pub title: String,
    /// The sub-tasks that must be done before this sub-task starts: succeeded, or ended in any way if they may fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<SubTaskId>,
    /// True for a check that may fail, such as a baseline: its dependents start however it ends, and see the result.
    /// They are skipped only if the user stops the sub-task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_fail: bool,
    /// The work to do.
    #[serde(flatten)]
    pub work: Work,
}

/// The work of a sub-task (PAOR-5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Work {
    /// A task for a sub-agent, which ends with its findings.
    Agent {
        /// The agent's name.
        agent: String,
        /// The task, including everything that the agent needs to know.
        task: String,
    },
    /// Tool calls, executed in sequence until one fails.
    Calls {
        /// The calls, in order.
        calls: Vec<PlannedCall>,
    },
}

/// A tool call in a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedCall {
    /// The tool's name.
    pub tool: String,
    /// The parameters, as a JSON object. Omitted in prompts that show them elsewhere.
    #[serde(default)]
    pub parameters: Value,
}
