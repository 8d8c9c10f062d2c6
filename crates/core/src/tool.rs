//! What a tool is to the machines: a description before the call, a result after it.

mod change;
pub mod code;
mod not_run;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::time::Millis;
use crate::token_ratio::estimated_tokens;

pub use change::{FileVersion, StateChange, display_path};
pub(crate) use not_run::guidance_from_error;

/// What a model and the machines know of a tool. It is journaled with the run, so that a replay decides as the run did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name: `search`.
    pub name: String,
    /// What it does and when to use it: one sentence first, as the one-line form shows only that.
    pub description: String,
    /// A JSON Schema (2020-12) of its parameters, an object.
    pub parameters: Value,
    /// Whether a call that was under way when the process died may be made again.
    pub repeat: Repeat,
    /// What an agent must be allowed at the least to call it; an agent that is allowed less is refused before it runs.
    #[serde(default = "Access::read_only", skip_serializing_if = "Access::is_read_only")]
    pub access: Access,
    /// Whether a person must approve each call of it, where no rule of the run's [policy](crate::policy) says otherwise (APPROVE-1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_approval: bool,
    /// A call's parameters as an example for prompts; `null` for none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub example: Value,
}

impl ToolSpec {
    /// About how many tokens its definition has where it is sent with a request.
    pub fn estimated_tokens(&self) -> u64 {
        /// What stands around it: `{"type": "function", "function": {"name": …, "description": …, "parameters": …}}`.
        const FRAME: u64 = 18;
        let texts = [&self.name, &self.description, &self.parameters.to_string()];
        let tokens: u64 = texts.into_iter().map(|text| estimated_tokens(text)).sum();
        tokens.saturating_add(FRAME)
    }
}

/// Whether a call that may have happened can be made once more (HOST-2). JSON: `"safe"`, `"unsafe"`, or
/// `{"safe_where": {"parameter": "operation", "values": ["read", "list"]}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// It changes nothing, or the same again.
    Safe,
    /// Whether it happened is unknown: the model is told that it was interrupted.
    Unsafe,
    /// Safe where a parameter has one of these values, otherwise unsafe.
    SafeWhere {
        /// The parameter's name.
        parameter: String,
        /// Its values.
        values: Vec<String>,
    },
}

impl Repeat {
    /// Whether a call with these parameters may be made again.
    pub fn is_safe(&self, parameters: &Value) -> bool {
        match self {
            Repeat::Safe => true,
            Repeat::Unsafe => false,
            Repeat::SafeWhere { parameter, values } => {
                let given = parameters.get(parameter).and_then(Value::as_str);
                given.is_some_and(|given| values.iter().any(|value| value == given))
            }
        }
    }
}

/// What an agent's tools may do to the workspace. Each allows all that those before it allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Look only: a tool refuses to change files or to run commands.
    ReadOnly,
    /// Look and run commands: the file tools refuse to change anything. What a command does is its own matter.
    Execute,
    /// Look, run commands and change.
    #[default]
    ReadWrite,
}

impl Access {
    /// The least, which every agent has.
    fn read_only() -> Self {
        Access::ReadOnly
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_read_only(&self) -> bool {
        *self == Access::ReadOnly
    }
}

/// As people write it: `read-only`, `execute`, `read-write`.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::ReadOnly => "read-only",
            Access::Execute => "execute",
            Access::ReadWrite => "read-write",
        })
    }
}

/// How a tool call ended. A failure is data for the model, never an error of ours (PAOR-7, LOOP-7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// What came of it.
    #[serde(flatten)]
    pub outcome: ToolOutcome,
    /// How long it took.
    pub duration: Millis,
    /// What it changed (LOOP-8), also where it failed half-way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<StateChange>,
    /// The files whose content the caller knows by this call: what it read, what it wrote, and what it was shown where it was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<SeenFile>,
    /// For operators, not for the model.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// A file as a call left or found it. An agent that changes a file which is other than it last saw it is refused (PAOR-5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// Of its whole content, in the form of the tools' own; none where there is no such file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The first line, counted from 1, that the caller was not shown of this content, read from the beginning on; none where it knows
    /// all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen_from: Option<usize>,
}

/// What an agent last saw of files, by their paths. A file that it never looked at is not in it.
pub type SeenFiles = BTreeMap<String, SeenFile>;

/// What came of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It did what was asked.
    Success {
        /// What the model reads.
        output: Value,
    },
    /// It did not.
    Failure {
        /// What kind of failure it is, in a word that stays the same whatever the text says: `outside_workspace`; those of Dirigent's own are
        /// in [`code`]. Empty for none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        code: String,
        /// What was wrong and what to do.
        error: String,
        /// What there is to read all the same, such as a failed command's output; `null` for nothing.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        output: Value,
    },
}

impl ToolResult {
    /// A success that changed nothing. The duration is for who ran it to fill in.
    pub fn success(output: Value) -> Self {
        ToolResult {
            outcome: ToolOutcome::Success { output },
            duration: Millis(0),
            changes: Vec::new(),
            seen: Vec::new(),
            metadata: Map::new(),
        }
    }

    /// A failure that changed nothing.
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

    /// The same failure with its kind in a word; a success stays as it is.
    pub fn with_code(mut self, word: impl Into<String>) -> Self {
        match &mut self.outcome {
            ToolOutcome::Failure { code, .. } => *code = word.into(),
            ToolOutcome::Success { .. } => {}
        }
        self
    }

    /// The same with that to read: what a success returns, or what there is all the same after a failure.
    pub fn with_output(mut self, read: Value) -> Self {
        match &mut self.outcome {
            ToolOutcome::Success { output } | ToolOutcome::Failure { output, .. } => *output = read,
        }
        self
    }

    /// The same with something for operators alone: watchers and the journal have it, the model never does.
    pub fn with_metadata(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// The same with what it changed.
    pub fn with_changes(mut self, changes: Vec<StateChange>) -> Self {
        self.changes = changes;
        self
    }

    /// The same with what the caller knows by it.
    pub fn with_seen(mut self, seen: Vec<SeenFile>) -> Self {
        self.seen = seen;
        self
    }

    /// Whether it did what was asked.
    pub fn succeeded(&self) -> bool {
        matches!(self.outcome, ToolOutcome::Success { .. })
    }

    /// What the model reads: `{"success": true, "output": …, "changes": ["edited src/a.rs"]}` or
    /// `{"success": false, "code": "not_found", "error": "…", "output": …, "changes": […]}`; `code`, `output` and `changes` only
    /// where there are any.
    pub fn for_model(&self) -> Value {
        let mut object = match &self.outcome {
            ToolOutcome::Success { output } => json!({"success": true, "output": output}),
            ToolOutcome::Failure { code, error, output } => {
                let mut object = json!({"success": false});
                if !code.is_empty() {
                    object["code"] = json!(code);
                }
                object["error"] = json!(error);
                if !output.is_null() {
                    object["output"] = output.clone();
                }
                object
            }
        };
        if !self.changes.is_empty() {
            object["changes"] = self
                .changes
                .iter()
                .map(|change| Value::String(change.to_string()))
                .collect();
        }
        object
    }
}
