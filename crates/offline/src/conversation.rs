//! A conversation as the offline model reads it: who it is here, what it is asked, and what it has seen so far.
//!
//! The model keeps nothing between replies. It works through its task from the start each time, and where it needs to
//! see something that no result of the conversation shows yet, that call is its reply: see [`Conversation::result_of`].

use std::collections::BTreeSet;

use dirigent_core::call::{SUBMIT_PLAN, SUBMIT_REFLECTION};
use dirigent_core::message::Message;
use serde::Deserialize;
use serde_json::{Value, json};

/// A call in the JSON form (CALL-1).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Call {
    /// The tool's name.
    pub tool: String,
    /// Its parameters.
    #[serde(default)]
    pub parameters: Value,
    /// Whether its result is the agent's last word.
    #[serde(default)]
    pub terminate: bool,
}

impl Call {
    /// A call whose result is to be read.
    pub fn new(tool: &str, parameters: Value) -> Self {
        Call {
            tool: tool.to_owned(),
            parameters,
            terminate: false,
        }
    }

    /// A call that ends the agent's work.
    pub fn terminating(tool: &str, parameters: Value) -> Self {
        Call {
            terminate: true,
            ..Call::new(tool, parameters)
        }
    }

    /// The reply that makes the call.
    pub fn to_json(&self) -> String {
        json!({"tool": self.tool, "parameters": self.parameters, "terminate": self.terminate}).to_string()
    }
}

/// What came of a call: what [`dirigent_core::tool::ToolResult::for_model`] shows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct CallResult {
    /// Whether it did what was asked.
    pub success: bool,
    /// What there is to read.
    pub output: Value,
    /// What was wrong.
    pub error: Option<String>,
    /// What it changed, in words.
    pub changes: Vec<String>,
}

impl CallResult {
    /// Whether it is unknown what came of the call, as the process ended meanwhile (HOST-2).
    pub fn was_interrupted(&self) -> bool {
        let error = self.error.as_deref().unwrap_or_default();
        !self.success && error.contains("was interrupted: the process ended while it ran")
    }
}

/// What the agent is to its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It makes the plan.
    Planner,
    /// It judges the iteration.
    Reflector,
    /// It executes a task.
    SubAgent,
}

/// A conversation, read.
pub(crate) struct Conversation<'a> {
    /// What the agent is.
    pub role: Role,
    /// The first thing that was asked.
    pub request: &'a str,
    /// What was said to a plan that was not accepted.
    pub rejection: Option<&'a str>,
    offered: BTreeSet<&'a str>,
    results: Vec<(Call, CallResult)>,
}

impl<'a> Conversation<'a> {
    /// Reads the messages; none is required.
    pub fn from_messages(messages: &'a [Message]) -> Self {
        let system = messages.iter().find_map(|message| match message {
            Message::System { content } => Some(content.as_str()),
            Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
        });
        let request = messages.iter().find_map(|message| match message {
            Message::User { content } => Some(content.as_str()),
            Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
        });
        let offered = offered(system.unwrap_or_default());
        let role = if offered.contains(SUBMIT_PLAN) {
            Role::Planner
        } else if offered.contains(SUBMIT_REFLECTION) {
            Role::Reflector
        } else {
            Role::SubAgent
        };
        let (results, rejection) = exchanges(messages);
        Conversation {
            role,
            request: request.unwrap_or_default(),
            rejection,
            offered,
            results,
        }
    }

    /// Whether the tool is one of the agent's.
    pub fn offers(&self, tool: &str) -> bool {
        self.offered.contains(tool)
    }

    /// What came of the call; where it was not made yet, the call to make. A tool that the agent hasn't got fails.
    ///
    /// A call that was interrupted is made again: a look changes nothing, and an edit that has happened already does not
    /// find its old text.
    pub fn result_of(&self, call: Call) -> Result<CallResult, Call> {
        if !self.offers(&call.tool) {
            let error = format!("the tool `{}` is not offered here", call.tool);
            return Ok(CallResult {
                error: Some(error),
                ..CallResult::default()
            });
        }
        // The last one: a call that was made again, after a change, is about what is there now.
        let result = self
            .results
            .iter()
            .rev()
            .find(|(made, _)| made.tool == call.tool && made.parameters == call.parameters);
        match result {
            Some((_, answer)) if !answer.was_interrupted() => Ok(answer.clone()),
            Some(_) | None => Err(call),
        }
    }
}

/// The tools that a system prompt describes: each has a heading of the second level.
fn offered(system: &str) -> BTreeSet<&str> {
    system
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(str::trim)
        .filter(|name| !name.is_empty() && !name.contains(char::is_whitespace))
        .collect()
}

/// The calls with their results, in order, and what was said to a call that was the last one and wasn't accepted.
fn exchanges(messages: &[Message]) -> (Vec<(Call, CallResult)>, Option<&str>) {
    let mut results = Vec::new();
    let mut made: std::collections::VecDeque<Call> = std::collections::VecDeque::new();
    let mut submitted = false;
    let mut rejection = None;
    for message in messages {
        match message {
            Message::System { .. } => {}
            Message::Assistant { content, calls } => {
                made = calls
                    .iter()
                    .map(|call| Call {
                        terminate: call.terminate,
                        ..Call::new(&call.tool, call.parameters.clone())
                    })
                    .collect();
                if made.is_empty() {
                    made.extend(serde_json::from_str::<Call>(content).ok());
                }
                submitted = made.iter().any(|call| call.terminate);
            }
            Message::Tool { content, name, .. } => {
                if submitted {
                    rejection = Some(content.as_str());
                }
                let at = made.iter().position(|call| call.tool == *name).unwrap_or(0);
                if let Some(call) = made.remove(at) {
                    results.push((call, serde_json::from_str(content).unwrap_or_default()));
                }
            }
            Message::User { content } => {
                if submitted {
                    rejection = Some(content.as_str());
                }
            }
        }
    }
    (results, rejection)
}
