//! Scripts: rules with turns, or a function.
//!
//! A script has no state; the server counts the turns of each conversation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

use crate::fault::Fault;
use crate::gate::Wait;
use crate::reply::{Reply, ToolCall};
use crate::request::Request;

/// The server's answers.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) models: Vec<String>,
    pub(crate) api_key: Option<String>,
    pub(crate) turn_source: TurnSource,
}

/// A script as a function.
pub(crate) type TurnFn = Arc<dyn Fn(&Request) -> Turn + Send + Sync>;

/// Source of the turns.
#[derive(Clone)]
pub(crate) enum TurnSource {
    Rules(Vec<Rule>),
    Function(TurnFn),
}

impl Script {
    /// Answers each request by the first matching rule that has a turn left.
    pub fn rules(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self::new(TurnSource::Rules(rules.into_iter().collect()))
    }

    /// Answers each conversation with these turns in order. A request beyond them is a violation.
    pub fn turns(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::rules([Rule::new(Matcher::any(), turns)])
    }

    /// Answers each request with the function's result.
    pub fn from_fn(function: impl Fn(&Request) -> Turn + Send + Sync + 'static) -> Self {
        Self::new(TurnSource::Function(Arc::new(function)))
    }

    /// Parses a script file. The crate's documentation describes its format.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let raw: RawScript = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text))
            .map_err(|error| ScriptError {
                path: error.path().to_string(),
                problem: error.into_inner().to_string(),
            })?;
        if let Some(empty) = raw.rules.iter().position(|rule| rule.turns.is_empty()) {
            return Err(ScriptError {
                path: format!("rules[{empty}].turns"),
                problem: "it is empty: give at least one turn".to_owned(),
            });
        }
        Ok(Self {
            models: raw.models,
            api_key: raw.api_key,
            turn_source: TurnSource::Rules(raw.rules),
        })
    }

    /// Sets the models; a request for another model is answered with 404. Without this, every model is answered, and `scripted-model`
    /// is listed.
    pub fn with_models<M: Into<String>>(self, models: impl IntoIterator<Item = M>) -> Self {
        Self {
            models: models.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Answers requests without this bearer token with 401.
    pub fn with_api_key(self, key: impl Into<String>) -> Self {
        Self {
            api_key: Some(key.into()),
            ..self
        }
    }

    fn new(turn_source: TurnSource) -> Self {
        Self {
            models: Vec::new(),
            api_key: None,
            turn_source,
        }
    }
}

/// A script file's error.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the script is not valid at {path}: {problem}")]
pub struct ScriptError {
    /// Path in the file, such as `rules[0].turns[2].fault`.
    pub path: String,
    /// Description of the error.
    pub problem: String,
}

/// Turns for matching requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The requests that the rule answers.
    #[serde(default)]
    pub when: Matcher,
    /// The answers, in order. Each conversation goes through all of them; a repeated request gets the next one.
    pub turns: Vec<Turn>,
    /// What follows the last turn.
    #[serde(default)]
    pub after_last: AfterLast,
}

impl Rule {
    /// Answers matching requests with these turns, and leaves further requests to the next rule.
    pub fn new(when: Matcher, turns: impl IntoIterator<Item = Turn>) -> Self {
        Self {
            when,
            turns: turns.into_iter().collect(),
            after_last: AfterLast::NextRule,
        }
    }

    /// Answers all matching requests with this turn.
    pub fn always(when: Matcher, turn: Turn) -> Self {
        Self {
            when,
            turns: vec![turn],
            after_last: AfterLast::Repeat,
        }
    }

    /// Returns the turn at this position.
    pub(crate) fn turn(&self, position: usize) -> Option<&Turn> {
        self.turns.get(position).or_else(|| match self.after_last {
            AfterLast::NextRule => None,
            AfterLast::Repeat => self.turns.last(),
        })
    }
}

/// What follows a rule's last turn in a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterLast {
    /// The rule no longer matches the conversation.
    #[default]
    NextRule,
    /// The last turn is repeated.
    Repeat,
}

/// Conditions on a request, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Matcher {
    /// Text in the system prompt.
    pub system_contains: Option<String>,
    /// Text in the last user message.
    pub user_contains: Option<String>,
    /// Text in the last message, of any role.
    pub last_contains: Option<String>,
    /// Name of the requested model.
    pub model: Option<String>,
    /// Name of an offered tool.
    pub offers_tool: Option<String>,
    /// Number of the turn in its conversation, from 1; repeated requests have the same number.
    pub turn: Option<usize>,
    /// Number of the attempt at the turn, from 1.
    pub attempt: Option<usize>,
}

impl Matcher {
    /// Matches every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Matches requests whose system prompt contains this text.
    pub fn system(part: impl Into<String>) -> Self {
        Self::any().and_system(part)
    }

