//! What a planner submits: the schema it is shown, and reading what it sent. Whether the plan makes sense is for
//! [`Plan::validation_errors`] to say.

use serde_json::{Map, Value, json};

use super::{Plan, PlannedCall, SubTask, Work};
use crate::id::SubTaskId;
use crate::name::{json_type, nearest, quoted, quoted_list};

/// The JSON Schema (2020-12) of the parameters of [`super::SUBMIT_PLAN`]. It has no `oneOf`, which small models and constrained
/// decoders handle badly: that a sub-task has either an agent or calls is said in words and checked by
/// [`Plan::from_parameters`].
pub fn plan_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "summary": {
                "type": "string",
                "description": "The idea of the plan in a sentence or two. Without sub-tasks: why there are none."
            },
            "answers_guidance": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
                "description": "The numbers of the user's guidance that this plan answers, as GUIDANCE has them; none without guidance."
            },
            "subtasks": {
                "type": "array",
                "description": "The sub-tasks. Those that do not depend on each other run at the same time.",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "description": "A short name of its own, such as edit-parser."},
                        "title": {"type": "string", "description": "What it is, in a few words."},
                        "depends_on": {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": "The ids of the sub-tasks that must succeed before it starts."
                        },
                        "agent": {
                            "type": "string",
                            "description": "The name of the agent that does it. Give agent and task, or else calls."
                        },
                        "task": {
                            "type": "string",
                            "description": "With agent: all that the agent needs to know. It sees nothing else."
                        },
                        "calls": {
                            "type": "array",
                            "description": "Instead of agent and task: tool calls, run one after another.",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "tool": {"type": "string", "description": "The tool's name."},
                                    "parameters": {"type": "object", "description": "The tool's parameters."}
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

/// How many problems an error names.
const SHOWN: usize = 20;

impl Plan {
    /// Reads the parameters of a `submit_plan`. An optional field that is `null` counts as left out, and so does an empty
    /// `calls` beside an agent. The error names every field that is wrong by its path, for the planner.
    pub fn from_parameters(parameters: &Value) -> Result<Plan, String> {
        let mut reader = PlanParser::default();
        let plan = reader.plan(parameters);
        let problems = reader.problems;
        match plan {
            Some(plan) if problems.is_empty() => Ok(plan),
            Some(_) | None => {
                let more = problems.len().saturating_sub(SHOWN);
                let mut text = problems.into_iter().take(SHOWN).collect::<Vec<_>>().join("; ");
                if more > 0 {
                    text.push_str(&format!("; and {more} more"));
                }
                Err(text)
            }
        }
    }
}

/// Reads on after a problem, so that all of them are found. A `None` has always left a problem.
#[derive(Default)]
struct PlanParser {
    problems: Vec<String>,
}

impl PlanParser {
    fn plan(&mut self, value: &Value) -> Option<Plan> {
        let object = self.object(value, "")?;
        self.known_fields(object, "", &["summary", "answers_guidance", "subtasks"]);
        let summary = self.text(object, "", "summary");
        let answers_guidance = self.list(object, "", "answers_guidance", |reader, value, path| {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            number.or_else(|| reader.wrong(path, "must be a whole number from 0 on", value))
        });
        if absent(object, "subtasks") {
            self.problems
                .push("`subtasks` is missing: give a list, empty if there is nothing to do".to_owned());
        }
        let subtasks = self.list(object, "", "subtasks", Self::subtask);
        Some(Plan {
            summary: summary?,
            answers_guidance: answers_guidance?,
            subtasks: subtasks?,
        })
    }

    fn subtask(&mut self, value: &Value, path: &str) -> Option<SubTask> {
        let object = self.object(value, path)?;
        self.known_fields(
            object,
            path,
            &["id", "title", "depends_on", "agent", "task", "calls"],
        );
        let id = self.text(object, path, "id");
        let title = self.text(object, path, "title");
        let depends_on = self.list(object, path, "depends_on", |reader, value, path| match value {
            Value::String(id) => Some(SubTaskId(id.clone())),
            _ => reader.wrong(path, "must be the id of a sub-task, a string", value),
        });
        let work = self.work(object, path);
        Some(SubTask {
            id: SubTaskId(id?),
            title: title?,
            depends_on: depends_on?,
            work: work?,
        })
    }

    fn work(&mut self, object: &Map<String, Value>, path: &str) -> Option<Work> {
        let for_agent = !absent(object, "agent") || !absent(object, "task");
        let no_calls = absent(object, "calls")
            || for_agent
                && object
                    .get("calls")
                    .and_then(Value::as_array)
                    .is_some_and(Vec::is_empty);
        match (for_agent, no_calls) {
            (true, true) => {
                let agent = self.text(object, path, "agent");
                let task = self.text(object, path, "task");
                Some(Work::Agent {
                    agent: agent?,
                    task: task?,
                })
            }
            (false, false) => Some(Work::Calls {
                calls: self.list(object, path, "calls", Self::call)?,
            }),
            (true, false) => {
                self.problems.push(format!(
                    "`{path}` has both `agent` or `task` and `calls`: keep `agent` and `task`, or keep `calls`"
                ));
                None
            }
            (false, true) => {
                self.problems.push(format!(
                    "`{path}` says nothing to do: give it `agent` and `task`, or give it `calls`"
                ));
                None
            }
        }
    }

    fn call(&mut self, value: &Value, path: &str) -> Option<PlannedCall> {
        let object = self.object(value, path)?;
        self.known_fields(object, path, &["tool", "parameters"]);
        let tool = self.text(object, path, "tool");
        let at = join(path, "parameters");
        let parameters = match object.get("parameters") {
            Some(parameters @ Value::Object(_)) => Some(parameters.clone()),
            Some(other) => self.wrong(&at, "must be an object", other),
            None => {
                self.problems.push(format!(
                    "`{at}` is missing: give the tool's parameters as an object, `{{}}` for none"
                ));
                None
            }
        };
        Some(PlannedCall {
            tool: tool?,
            parameters: parameters?,
        })
    }

    fn object<'v>(&mut self, value: &'v Value, path: &str) -> Option<&'v Map<String, Value>> {
        let path = if path.is_empty() { "parameters" } else { path };
        value
            .as_object()
            .or_else(|| self.wrong(path, "must be an object", value))
    }

    fn text(&mut self, object: &Map<String, Value>, path: &str, field: &str) -> Option<String> {
        let at = join(path, field);
        match object.get(field) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Null) | None => {
                self.problems
                    .push(format!("`{at}` is missing: it must be a string"));
                None
            }
            Some(other) => self.wrong(&at, "must be a string", other),
        }
    }

    /// The items that can be read; `None` if any cannot.
    fn list<T>(
        &mut self,
        object: &Map<String, Value>,
        path: &str,
        field: &str,
        mut item: impl FnMut(&mut Self, &Value, &str) -> Option<T>,
    ) -> Option<Vec<T>> {
        let at = join(path, field);
        match object.get(field) {
            Some(Value::Array(items)) => {
                let read: Vec<Option<T>> = items
                    .iter()
                    .enumerate()
                    .map(|(index, value)| item(self, value, &format!("{at}[{index}]")))
                    .collect();
                read.into_iter().collect()
            }
            Some(Value::Null) | None => Some(Vec::new()),
            Some(other) => self.wrong(&at, "must be a list", other),
        }
    }

    fn known_fields(&mut self, object: &Map<String, Value>, path: &str, known: &[&str]) {
        for field in object.keys().filter(|field| !known.contains(&field.as_str())) {
            let owner = if path.is_empty() {
                String::new()
            } else {
                format!("`{path}`: ")
            };
            let hint = match nearest(field, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("the fields are {}", quoted_list(known.iter().copied())),
            };
            self.problems
                .push(format!("{owner}there is no field {}: {hint}", quoted(field)));
        }
    }

    fn wrong<T>(&mut self, path: &str, rule: &str, value: &Value) -> Option<T> {
        self.problems
            .push(format!("`{path}` {rule}, and is {}", json_type(value)));
        None
    }
}

fn absent(object: &Map<String, Value>, field: &str) -> bool {
    object.get(field).is_none_or(Value::is_null)
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}
