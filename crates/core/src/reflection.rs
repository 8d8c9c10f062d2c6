//! What a reflector submits: whether the goal is reached, and if not, what then.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::tags::escape_tags;
use crate::text::one_line;

/// The reflector's judgement of an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reflection {
    /// What follows.
    pub verdict: ReflectionVerdict,
    /// For the user when the run ends, for the planner when it goes on: what was done, how it was confirmed, what is left.
    pub summary: String,
    /// With [`ReflectionVerdict::AskUser`]: the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// With [`ReflectionVerdict::AskUser`]: answers to choose from, if it is a choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The files that the run has changed, as the summary may claim them (PAOR-10); `None` where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_files: Option<Vec<String>>,
}

/// What follows an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReflectionVerdict {
    /// The goal is reached: the run is Complete.
    Achieved,
    /// More is to be done: plan again.
    Continue,
    /// Only the user can decide (PAOR-9).
    AskUser,
    /// The goal cannot be reached.
    Failed,
}

/// How many changed files a judgement must name; of more it may name none.
const MAX_NAMED_FILES: usize = 50;

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
    /// Reads validated parameters; an error says what is missing for that verdict.
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

    /// That it names exactly the files that have changed, where it names any (PAOR-10); with [`ReflectionVerdict::Achieved`] it must, unless
    /// none has changed or there are too many. An error names every one that is wrong and every one that is missing.
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
        // As the judge has read them, so that a strange name can be named at all.
        let path =
            |path: &str| escape_tags(&one_line(path.strip_prefix("./").unwrap_or(path).trim())).into_owned();
        let named: BTreeSet<String> = named.iter().map(|named| path(named)).collect();
        let changed: BTreeSet<String> = changed.iter().map(|changed| path(changed)).collect();
        let wrong = named.difference(&changed);
        let wrong =
            wrong.map(|path| format!("- `{path}` did not change: leave it out, of the summary as well"));
        let missing = changed.difference(&named);
        let missing = missing.map(|path| format!("- `{path}` changed and is missing"));
        let faults: Vec<String> = wrong.chain(missing).collect();
        if faults.is_empty() {
            return Ok(());
        }
        Err(format!(
            "`changed_files` must be the files that changed; submit it again with these corrected:\n{}",
            faults.join("\n")
        ))
    }
}
