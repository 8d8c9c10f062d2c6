//! Tools as the state machines see them: specifications and results.

mod category;
mod change;
pub mod code;
mod for_model;
mod model_schema;
mod not_run;
mod rule;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::answer_form::AnswerForm;
use crate::time::Millis;
use crate::token_ratio::estimated_tokens;

pub use category::ToolCategory;
pub use change::{FileVersion, StateChange, display_command, display_path};
pub use for_model::ModelToolResult;
pub use not_run::guidance_from_error;
pub(crate) use rule::MissingParameter;
pub use rule::{CallDemand, CallRule};

/// The specification of a tool. Journaled with the run, so that a replay makes the same decisions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name, such as `search`.
    pub name: String,
    /// The purpose of the tool and when to use it. Short listings show only the first sentence.
    pub description: String,
    /// The category, which determines the tool's position among an agent's tools.
    #[serde(default, skip_serializing_if = "ToolCategory::is_other")]
    pub category: ToolCategory,
    /// JSON Schema (2020-12) of the parameters object.
    pub parameters: Value,
    /// Whether a call may be repeated if the process ended before the call finished.
    pub repeat: Repeat,
    /// The minimum access that an agent needs to call the tool.
    #[serde(default = "Access::read_only", skip_serializing_if = "Access::is_read_only")]
    pub access: Access,
    /// The calls that change something and therefore need [`Access::ReadWrite`], whatever `access` says; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes_where: Option<ParameterValues>,
    /// The form in which the tool is offered to agents without [`Access::ReadWrite`]; `None` if it is the same for all agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<Box<ReadOnlyForm>>,
    /// True if each call needs the user's approval, unless a rule of the run's [policy](crate::policy) decides otherwise (APPROVE-1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_approval: bool,
    /// The calls that need the user's approval as if `requires_approval` were true; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_where: Option<ParameterValues>,
    /// Rules on calls that the schema does not express (CALL-6).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<CallRule>,
    /// Example parameters for prompts; `null` if there are none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub example: Value,
}

/// The description of a tool for agents that may not change files, without the operations that they cannot use. Their
/// calls are still checked against the parameters of the tool itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadOnlyForm {
    /// The description, in place of [`ToolSpec::description`].
    pub description: String,
    /// The JSON Schema of the parameters, in place of [`ToolSpec::parameters`].
    pub parameters: Value,
    /// The example, in place of [`ToolSpec::example`].
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub example: Value,
}

/// The calls in which a parameter is given and has one of these values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterValues {
    /// The parameter's name.
    pub parameter: String,
    /// The values: strings, or `true` and `false`.
    pub values: Vec<String>,
}

impl ToolSpec {
    /// Returns the tool as it is offered to an agent with this access. A lead knows the whole tool, because its plans may use it.
    pub fn offered_to(&self, access: Access, answer: AnswerForm) -> Cow<'_, ToolSpec> {
        match &self.read_only {
            Some(form) if access < Access::ReadWrite && answer != AnswerForm::Plan => Cow::Owned(ToolSpec {
                description: form.description.clone(),
                parameters: form.parameters.clone(),
                example: form.example.clone(),
                read_only: None,
                changes_where: None,
                approval_where: None,
                ..self.clone()
            }),
            Some(_) | None => Cow::Borrowed(self),
        }
    }

    /// Returns true if calls of the tool, as it is offered, may change files or data.
    pub(crate) fn may_change(&self) -> bool {
        self.access == Access::ReadWrite || self.changes_where.is_some()
    }

    /// Returns the schema of the parameters as shown to models, without keywords that a model does not need. Calls are checked against
    /// [`parameters`](ToolSpec::parameters).
    pub fn parameters_for_model(&self) -> Value {
        model_schema::for_model(&self.parameters)
    }

    /// Estimates the tokens of the tool's definition in a request.
    pub fn estimated_tokens(&self) -> u64 {
        /// Tokens of the JSON around the definition: `{"type": "function", "function": {"name": …, "description": …, "parameters": …}}`.
        const FRAME: u64 = 18;
        let texts = [
            &self.name,
            &self.description,
            &self.parameters_for_model().to_string(),
        ];
        let tokens: u64 = texts.into_iter().map(|text| estimated_tokens(text)).sum();
        tokens.saturating_add(FRAME)
    }
}

