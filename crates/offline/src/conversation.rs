//! Parsing of a conversation: the agent's role, its request, and the results so far.
//!
//! The offline model is stateless: for each reply, it works through its task from the start. When it needs the result of a call, and the
//! conversation does not contain the result yet, it replies with the call: see [`Conversation::result_of`].

use std::collections::{BTreeSet, VecDeque};

use dirigent_core::call::{SUBMIT_PLAN, SUBMIT_REFLECTION};
use dirigent_core::message::Message;

use dirigent_core::tool::{ModelToolResult, code};
use serde::Deserialize;
use serde_json::{Value, json};

/// A call in the JSON form (CALL-1).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Call {
    pub tool: String,
    #[serde(default)]
    pub parameters: Value,
    /// Whether the call ends the agent's work.
    #[serde(default)]
    pub terminate: bool,
}

impl Call {
    /// Creates a call that does not end the agent's work.
    pub fn new(tool: &str, parameters: Value) -> Self {
        Call {
            tool: tool.to_owned(),
            parameters,
            terminate: false,
        }
    }

    /// Creates a call that ends the agent's work.
    pub fn terminating(tool: &str, parameters: Value) -> Self {
        Call {
            terminate: true,
            ..Call::new(tool, parameters)
        }
    }

    /// Returns the text of a reply that makes the call.
    pub fn to_json(&self) -> String {
        json!({"tool": self.tool, "parameters": self.parameters, "terminate": self.terminate}).to_string()
    }
}

/// Returns true if it is unknown whether the call took effect, because the run stopped while the call was in flight (HOST-2).
pub(crate) fn was_interrupted(result: &ModelToolResult) -> bool {
    result.code.as_deref() == Some(code::INTERRUPTED)
}

/// The agent's role in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Planner,
    Reflector,
    SubAgent,
}

/// A parsed conversation.
pub(crate) struct Conversation<'a> {
    pub role: Role,
    /// The first user message.
    pub request: &'a str,
    /// The reason why the agent's last submission was rejected; `None` if there is no rejection.
    pub rejection: Option<&'a str>,
    offered_tools: BTreeSet<&'a str>,
    results: Vec<(Call, ModelToolResult)>,
}

impl<'a> Conversation<'a> {
    pub fn from_messages(messages: &'a [Message]) -> Self {
        let system = messages.iter().find_map(|message| match message {
            Message::System { content } => Some(content.as_str()),
            Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
        });
        let request = messages.iter().find_map(|message| match message {
            Message::User { content } => Some(content.as_str()),
            Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
        });
        let offered_tools = offered_tools(system.unwrap_or_default());
        let role = if offered_tools.contains(SUBMIT_PLAN) {
            Role::Planner
        } else if offered_tools.contains(SUBMIT_REFLECTION) {
            Role::Reflector
        } else {
            Role::SubAgent
        };
        let (results, rejection) = exchanges(messages);
        Conversation {
            role,
            request: request.unwrap_or_default(),
            rejection,
            offered_tools,
            results,
        }
    }

    /// Returns true if the agent has the tool.
    pub fn offers(&self, tool: &str) -> bool {
        self.offered_tools.contains(tool)
    }

    /// Returns the result of a call, or `Err` with the call if the conversation does not contain its result yet. If the agent does not
    /// have the tool, the result is a failure.
    ///
    /// An interrupted call is repeated. This is safe: reading changes nothing, and an edit that took effect no longer finds its old text.
    pub fn result_of(&self, call: Call) -> Result<ModelToolResult, Call> {
        if !self.offers(&call.tool) {
            let error = format!("the tool `{}` is not offered here", call.tool);
            return Ok(ModelToolResult {
                error: Some(error),
                ..ModelToolResult::default()
            });
        }
        // The last result of a repeated call shows the current state.
        let result = self
            .results
            .iter()
            .rev()
            .find(|(made, _)| made.tool == call.tool && made.parameters == call.parameters);
        match result {
            Some((_, result)) if !was_interrupted(result) => Ok(result.clone()),
            Some(_) | None => Err(call),
        }
    }
}

/// Returns the tools that a system prompt describes. Each tool has a second-level heading.
fn offered_tools(system: &str) -> BTreeSet<&str> {
    system
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(str::trim)
        .filter(|name| !name.is_empty() && !name.contains(char::is_whitespace))
        .collect()
}

/// Returns the calls with their results in order, and the message that rejected the last terminating call; `None` if it was not rejected.
fn exchanges(messages: &[Message]) -> (Vec<(Call, ModelToolResult)>, Option<&str>) {
    let mut results = Vec::new();
    let mut pending: VecDeque<Call> = VecDeque::new();
    let mut submitted = false;
    let mut rejection = None;
    for message in messages {
        match message {
            Message::System { .. } => {}
            Message::Assistant { content, calls } => {
                pending = calls
                    .iter()
                    .map(|call| Call {
                        terminate: call.terminate,
                        ..Call::new(&call.tool, call.parameters.clone())
                    })
                    .collect();
                if pending.is_empty() {
                    pending.extend(serde_json::from_str::<Call>(content).ok());
                }
                submitted = pending.iter().any(|call| call.terminate);
            }
            Message::Tool { content, name, .. } => {
                if submitted {
                    rejection = Some(content.as_str());
                }
                let at = pending.iter().position(|call| call.tool == *name).unwrap_or(0);
                if let Some(call) = pending.remove(at) {
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
