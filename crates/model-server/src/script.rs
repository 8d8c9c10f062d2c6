//! What the server answers, and to whom: rules with turns, or a function.
//!
//! A script holds no state; which turn comes next is counted by the server, for each conversation by itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

use crate::fault::Fault;
use crate::gate::Wait;
use crate::reply::{Reply, ToolCall};
use crate::request::Request;

/// What the server answers.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) models: Vec<String>,
    pub(crate) api_key: Option<String>,
    pub(crate) turn_source: TurnSource,
}

/// A script in code.
pub(crate) type TurnFn = Arc<dyn Fn(&Request) -> Turn + Send + Sync>;

/// Where the turns come from.
#[derive(Clone)]
pub(crate) enum TurnSource {
    Rules(Vec<Rule>),
    Function(TurnFn),
}

impl Script {
    /// Each request is answered by the first rule that matches it and has a turn left.
    pub fn rules(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self::new(TurnSource::Rules(rules.into_iter().collect()))
    }

    /// Every conversation gets these turns in order. A request beyond them is a violation.
    pub fn turns(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::rules([Rule::new(Matcher::any(), turns)])
    }

    /// Every request gets what the function says.
    pub fn from_fn(function: impl Fn(&Request) -> Turn + Send + Sync + 'static) -> Self {
        Self::new(TurnSource::Function(Arc::new(function)))
    }

    /// Reads a script file. The crate's page shows its form.
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

    /// Only these models exist; a request for another is answered with 404. Where none is named, every name is
    /// answered, and `scripted-model` is listed.
    pub fn with_models<M: Into<String>>(self, models: impl IntoIterator<Item = M>) -> Self {
        Self {
            models: models.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Requests without this bearer token are answered with 401.
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

/// What is wrong with a script file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the script is not valid at {path}: {problem}")]
pub struct ScriptError {
    /// Where, as `rules[0].turns[2].fault`.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
}

/// Turns for the requests that match.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Which requests it answers.
    #[serde(default)]
    pub when: Matcher,
    /// The answers, in order. Each conversation has them all for itself; a repeated request gets the next one.
    pub turns: Vec<Turn>,
    /// What comes after the last turn.
    #[serde(default)]
    pub after_last: AfterLast,
}

impl Rule {
    /// Answers what matches with these turns, and then leaves it to the next rule.
    pub fn new(when: Matcher, turns: impl IntoIterator<Item = Turn>) -> Self {
        Self {
            when,
            turns: turns.into_iter().collect(),
            after_last: AfterLast::NextRule,
        }
    }

    /// Answers what matches always with this turn.
    pub fn always(when: Matcher, turn: Turn) -> Self {
        Self {
            when,
            turns: vec![turn],
            after_last: AfterLast::Repeat,
        }
    }

    /// The turn at this position.
    pub(crate) fn turn(&self, position: usize) -> Option<&Turn> {
        self.turns.get(position).or_else(|| match self.after_last {
            AfterLast::NextRule => None,
            AfterLast::Repeat => self.turns.last(),
        })
    }
}

/// What a rule does when a conversation has had all of its turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterLast {
    /// It matches no more in this conversation.
    #[default]
    NextRule,
    /// It gives its last turn again.
    Repeat,
}

/// What a request must have: everything that is named here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Matcher {
    /// A part of the system prompt.
    pub system_contains: Option<String>,
    /// A part of the last user message.
    pub user_contains: Option<String>,
    /// A part of the last message, whoever said it.
    pub last_contains: Option<String>,
    /// The model asked for.
    pub model: Option<String>,
    /// A tool on offer.
    pub offers_tool: Option<String>,
    /// Which request of its conversation it is, from 1; repeats of it have the same number.
    pub turn: Option<usize>,
    /// Which attempt at the same request it is, from 1.
    pub attempt: Option<usize>,
}

impl Matcher {
    /// Matches every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Where the system prompt contains this.
    pub fn system(part: impl Into<String>) -> Self {
        Self::any().and_system(part)
    }

    /// Where the last user message contains this.
    pub fn user(part: impl Into<String>) -> Self {
        Self::any().and_user(part)
    }

    /// And the system prompt contains this.
    pub fn and_system(self, part: impl Into<String>) -> Self {
        Self {
            system_contains: Some(part.into()),
            ..self
        }
    }

    /// And the last user message contains this.
    pub fn and_user(self, part: impl Into<String>) -> Self {
        Self {
            user_contains: Some(part.into()),
            ..self
        }
    }

    /// And the last message contains this.
    pub fn and_last(self, part: impl Into<String>) -> Self {
        Self {
            last_contains: Some(part.into()),
            ..self
        }
    }

    /// And this model is asked for.
    pub fn and_model(self, model: impl Into<String>) -> Self {
        Self {
            model: Some(model.into()),
            ..self
        }
    }

    /// And this tool is on offer.
    pub fn and_tool(self, name: impl Into<String>) -> Self {
        Self {
            offers_tool: Some(name.into()),
            ..self
        }
    }

    /// And it is the conversation's nth request, from 1, repeats not counted.
    pub fn and_turn(self, turn: usize) -> Self {
        Self {
            turn: Some(turn),
            ..self
        }
    }

    /// And it is the nth attempt at the same request, from 1.
    pub fn and_attempt(self, attempt: usize) -> Self {
        Self {
            attempt: Some(attempt),
            ..self
        }
    }

    /// Whether the request has all of it.
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

/// One answer and its pace.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawTurn")]
pub struct Turn {
    pub(crate) outcome: TurnOutcome,
    pub(crate) before_headers: Option<Wait>,
    pub(crate) in_body: Option<Wait>,
}

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) enum TurnOutcome {
    Reply(Reply),
    Fault(Fault),
}

impl Turn {
    /// A reply of text.
    pub fn text(text: impl Into<String>) -> Self {
        Reply::text(text).into()
    }

    /// A reply that calls tools.
    pub fn calls(tool_calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Reply::calls(tool_calls).into()
    }

    /// Waits for this before the answer's first byte.
    pub fn wait_before_headers(self, wait: impl Into<Wait>) -> Self {
        Self {
            before_headers: Some(wait.into()),
            ..self
        }
    }

    /// Waits for this before each part of the body but the first: a stream's parts are its events, plain JSON
    /// comes in two halves.
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