/// Whether a call that may already have run may be repeated (HOST-2). JSON: `"safe"`, `"unsafe"`, or
/// `{"safe_where": {"parameter": "operation", "values": ["read", "list"]}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// The call changes nothing, or repeating it has no additional effect.
    Safe,
    /// The call must not be repeated, because it may have taken effect. The model receives an error which states that the call was
    /// interrupted.
    Unsafe,
    /// The call is safe to repeat if a parameter has one of these values; otherwise it must not be repeated.
    SafeWhere {
        /// The parameter's name.
        parameter: String,
        /// The values for which a call is safe to repeat: strings, or `true` and `false`.
        values: Vec<String>,
        /// True if a call without the parameter is safe to repeat as well.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        or_absent: bool,
    },
}

impl Repeat {
    /// Returns true if a call with these parameters may be repeated.
    pub fn is_safe(&self, parameters: &Value) -> bool {
        match self {
            Repeat::Safe => true,
            Repeat::Unsafe => false,
            Repeat::SafeWhere {
                parameter,
                values,
                or_absent,
            } => match parameters.get(parameter) {
                None | Some(Value::Null) => *or_absent,
                Some(_) => has_value(parameters, parameter, values),
            },
        }
    }
}

impl ToolSpec {
    /// Returns the access that an agent needs for a call with these parameters.
    pub fn access_for(&self, parameters: &Value) -> Access {
        let matches = |changes: &ParameterValues| has_value(parameters, &changes.parameter, &changes.values);
        if self.changes_where.as_ref().is_some_and(matches) {
            Access::ReadWrite
        } else {
            self.access
        }
    }

    /// Returns true if a call with these parameters needs the user's approval, unless a rule decides otherwise (APPROVE-1).
    pub fn asks(&self, parameters: &Value) -> bool {
        let matches = |asked: &ParameterValues| has_value(parameters, &asked.parameter, &asked.values);
        self.requires_approval || self.approval_where.as_ref().is_some_and(matches)
    }
}

impl ParameterValues {
    /// Returns true if `value` is one of the values.
    fn contains(&self, value: &Value) -> bool {
        is_one_of(value, &self.values)
    }
}

/// Returns true if the parameter is given and has one of the values.
fn has_value(parameters: &Value, parameter: &str, values: &[String]) -> bool {
    parameters
        .get(parameter)
        .is_some_and(|given| is_one_of(given, values))
}

fn is_one_of(value: &Value, values: &[String]) -> bool {
    let text = match value {
        Value::String(text) => text,
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => return false,
    };
    values.iter().any(|value| value == text)
}

/// An agent's access to the workspace. Each level includes all lower levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read files, but change no files and run no commands.
    ReadOnly,
    /// Read files and run commands. File tools refuse to change files, but a command may change them.
    Execute,
    /// Read files, run commands and change files.
    #[default]
    ReadWrite,
}

impl Access {
    fn read_only() -> Self {
        Access::ReadOnly
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_read_only(&self) -> bool {
        *self == Access::ReadOnly
    }
}

/// Formats the access for display: `read-only`, `execute`, `read-write`.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::ReadOnly => "read-only",
            Access::Execute => "execute",
            Access::ReadWrite => "read-write",
        })
    }
}

/// The result of a tool call. A failure is data for the model, never a Rust error (PAOR-7, LOOP-7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Success or failure, with the output.
    #[serde(flatten)]
    pub outcome: ToolOutcome,
    /// The duration of the call.
    pub duration: Millis,
    /// The changes that the call made (LOOP-8), even if it failed before its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<StateChange>,
    /// Files whose content the caller knows after this call: files that it read or wrote, and files shown with a refusal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<SeenFile>,
    /// The part of text output to omit from prompts if it is too long.
    #[serde(default, skip_serializing_if = "OmittedPart::is_middle")]
    pub omit: OmittedPart,
    /// Additional data for operators; never sent to the model.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The part of text output that prompts omit first, by whole lines, if the output is too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OmittedPart {
    /// The middle, as for a log, whose beginning and end show what went wrong.
    #[default]
    Middle,
    /// The end, as for a list.
    End,
}

