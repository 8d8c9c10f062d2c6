//! A request as it came, and what it says.
//!
//! Nothing is put right here: what a request lacks reads as empty, and its check says so.

use axum::body::Bytes;
use axum::http::HeaderMap;
use serde_json::Value;

use crate::check::Violation;

/// A chat request that the server got.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its number among all requests, from 1.
    pub number: usize,
    /// Which conversation it belongs to, from 1, in order of their first requests. A conversation is recognised
    /// by its leading system messages and its first user message.
    pub conversation: usize,
    /// Which request of its conversation it is, from 1. A repeat has its original's number.
    pub turn: usize,
    /// Which attempt at it this is, from 1: 2 where the messages are those of the conversation's request before.
    pub attempt: usize,
    /// The body as it came.
    pub raw: Bytes,
    /// The body as JSON; null where it is none.
    pub body: Value,
    /// What is wrong with it.
    pub violations: Vec<Violation>,
    pub(crate) headers: HeaderMap,
}

impl Request {
    /// A header's value; none where it is missing or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The model asked for.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Whether a stream is asked for.
    pub fn wants_stream(&self) -> bool {
        self.body["stream"] == true
    }

    /// Whether a stream with a usage chunk is asked for.
    pub fn wants_usage(&self) -> bool {
        self.wants_stream() && self.body["stream_options"]["include_usage"] == true
    }

    /// The messages.
    pub fn messages(&self) -> &[Value] {
        messages(&self.body)
    }

    /// The leading system messages, joined by empty lines.
    pub fn system_prompt(&self) -> String {
        let texts: Vec<String> = self
            .messages()
            .iter()
            .take_while(|message| is_system(message))
            .map(text_of)
            .collect();
        texts.join("\n\n")
    }

    /// The text of the last message of a user.
    pub fn last_user_message(&self) -> String {
        self.messages()
            .iter()
            .rfind(|message| message["role"] == "user")
            .map(text_of)
            .unwrap_or_default()
    }

    /// The text of the last message.
    pub fn last_message(&self) -> String {
        self.messages().last().map(text_of).unwrap_or_default()
    }

    /// The names of the tools on offer.
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

    /// The results that it brings, as call ids and texts.
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

    /// How many words its messages have.
    pub(crate) fn words(&self) -> u64 {
        self.messages()
            .iter()
            .map(|message| words(&text_of(message)))
            .sum()
    }
}

/// How many words a text has.
pub(crate) fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// The messages of a body.
pub(crate) fn messages(body: &Value) -> &[Value] {
    body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether a message instructs the model.
pub(crate) fn is_system(message: &Value) -> bool {
    message["role"] == "system" || message["role"] == "developer"
}

/// The beginning that makes a conversation what it is.
pub(crate) fn conversation_key(body: &Value) -> Vec<Value> {
    let messages = messages(body);
    let system = messages.iter().take_while(|message| is_system(message));
    let user = messages.iter().find(|message| message["role"] == "user");
    system.chain(user).cloned().collect()
}

/// The text of a message, its parts joined.
pub(crate) fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}
