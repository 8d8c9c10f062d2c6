//! A script decides what the server answers: it is either a list of rules, each with its turns, or a function from requests to turns.
//!
//! A script has no state; the server counts the turns of each conversation.

use std::sync::Arc;

use crate::fault::Fault;
use crate::gate::Gate;
use crate::reply::{Reply, ToolCall};
use crate::request::Request;

/// The server's answers.
#[derive(Clone)]
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
    /// Answers each request with the next turn of the first matching rule that has a turn left.
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

/// Turns for matching requests.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(crate) when: Matcher,
    /// The answers, in order. Each conversation goes through all of them; a repeated request gets the next one.
    turns: Vec<Turn>,
    repeats_last: bool,
}

impl Rule {
    /// Answers matching requests with these turns, and leaves further requests to the next rule.
    pub fn new(when: Matcher, turns: impl IntoIterator<Item = Turn>) -> Self {
        Self {
            when,
            turns: turns.into_iter().collect(),
            repeats_last: false,
        }
    }

    /// Answers all matching requests with this turn.
    pub fn always(when: Matcher, turn: Turn) -> Self {
        Self {
            when,
            turns: vec![turn],
            repeats_last: true,
        }
    }

    /// Returns the turn at this position.
    pub(crate) fn turn(&self, position: usize) -> Option<&Turn> {
        let last = self.turns.last().filter(|_| self.repeats_last);
        self.turns.get(position).or(last)
    }
}

/// Conditions on a request, all of which must hold.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    system_contains: Option<String>,
    user_contains: Option<String>,
    turn: Option<usize>,
    attempt: Option<usize>,
}

impl Matcher {
    /// Matches every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Matches requests whose system prompt contains this text.
    pub fn system(part: impl Into<String>) -> Self {
        Self {
            system_contains: Some(part.into()),
            ..Self::any()
        }
    }

    /// Matches requests whose last user message contains this text.
    pub fn user(part: impl Into<String>) -> Self {
        Self::any().and_user(part)
    }

    /// Requires this text in the last user message.
    pub fn and_user(self, part: impl Into<String>) -> Self {
        Self {
            user_contains: Some(part.into()),
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
    pub(crate) fn matches(&self, request: &Request) -> bool {
        let within = |part: &Option<String>, whole: fn(&Request) -> String| {
            part.as_ref().is_none_or(|part| whole(request).contains(part))
        };
        within(&self.system_contains, Request::system_prompt)
            && within(&self.user_contains, Request::last_user_message)
            && self.turn.is_none_or(|turn| request.turn == turn)
            && self.attempt.is_none_or(|attempt| request.attempt == attempt)
    }
}

/// An answer, and the gates that hold it.
#[derive(Clone, Debug)]
pub struct Turn {
    pub(crate) outcome: Outcome,
    pub(crate) before_headers: Option<Gate>,
    pub(crate) in_body: Option<Gate>,
}

/// A reply, or a fault instead of it.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Reply(Reply),
    Fault(Fault),
}

impl Turn {
    /// Creates a text reply.
    pub fn text(text: impl Into<String>) -> Self {
        Reply::text(text).into()
    }

    /// Creates a reply that calls tools.
    pub fn calls(tool_calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Reply::calls(tool_calls).into()
    }

    /// Holds the response until the gate is open.
    pub fn wait_before_headers(self, gate: &Gate) -> Self {
        Self {
            before_headers: Some(gate.clone()),
            ..self
        }
    }

    /// Holds the body after its first part until the gate is open. The parts of a stream are its events; plain JSON has two halves.
    pub fn wait_in_body(self, gate: &Gate) -> Self {
        Self {
            in_body: Some(gate.clone()),
            ..self
        }
    }
}

impl From<Reply> for Turn {
    fn from(reply: Reply) -> Self {
        Outcome::Reply(reply).into()
    }
}

impl From<Fault> for Turn {
    fn from(fault: Fault) -> Self {
        Outcome::Fault(fault).into()
    }
}

impl From<Outcome> for Turn {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            before_headers: None,
            in_body: None,
        }
    }
}