impl OmittedPart {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_middle(&self) -> bool {
        *self == OmittedPart::Middle
    }
}

/// The state in which a tool call found or left a file. An agent cannot change a file that differs from what the agent last saw (PAOR-5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    /// Path relative to the workspace, with `/` as separator.
    pub path: String,
    /// SHA-256 of the whole file; `None` if it does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The first line that the caller has not seen, counted from 1; `None` if it has seen the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen_from: Option<usize>,
}

/// The files that an agent has seen, by path.
pub type SeenFiles = BTreeMap<String, SeenFile>;

/// Success or failure of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The call succeeded.
    Success {
        /// The output for the model.
        output: Value,
    },
    /// The call failed.
    Failure {
        /// Stable code of the kind of failure, such as `outside_workspace`; empty if there is none. The module [`code`] contains Dirigent's
        /// own codes.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        code: String,
        /// An error message: what failed, and what to do.
        error: String,
        /// Output despite the failure, such as the output of a failed command; `null` if there is none.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        output: Value,
    },
}

impl ToolResult {
    /// Creates a success without changes. The caller must set the duration.
    pub fn success(output: Value) -> Self {
        ToolResult {
            outcome: ToolOutcome::Success { output },
            duration: Millis(0),
            changes: Vec::new(),
            seen: Vec::new(),
            omit: OmittedPart::Middle,
            metadata: Map::new(),
        }
    }

    /// Creates a failure without changes.
    pub fn failure(error: impl Into<String>) -> Self {
        ToolResult {
            outcome: ToolOutcome::Failure {
                code: String::new(),
                error: error.into(),
                output: Value::Null,
            },
            ..ToolResult::success(Value::Null)
        }
    }

    /// Sets the code of a failure. Does nothing to a success.
    pub fn with_code(mut self, new_code: impl Into<String>) -> Self {
        match &mut self.outcome {
            ToolOutcome::Failure { code, .. } => *code = new_code.into(),
            ToolOutcome::Success { .. } => {}
        }
        self
    }

    /// Sets the output.
    pub fn with_output(mut self, new_output: Value) -> Self {
        match &mut self.outcome {
            ToolOutcome::Success { output } | ToolOutcome::Failure { output, .. } => *output = new_output,
        }
        self
    }

    /// Marks the output as a list, whose end is omitted if it is too long.
    pub fn as_list(self) -> Self {
        ToolResult {
            omit: OmittedPart::End,
            ..self
        }
    }

    /// Adds data for operators. The journal and watchers contain it, but the model does not see it.
    pub fn with_metadata(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Sets the changes that the call made.
    pub fn with_changes(mut self, changes: Vec<StateChange>) -> Self {
        self.changes = changes;
        self
    }

    /// Sets the files whose content the caller knows from the call.
    pub fn with_seen(mut self, seen: Vec<SeenFile>) -> Self {
        self.seen = seen;
        self
    }

    /// Returns true if a diff of the files shows all that the call did and returned: it succeeded and only changed files, and its output is a
    /// text other than a list.
    pub(crate) fn shown_by_diff(&self) -> bool {
        let is_file = |change: &StateChange| change.path().is_some();
        let is_text = match &self.outcome {
            ToolOutcome::Success { output } => output.is_string() && self.omit.is_middle(),
            ToolOutcome::Failure { .. } => false,
        };
        is_text && !self.changes.is_empty() && self.changes.iter().all(is_file)
    }

    /// Returns true if the call succeeded.
    pub fn succeeded(&self) -> bool {
        matches!(self.outcome, ToolOutcome::Success { .. })
    }
}
