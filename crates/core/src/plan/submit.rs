//! The parameters of `submit_plan`: their schema, and their conversion to a [`Plan`]. [`Plan::validate`] checks the plan itself.

use serde::Deserialize;
use serde_json::{Value, json};

use super::draft::PlanDraft;
use super::{Plan, PlanRules, PlannedCall, SubTask, Work};
use crate::id::SubTaskId;

/// Returns the JSON Schema (2020-12) of the parameters of [`SUBMIT_PLAN`](crate::call::SUBMIT_PLAN).
///
/// Each sub-task has either an agent or calls. The schema states this only in descriptions, and [`Plan::from_parameters`] checks it,
/// because small models and constrained decoders handle `oneOf` badly.
pub fn plan_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "summary": {
                "type": "string",
                "description": "The idea of the plan."
            },
            "answers_guidance": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
                "description": "The numbers of the GUIDANCE that the plan takes into account."
            },
            "subtasks": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "title": {"type": "string"},
                        "depends_on": {
                            "type": "array",
                            "items": {"type": "string"}
                        },
                        "may_fail": {
                            "type": "boolean",
                            "description": "What depends on it starts even if it fails, as for a baseline check."
                        },
                        "agent": {
                            "type": "string",
                            "description": "Either `agent` and `task`, or `calls`."
                        },
                        "task": {
                            "type": "string",
                            "description": "It sees only this, the goal, the guidance and the findings of what it depends on."
                        },
                        "calls": {
                            "type": "array",
                            "description": "Run in this order, until one fails.",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "tool": {"type": "string"},
                                    "parameters": {"type": "object"}
                                },
                                "required": ["tool", "parameters"],
                                "additionalProperties": false
                            }
                        }
                    },
                    "required": ["id", "title"],
                    "additionalProperties": false
                }
            }
        },
        "required": ["summary", "subtasks"],
        "additionalProperties": false
    })
}

/// A plan in the form in which a model submits it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubmittedPlan {
    summary: String,
    #[serde(default)]
    answers_guidance: Vec<u32>,
    subtasks: Vec<SubmittedSubTask>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmittedSubTask {
    id: SubTaskId,
    title: String,
    #[serde(default)]
    depends_on: Vec<SubTaskId>,
    #[serde(default)]
    may_fail: bool,
    agent: Option<String>,
    task: Option<String>,
    calls: Option<Vec<PlannedCall>>,
}

impl Plan {
    /// Parses parameters that conform to [`plan_schema`].
    ///
    /// # Errors
    /// Returns a message that names each sub-task that does not have either both `agent` and `task`, or `calls`. An empty `calls`
    /// list next to an agent or a task is ignored.
    pub fn from_parameters(parameters: &Value) -> Result<Plan, String> {
        let submitted = SubmittedPlan::deserialize(parameters).map_err(|error| error.to_string())?;
        let (mut subtasks, mut errors) = (Vec::new(), Vec::new());
        for (index, subtask) in submitted.subtasks.into_iter().enumerate() {
            match subtask.read() {
                Ok(subtask) => subtasks.push(subtask),
                Err(error) => errors.push(format!("`subtasks[{index}]` {error}")),
            }
        }
        if !errors.is_empty() {
            return Err(errors.join("; "));
        }
        Ok(Plan {
            summary: submitted.summary,
            answers_guidance: submitted.answers_guidance,
            subtasks,
        })
    }
}

/// Returns the errors in parameters from which no plan can be read, except errors that the schema finds: sub-tasks without work, and the
/// errors that [`Plan::validate`] finds in the readable parts.
pub(crate) fn errors_of_unreadable(parameters: &Value, rules: &PlanRules<'_>) -> Vec<String> {
    PlanDraft::read(parameters).errors(rules)
}

impl SubmittedSubTask {
    /// Returns the sub-task, or why it has neither an agent with a task nor calls.
    pub(super) fn read(self) -> Result<SubTask, &'static str> {
        let is_for_agent = self.agent.is_some() || self.task.is_some();
        let calls = self.calls.filter(|calls| !(is_for_agent && calls.is_empty()));
        let work = match (self.agent, self.task, calls) {
            (Some(agent), Some(task), None) => Work::Agent { agent, task },
            (None, None, Some(calls)) => Work::Calls { calls },
            (Some(_), None, None) => {
                return Err("has an `agent` but no `task`: describe the task of the agent");
            }
            (None, Some(_), None) => return Err("has a `task` but no `agent`: add the agent for the task"),
            (None, None, None) => {
                return Err("has no work: set `agent` and `task`, or set `calls`");
            }
            (Some(_), _, Some(_)) | (None, Some(_), Some(_)) => {
                return Err(
                    "has `calls` as well as `agent` or `task`: keep either `calls`, or `agent` and `task`",
                );
            }
        };
        Ok(SubTask {
            id: self.id,
            title: self.title,
            depends_on: self.depends_on,
            may_fail: self.may_fail,
            work,
        })
    }
}
