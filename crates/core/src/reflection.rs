//! What a reflector submits: whether the goal is reached, and if not, what then.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The reflector's judgement of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reflection {
    /// What follows.
    pub verdict: Verdict,
    /// For the user when the run ends, for the planner when it goes on: what was done, how it was confirmed, what is left.
    pub summary: String,
    /// With [`Verdict::AskUser`]: the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// With [`Verdict::AskUser`]: answers to choose from, if it is a choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// What follows a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The goal is reached: the run is Complete.
    Achieved,
    /// More is to be done: plan again.
    Continue,
    /// Only the user can decide (PAOR-9).
    AskUser,
    /// The goal cannot be reached.
    Failed,
}

/// The name of the reflector's terminating tool.
pub const SUBMIT_REFLECTION: &str = "submit_reflection";

/// The JSON Schema of its parameters.
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
            "choices": {"type": "array", "items": {"type": "string"}, "description": "With ask_user: answers to choose from."}
        },
        "required": ["verdict", "summary"],
        "additionalProperties": false
    })
}

impl Reflection {
    /// Reads validated parameters; an error says what is missing for that verdict.
    pub fn from_parameters(parameters: &Value) -> Result<Self, String> {
        let reflection: Reflection =
            serde_json::from_value(parameters.clone()).map_err(|error| error.to_string())?;
        match (reflection.verdict, &reflection.question) {
            (Verdict::AskUser, None) => {
                Err("`ask_user` needs `question`: say what the user must decide".to_owned())
            }
            (Verdict::AskUser, Some(_)) | (Verdict::Achieved | Verdict::Continue | Verdict::Failed, _) => {
                Ok(reflection)
            }
        }
    }
}