    /// Matches requests whose last user message contains this text.
    pub fn user(part: impl Into<String>) -> Self {
        Self::any().and_user(part)
    }

    /// Requires this text in the system prompt.
    pub fn and_system(self, part: impl Into<String>) -> Self {
        Self {
            system_contains: Some(part.into()),
            ..self
        }
    }

    /// Requires this text in the last user message.
    pub fn and_user(self, part: impl Into<String>) -> Self {
        Self {
            user_contains: Some(part.into()),
            ..self
        }
    }

    /// Requires this text in the last message.
    pub fn and_last(self, part: impl Into<String>) -> Self {
        Self {
            last_contains: Some(part.into()),
            ..self
        }
    }

    /// Requires this model.
    pub fn and_model(self, model: impl Into<String>) -> Self {
        Self {
            model: Some(model.into()),
            ..self
        }
    }

    /// Requires that this tool is offered.
    pub fn and_tool(self, name: impl Into<String>) -> Self {
        Self {
            offers_tool: Some(name.into()),
            ..self
        }
    }

    /// Requires the conversation's nth turn, from 1; repeated requests do not count.
    pub fn and_turn(self, turn: usize) -> Self {
        Self {
            turn: Some(turn),
            ..self
        }
    }

    /// Requires the nth attempt at the turn, from 1.
    pub fn and_attempt(self, attempt: usize) -> Self {
        Self {
            attempt: Some(attempt),
            ..self
        }
    }

    /// Returns true if all conditions hold for the request.
    pub fn matches(&self, request: &Request) -> bool {
        let within = |part: &Option<String>, whole: fn(&Request) -> String| {
            part.as_ref().is_none_or(|part| whole(request).contains(part))
        };
        within(&self.system_contains, Request::system_prompt)
            && within(&self.user_contains, Request::last_user_message)
            && within(&self.last_contains, Request::last_message)
            && self.model.as_ref().is_none_or(|model| request.model() == model)
            && self
                .offers_tool
                .as_ref()
                .is_none_or(|name| request.tool_names().contains(&name.as_str()))
            && self.turn.is_none_or(|turn| request.turn == turn)
            && self.attempt.is_none_or(|attempt| request.attempt == attempt)
    }
}

/// An answer and its timing.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawTurn")]
pub struct Turn {
    pub(crate) outcome: TurnOutcome,
    pub(crate) before_headers: Option<Wait>,
    pub(crate) in_body: Option<Wait>,
}

/// A reply, or a fault in its place.
#[derive(Clone, Debug)]
pub(crate) enum TurnOutcome {
    Reply(Reply),
    Fault(Fault),
}

impl Turn {
    /// Creates a reply of text.
    pub fn text(text: impl Into<String>) -> Self {
        Reply::text(text).into()
    }

    /// Creates a reply that calls tools.
    pub fn calls(tool_calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Reply::calls(tool_calls).into()
    }

    /// Waits before the first byte of the response.
    pub fn wait_before_headers(self, wait: impl Into<Wait>) -> Self {
        Self {
            before_headers: Some(wait.into()),
            ..self
        }
    }

    /// Waits before each part of the body except the first. The parts of a stream are its events; plain JSON has two halves.
    pub fn wait_in_body(self, wait: impl Into<Wait>) -> Self {
        Self {
            in_body: Some(wait.into()),
            ..self
        }
    }
}

impl From<Reply> for Turn {
    fn from(reply: Reply) -> Self {
        Self {
            outcome: TurnOutcome::Reply(reply),
            before_headers: None,
            in_body: None,
        }
    }
}

impl From<Fault> for Turn {
    fn from(fault: Fault) -> Self {
        Self {
            outcome: TurnOutcome::Fault(fault),
            before_headers: None,
            in_body: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    #[serde(default)]
    models: Vec<String>,
    #[serde(default)]
    api_key: Option<String>,
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTurn {
    #[serde(default)]
    reply: Option<Reply>,
    #[serde(default)]
    fault: Option<Fault>,
    #[serde(default)]
    before_headers_ms: Option<u64>,
    #[serde(default)]
    in_body_ms: Option<u64>,
}

impl TryFrom<RawTurn> for Turn {
    type Error = &'static str;

    fn try_from(raw: RawTurn) -> Result<Self, Self::Error> {
        let turn: Self = match (raw.reply, raw.fault) {
            (Some(reply), None) => reply.into(),
            (None, Some(fault)) => fault.into(),
            (None, None) | (Some(_), Some(_)) => return Err("a turn is either a `reply` or a `fault`"),
        };
        let delay = |ms: u64| Wait::Delay(Duration::from_millis(ms));
        Ok(Self {
            before_headers: raw.before_headers_ms.map(delay),
            in_body: raw.in_body_ms.map(delay),
            ..turn
        })
    }
}

impl fmt::Debug for TurnSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(rules) => f.debug_tuple("Rules").field(rules).finish(),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}
