//! Reflections: a reflector's verdict on whether the goal is reached, and what follows.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::tags::escape_tags;
use crate::text::one_line;

/// A reflector's judgement of an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reflection {
    /// The verdict, which decides what follows.
    pub verdict: ReflectionVerdict,
    /// What was done, how it was verified and what remains. Read by the user if the run ends, otherwise by the planner.
    pub summary: String,
    /// The question for [`ReflectionVerdict::AskUser`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Suggested answers for [`ReflectionVerdict::AskUser`]; empty for a free answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The files that the run changed, according to the reflector (PAOR-10); `None` if not stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_files: Option<Vec<String>>,
}

/// The outcome of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReflectionVerdict {
    /// The goal is reached, and the run is Complete.
    Achieved,
    /// Work remains, and the next iteration plans again.
    Continue,
    /// The user must decide (PAOR-9).
    AskUser,
    /// The goal cannot be reached.
    Failed,
}

/// Maximum number of changed files that a reflection must list. If there are more, it may omit the list.
const MAX_NAMED_FILES: usize = 50;

/// The JSON Schema of the parameters of [`SUBMIT_REFLECTION`](crate::call::SUBMIT_REFLECTION).
pub fn reflection_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "verdict": {
                "type": "string",
                "enum": ["achieved", "continue", "ask_user", "failed"],
                "description": "achieved: the observations show that the goal is reached. continue: more is to be done, so plan again. ask_user: only the user can decide. failed: the goal cannot be reached."
            },
            "summary": {
                "type": "string",
                "description": "What was done, how it was confirmed and what is left, in a few sentences."
            },
            "question": {"type": "string", "description": "With ask_user: what the user must decide."},
            "choices": {"type": "array", "items": {"type": "string"}, "description": "With ask_user: answers to choose from."},
            "changed_files": {
                "type": "array",
                "items": {"type": "string"},
                "description": format!("With achieved: every path of CHANGED_FILES and no other; an empty list where there is none. With more than {MAX_NAMED_FILES} of them it may be left out.")
            }
        },
        "required": ["verdict", "summary"],
        "additionalProperties": false
    })
}

impl Reflection {
    /// Reads parameters that conform to [`reflection_schema`].
    ///
    /// # Errors
    /// Names what is missing for the verdict.
    pub fn from_parameters(parameters: &Value) -> Result<Self, String> {
        let reflection: Reflection =
            serde_json::from_value(parameters.clone()).map_err(|error| error.to_string())?;
        match (reflection.verdict, &reflection.question) {
            (ReflectionVerdict::AskUser, None) => {
                Err("`ask_user` needs `question`: say what the user must decide".to_owned())
            }
            (ReflectionVerdict::AskUser, Some(_))
            | (ReflectionVerdict::Achieved | ReflectionVerdict::Continue | ReflectionVerdict::Failed, _) => {
                Ok(reflection)
            }
        }
    }

    /// Checks that the reflection lists exactly the files that changed (PAOR-10). Only [`ReflectionVerdict::Achieved`] requires the list,
    /// unless no file changed or too many did.
    ///
    /// # Errors
    /// Names all wrong and all missing files.
    pub fn check_changed_files(&self, changed: &[String]) -> Result<(), String> {
        let Some(named) = &self.changed_files else {
            let must_name =
                self.verdict == ReflectionVerdict::Achieved && (1..=MAX_NAMED_FILES).contains(&changed.len());
            return if must_name {
                Err(
                    "`achieved` needs `changed_files`: submit it again with every path of CHANGED_FILES and no other, \
                     and a summary that claims no other"
                        .to_owned(),
                )
            } else {
                Ok(())
            };
        };
        // Escaped like the list in the prompt, so that the reflector can name files with unusual names.
        let path =
            |path: &str| escape_tags(&one_line(path.strip_prefix("./").unwrap_or(path).trim())).into_owned();
        let named: BTreeSet<String> = named.iter().map(|named| path(named)).collect();
        let changed: BTreeSet<String> = changed.iter().map(|changed| path(changed)).collect();
        let wrong = named.difference(&changed);
        let wrong =
            wrong.map(|path| format!("- `{path}` did not change: leave it out, of the summary as well"));
        let missing = changed.difference(&named);
        let missing = missing.map(|path| format!("- `{path}` changed and is missing"));
        let errors: Vec<String> = wrong.chain(missing).collect();
        if errors.is_empty() {
            return Ok(());
        }
        Err(format!(
            "`changed_files` must be the files that changed; submit it again with these corrected:\n{}",
            errors.join("\n")
        ))
    }
}
