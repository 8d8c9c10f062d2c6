//! Rules of the API that a request breaks.

use std::fmt;

/// A rule of the API that a request breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Number of the request.
    pub request: usize,
    /// Path in the request's body, such as `messages[3].tool_call_id`; empty for the whole request.
    pub path: String,
    /// Kind of the broken rule.
    pub kind: ViolationKind,
    /// Description for people.
    pub reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.request)?;
        if !self.path.is_empty() {
            write!(f, ", {}", self.path)?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Kind of a broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// `Content-Type` is not `application/json`.
    ContentType,
    /// The body is not a JSON object.
    NotJson,
    /// A field is missing or has the wrong type.
    Field,
    /// A role is unknown or out of order.
    Order,
    /// A message's content has a type that its role does not allow.
    Content,
    /// A tool call has no result.
    OrphanCall,
    /// A result has no tool call before it.
    OrphanResult,
    /// A call's id, a result or a tool's name occurs twice.
    Duplicate,
    /// The script has no turn for the request.
    Unscripted,
}
