//! The plan: a graph of sub-tasks. [`Plan`] is what the planner submits, [`PlanGraph`] the same while it is carried out.

mod error;
mod graph;
mod structure;
mod submit;
mod validate;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use error::{PlanError, TextField};
pub use graph::{PlanGraph, Skipped, SubTaskCounts, SubTaskOutcome, SubTaskState};
pub use submit::plan_schema;
pub use validate::PlanRules;

use crate::id::SubTaskId;

/// What a planner submits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The idea of the plan in a sentence or two; with no sub-tasks, why there are none.
    pub summary: String,
    /// Which guidance of the user's it answers, by the guidance's numbers (PAOR-8).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers_guidance: Vec<u32>,
    /// The sub-tasks, in any order.
    pub subtasks: Vec<SubTask>,
}

/// One node of the plan. JSON: `{"id", "title", "depends_on": [id], "agent", "task"}` or
/// `{"id", "title", "depends_on": [id], "calls": [{"tool", "parameters"}]}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubTask {
    /// Its name within the plan.
    pub id: SubTaskId,
    /// What it is, in a few words, for people.
    pub title: String,
    /// What must have succeeded before it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<SubTaskId>,
    /// Who does what.
    #[serde(flatten)]
    pub work: Work,
}

/// Who does a sub-task (PAOR-5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Work {
    /// A sub-agent, which ends with its findings.
    Agent {
        /// The agent's name.
        agent: String,
        /// Its brief: all that it needs to know.
        task: String,
    },
    /// A sequence of tool calls, one after another; the first that fails ends it.
    Calls {
        /// The calls.
        calls: Vec<PlannedCall>,
    },
}

/// A tool call in a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedCall {
    /// The tool's name.
    pub tool: String,
    /// Its parameters.
    pub parameters: Value,
}
