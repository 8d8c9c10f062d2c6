//! Reflections: the reflector's verdict on an iteration, which decides how the run continues.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::tags::escape_tags;
use crate::text::one_line;

/// The reflector's evaluation of an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reflection {
    /// The verdict, which decides how the run continues.
    pub verdict: ReflectionVerdict,
    /// A summary of what was done, how it was verified and what remains. Shown to the user if the run ends, otherwise to the lead.
    pub summary: String,
    /// The question to the user, required for [`ReflectionVerdict::AskUser`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Suggested answers for [`ReflectionVerdict::AskUser`]; empty for a free-text answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The files that the run changed, as listed by the reflector (PAOR-10); `None` if it listed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_files: Option<Vec<String>>,
}

/// The outcome of an iteration, as judged by the reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReflectionVerdict {
    /// The goal is reached; the run ends in phase Complete.
    Achieved,
    /// Work remains; the next iteration makes a new plan.
    Continue,
    /// The user must decide how to continue (PAOR-9).
    AskUser,
    /// The goal cannot be reached; the run ends in phase Failed.
    Failed,
}

/// Maximum number of changed files that a reflection must list. If more files changed, the list is optional.
const MAX_NAMED_FILES: usize = 50;

/// Returns the JSON Schema of the parameters of [`SUBMIT_REFLECTION`](crate::call::SUBMIT_REFLECTION).
pub fn reflection_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "verdict": {
                "type": "string",
                "enum": ["achieved", "continue", "ask_user", "failed"],
                "description": "achieved: the observations show that the goal is reached. continue: work remains, so another plan is needed. ask_user: only the user can decide. failed: the goal cannot be reached."
            },
            "summary": {
                "type": "string",
                "description": "What was done, how it was verified and what remains, in a few sentences."
            },
            "question": {"type": "string", "description": "With ask_user: the question that the user must decide."},
            "choices": {"type": "array", "items": {"type": "string"}, "description": "With ask_user: suggested answers."},
            "changed_files": {
                "type": "array",
                "items": {"type": "string"},
                "description": format!("With achieved: every path in CHANGED_FILES and no others; an empty list if there are none. Optional if there are more than {MAX_NAMED_FILES} paths.")
            }
        },
        "required": ["verdict", "summary"],
        "additionalProperties": false
    })
}

impl Reflection {
    /// Parses parameters that conform to [`reflection_schema`].
    ///
    /// # Errors
    /// Returns a message for the model if the verdict requires a parameter that is missing.
    pub fn from_parameters(parameters: &Value) -> Result<Self, String> {
        let reflection: Reflection =
            serde_json::from_value(parameters.clone()).map_err(|error| error.to_string())?;
        match (reflection.verdict, &reflection.question) {
            (ReflectionVerdict::AskUser, None) => {
                Err("`ask_user` requires `question`: state what the user must decide".to_owned())
            }
            (ReflectionVerdict::AskUser, Some(_))
            | (ReflectionVerdict::Achieved | ReflectionVerdict::Continue | ReflectionVerdict::Failed, _) => {
                Ok(reflection)
            }
        }
    }

    /// Checks that the reflection lists exactly the files that changed (PAOR-10). The list is required only for
    /// [`ReflectionVerdict::Achieved`], and only if at least one and at most 50 files changed.
    ///
    /// # Errors
    /// Returns a message for the model that names all wrong and all missing files.
    pub fn check_changed_files(&self, changed: &[String]) -> Result<(), String> {
        let Some(named) = &self.changed_files else {
            let must_name =
                self.verdict == ReflectionVerdict::Achieved && (1..=MAX_NAMED_FILES).contains(&changed.len());
            return if must_name {
                Err(
                    "`achieved` requires `changed_files`: submit the reflection again with every path in CHANGED_FILES and no others, \
                     and do not mention other changes in the summary"
                        .to_owned(),
                )
            } else {
                Ok(())
            };
        };
        // Escape paths as in the prompt, from which the reflector copies them.
        let path =
            |path: &str| escape_tags(&one_line(path.strip_prefix("./").unwrap_or(path).trim())).into_owned();
        let named: BTreeSet<String> = named.iter().map(|named| path(named)).collect();
        let changed: BTreeSet<String> = changed.iter().map(|changed| path(changed)).collect();
        let wrong = named.difference(&changed);
        let wrong =
            wrong.map(|path| format!("- `{path}` did not change: remove it from the list and the summary"));
        let missing = changed.difference(&named);
        let missing = missing.map(|path| format!("- `{path}` changed but is missing"));
        let errors: Vec<String> = wrong.chain(missing).collect();
        if errors.is_empty() {
            return Ok(());
        }
        Err(format!(
            "`changed_files` must list exactly the files that changed; correct these errors and submit the reflection again:\n{}",
            errors.join("\n")
        ))
    }
}
