//! Violations of the API's rules by requests.

use std::fmt;

/// A rule of the API that a request breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the request.
    pub request: usize,
    /// Path in the request's body, such as `messages[3].tool_call_id`; empty for the whole request.
    pub path: String,
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
