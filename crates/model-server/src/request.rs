//! A received request. Missing fields read as empty; the request's violations report them.

use serde_json::Value;

use crate::http::HttpRequest;
use crate::message::{is_system, messages, text_of};
use crate::violation::Violation;

/// A chat request that the server received.
#[derive(Clone, Debug)]
pub struct Request {
    /// Number among all requests, from 1.
    pub number: usize,
    /// Number of its conversation, from 1, in the order of first requests. A conversation is identified by its leading system
    /// messages and its first user message.
    pub conversation: usize,
    /// Number of the turn in its conversation, from 1. Repeated requests have the same number.
    pub turn: usize,
    /// Number of the attempt at the turn, from 1. A request with the same messages as the conversation's previous request is the next
    /// attempt.
    pub attempt: usize,
    /// The request as received.
    pub http: HttpRequest,
    /// The body as JSON; null if it is not JSON.
    pub body: Value,
    /// The broken rules.
    pub violations: Vec<Violation>,
}

impl Request {
    /// Returns the name of the requested model.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Returns true if the client requests a stream.
    pub(crate) fn wants_stream(&self) -> bool {
        self.body["stream"] == true
    }

    /// Returns true if the client requests a stream with a usage chunk.
    pub(crate) fn wants_usage(&self) -> bool {
        self.wants_stream() && self.body["stream_options"]["include_usage"] == true
    }

    /// Returns the messages.
    pub fn messages(&self) -> &[Value] {
        messages(&self.body)
    }

    /// Returns the texts of the leading system messages, with empty lines between.
    pub fn system_prompt(&self) -> String {
        let texts: Vec<String> = self
            .messages()
            .iter()
            .take_while(|message| is_system(message))
            .map(text_of)
            .collect();
        texts.join("\n\n")
    }

    /// Returns the text of the last user message.
    pub fn last_user_message(&self) -> String {
        self.messages()
            .iter()
            .rfind(|message| message["role"] == "user")
            .map(text_of)
            .unwrap_or_default()
    }

    /// Returns the text of the last message.
    pub fn last_message(&self) -> String {
        self.messages().last().map(text_of).unwrap_or_default()
    }

    /// Returns the names of the offered tools.
    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self.body["tools"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        tools
            .iter()
            .filter_map(|tool| tool["function"]["name"].as_str())
            .collect()
    }

    /// Returns the call ids and texts of all tool results.
    pub fn tool_results(&self) -> Vec<(&str, String)> {
        let results = self.messages().iter().filter(|message| message["role"] == "tool");
        results
            .map(|result| {
                (
                    result["tool_call_id"].as_str().unwrap_or_default(),
                    text_of(result),
                )
            })
            .collect()
    }

    /// Counts the words of all messages.
    pub(crate) fn words(&self) -> u64 {
        self.messages()
            .iter()
            .map(|message| words(&text_of(message)))
            .sum()
    }
}

/// Counts the words of the text.
pub(crate) fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Returns the messages that identify a conversation: the leading system messages and the first user message.
pub(crate) fn conversation_key(body: &Value) -> Vec<Value> {
    let messages = messages(body);
    let system = messages.iter().take_while(|message| is_system(message));
    let user = messages.iter().find(|message| message["role"] == "user");
    system.chain(user).cloned().collect()
}
