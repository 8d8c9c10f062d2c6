//! Text that replaces parts of a conversation that a provider's API cannot represent.

use std::fmt;

/// Content of a message without text and calls, such as a reply whose only calls could not be parsed. Some servers refuse an empty
/// message.
pub(crate) const EMPTY_MESSAGE: &str = "(no text)";

/// A tool's result as text of a user message: `Result of NAME:`, then the result's JSON on the next line.
pub(crate) struct ToolResultText<'a> {
    pub(crate) tool: &'a str,
    pub(crate) result: &'a str,
}

impl fmt::Display for ToolResultText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Result of {}:\n{}", self.tool, self.result)
    }
}
