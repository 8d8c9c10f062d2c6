//! Reflections: the reflector's verdict on an iteration, which decides how the run continues.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::confirmation::Confirmation;
use crate::text::shorten;

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
    /// The calls that confirm the result (PAOR-10).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed_by: Vec<Confirmation>,
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

impl fmt::Display for ReflectionVerdict {
    /// Writes the name that the JSON form has.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReflectionVerdict::Achieved => "achieved",
            ReflectionVerdict::Continue => "continue",
            ReflectionVerdict::AskUser => "ask_user",
            ReflectionVerdict::Failed => "failed",
        })
    }
}

/// Maximum number of confirmations.
const MAX_CONFIRMATIONS: usize = 20;
/// Maximum number of characters of text that takes the place of a reflection.
const MAX_WORDS: usize = 4_000;

/// Returns the JSON Schema of the parameters of [`SUBMIT_REFLECTION`](crate::call::SUBMIT_REFLECTION).
pub fn reflection_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "verdict": {
                "type": "string",
                "enum": ["achieved", "continue", "ask_user", "failed"]
            },
            "summary": {
                "type": "string"
            },
            "question": {"type": "string", "description": "With ask_user."},
            "choices": {"type": "array", "items": {"type": "string"}, "description": "With ask_user: suggested answers."},
            "confirmed_by": {
                "type": "array",
                "maxItems": MAX_CONFIRMATIONS,
                "items": {
                    "type": "object",
                    "properties": {
                        "call": {"type": "string", "description": "A handle: `run.7`, `a3.2`."},
                        "line": {"type": "string", "description": "Copied from one line of its output."}
                    },
                    "required": ["call"],
                    "additionalProperties": false
                },
                "description": "The calls that show the result."
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

    /// Creates the reflection of a reflector that answered only with text: the user decides how to continue (SPEC, "Where the rules meet",
    /// 7).
    pub(crate) fn from_words(words: &str) -> Self {
        let words = shorten(words.trim(), MAX_WORDS, None).into_owned();
        Reflection {
            verdict: ReflectionVerdict::AskUser,
            question: Some(format!(
                "{words}\n\nThe reflector gave no verdict, only these words. Is the goal reached, or what is left to do?"
            )),
            summary: words,
            choices: Vec::new(),
            confirmed_by: Vec::new(),
        }
    }
}
