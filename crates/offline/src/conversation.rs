//! Parsing of a conversation: the agent's role, its request, and the results so far.
//!
//! A lead is continued in the same conversation. The results of its earlier calls no longer count, because files have changed since.
//!
//! The offline model is stateless: for each reply, it works through its task from the start. When it needs the result of a call, and the
//! conversation does not contain the result yet, it replies with the call: see [`Conversation::result_of`].

use std::collections::{BTreeSet, VecDeque};

use dirigent_core::call::{SUBMIT_PLAN, SUBMIT_REFLECTION};
use dirigent_core::message::Message;
use dirigent_core::prompt::SET_PARAMETERS;
use dirigent_core::tags::unescape_tags;
use dirigent_core::tool::{ModelToolResult, code};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::prompt_sections::{Later, Sections};

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
    Lead,
    Reflector,
    SubAgent,
    /// The request to find the values of a workflow's parameters in a sentence.
    Extraction,
}

/// A parsed conversation.
pub(crate) struct Conversation<'a> {
    pub role: Role,
    /// The first user message and, for a lead, the run's later messages to it.
    pub sections: Sections<'a>,
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
        let messages = own_messages(messages);
        let request = messages.iter().find_map(|message| match message {
            Message::User { content } => Some(content.as_str()),
            Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
        });
        let offered_tools = offered_tools(system.unwrap_or_default());
        let role = if offered_tools.contains(SUBMIT_PLAN) {
            Role::Lead
        } else if offered_tools.contains(SUBMIT_REFLECTION) {
            Role::Reflector
        } else if offered_tools.contains(SET_PARAMETERS) {
            Role::Extraction
        } else {
            Role::SubAgent
        };
        let mut exchanges = Exchanges {
            sections: Sections::new(request.unwrap_or_default()),
            ..Exchanges::default()
        };
        messages.iter().for_each(|message| exchanges.add(message));
        let Exchanges {
            sections,
            results,
            rejection,
            ..
        } = exchanges;
        Conversation {
            role,
            sections,
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

/// The messages from the last request onwards, without messages of earlier turns of a conversation.
fn own_messages(messages: &[Message]) -> &[Message] {
    let is_goal = |message: &Message| match message {
        Message::User { content } => content.lines().any(|line| line == "<GOAL>"),
        Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => false,
    };
    let last = messages.iter().rposition(is_goal);
    &messages[last.unwrap_or(0)..]
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

/// The calls, results and texts of a conversation after its request.
#[derive(Default)]
struct Exchanges<'a> {
    sections: Sections<'a>,
    /// The calls with their results, in order; for a lead, since its last continuation.
    results: Vec<(Call, ModelToolResult)>,
    /// The calls of the last reply without a result.
    pending: VecDeque<Call>,
    /// True if the last reply had a terminating call.
    submitted: bool,
    /// True once there is a reply. Before that, a message is not a continuation, even if it has the same sections: it is the request.
    replied: bool,
    /// The message that rejected the last terminating call.
    rejection: Option<&'a str>,
}

impl<'a> Exchanges<'a> {
    fn add(&mut self, message: &'a Message) {
        match message {
            Message::System { .. } => {}
            Message::Assistant { content, calls } => {
                let calls = calls.iter().map(|call| Call {
                    terminate: call.terminate,
                    ..Call::new(&call.tool, call.parameters.clone())
                });
                self.pending = calls.collect();
                if self.pending.is_empty() {
                    self.pending.extend(serde_json::from_str::<Call>(content).ok());
                }
                self.replied = true;
                self.submitted = self.pending.iter().any(|call| call.terminate);
            }
            Message::Tool { content, name, .. } if name == SUBMIT_PLAN && Later::is_continuation(content) => {
                self.go_on(content);
            }
            Message::Tool { content, name, .. } => {
                let result = ModelToolResult::from_text(&unescape_tags(content));
                // If the user did not approve the plan, the lead makes a new plan with the user's guidance.
                if self.submitted && result.code.as_deref() != Some(code::NOT_APPROVED) {
                    self.rejection = Some(content.as_str());
                }
                let index = self.pending.iter().position(|call| call.tool == *name);
                if let Some(call) = self.pending.remove(index.unwrap_or(0)) {
                    self.results.push((call, result));
                }
            }
            Message::User { content } if self.replied && Later::is_continuation(content) => {
                self.go_on(content);
            }
            Message::User { content } if self.replied && Later::is_guidance(content) => {
                self.sections.add(Later {
                    text: content,
                    plan: String::new(),
                });
            }
            Message::User { content } => {
                if self.submitted {
                    self.rejection = Some(content.as_str());
                }
            }
        }
    }

    fn go_on(&mut self, text: &'a str) {
        let plan = self.pending.iter().find(|call| call.tool == SUBMIT_PLAN);
        let summary = plan.and_then(|plan| plan.parameters.get("summary")?.as_str());
        let plan = summary.unwrap_or_default().to_owned();
        *self = Exchanges {
            sections: std::mem::take(&mut self.sections),
            replied: true,
            ..Exchanges::default()
        };
        self.sections.add(Later { text, plan });
    }
}
