//! The readable parts of a submitted plan that cannot be read as a whole. They are validated as well, so that the lead learns of all errors
//! at once (PAOR-4).

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::PlanError;
use super::submit::SubmittedSubTask;
use super::validate::call_error;
use super::{Plan, PlanRules, PlannedCall, SubTask, Work};
use crate::id::SubTaskId;

/// The readable parts of a submitted plan. Contains one sub-task for each submitted sub-task, even for an invalid one.
pub(super) struct PlanDraft {
    plan: Plan,
    /// Errors about sub-tasks that have neither an agent with a task nor calls. The schema does not express this rule.
    errors: Vec<String>,
    /// The indices of the sub-tasks whose work cannot be read.
    without_work: BTreeSet<usize>,
    /// The readable calls of the sub-tasks in `without_work`, each with its index in the sub-task.
    calls: Vec<(SubTaskId, usize, PlannedCall)>,
    /// True if each sub-task has an id.
    has_all_ids: bool,
}

impl PlanDraft {
    pub(super) fn read(parameters: &Value) -> PlanDraft {
        let text = |field: &str| parameters[field].as_str().unwrap_or_default().to_owned();
        let numbers = parameters["answers_guidance"].as_array().into_iter().flatten();
        let mut draft = PlanDraft {
            plan: Plan {
                summary: text("summary"),
                answers_guidance: numbers
                    .filter_map(|number| u32::deserialize(number).ok())
                    .collect(),
                subtasks: Vec::new(),
            },
            errors: Vec::new(),
            without_work: BTreeSet::new(),
            calls: Vec::new(),
            has_all_ids: true,
        };
        let subtasks = parameters["subtasks"].as_array().into_iter().flatten();
        for (index, submitted) in subtasks.enumerate() {
            draft.add(index, submitted);
        }
        draft
    }

    fn add(&mut self, index: usize, submitted: &Value) {
        let fields = without_nulls(submitted);
        let text = |field: &str| fields.get(field).and_then(Value::as_str).map(str::to_owned);
        let listed = |field: &str| {
            let items = fields.get(field).and_then(Value::as_array);
            items.map_or(&[][..], Vec::as_slice)
        };
        let id = text("id");
        self.has_all_ids &= id.is_some();
        let place = format!("subtasks[{index}]");
        let id = SubTaskId(id.unwrap_or_else(|| place.clone()));
        let has_parameters = listed("calls").iter().all(|call| call["parameters"].is_object());
        let work = match SubmittedSubTask::deserialize(Value::Object(fields.clone())) {
            Ok(_) if !has_parameters => None,
            Ok(subtask) => match subtask.read() {
                Ok(subtask) => Some(subtask.work),
                Err(error) => {
                    self.errors.push(format!("`{place}` {error}"));
                    None
                }
            },
            Err(_) => None,
        };
        if work.is_none() {
            self.without_work.insert(index);
            let calls = listed("calls").iter().enumerate();
            let readable = calls.filter_map(|(call, submitted)| {
                let planned = PlannedCall::deserialize(submitted).ok()?;
                planned
                    .parameters
                    .is_object()
                    .then(|| (id.clone(), call, planned))
            });
            self.calls.extend(readable);
        }
        let depends_on = listed("depends_on").iter().filter_map(Value::as_str);
        self.plan.subtasks.push(SubTask {
            depends_on: depends_on.map(SubTaskId::from).collect(),
            title: text("title").unwrap_or_else(|| place.clone()),
            may_fail: false,
            work: work.unwrap_or(Work::Calls { calls: Vec::new() }),
            id,
        });
    }

    /// Returns the errors of the parts that can be read.
    pub(super) fn errors(&self, rules: &PlanRules<'_>) -> Vec<String> {
        let of_parts = self.plan.errors(rules, &self.without_work).into_iter();
        // If an id cannot be read, an unknown dependency may refer to its sub-task.
        let of_parts = of_parts
            .filter(|error| self.has_all_ids || !matches!(error, PlanError::UnknownDependency { .. }));
        let calls = self.calls.iter();
        let of_calls =
            calls.filter_map(|(subtask, call, planned)| call_error(subtask, *call, planned, rules));
        let found = of_parts.chain(of_calls).map(|error| error.to_string());
        self.errors.iter().cloned().chain(found).collect()
    }
}

/// Returns the fields of an object that are not `null`, because `null` counts as left out (CALL-6); none for any other value.
fn without_nulls(value: &Value) -> Map<String, Value> {
    let fields = value.as_object().into_iter().flatten();
    fields
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
