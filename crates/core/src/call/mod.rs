//! How a model calls a tool: from what it said to calls that may run.
//!
//! A [`ReplyParser`] finds the calls in a reply, in the form that was chosen for the model or in whichever form they
//! came ([`CallForm`], CALL-1 to CALL-5), and tells them from those that it only quotes of what the model was given
//! ([`ContextCalls`], CALL-7); [`ToolSet::check`] validates one against its tool's schema (CALL-6); [`reply_schema`] is
//! what a server can hold a model to. Nothing past this module knows which form a call had.

mod context_calls;
mod form;
mod json;
mod json_scanner;
mod lookalike;
mod malformed;
mod markup;
mod name;
mod reply_parser;
mod scan;
mod schema;
mod shape;
mod submission;
mod tool_set;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use context_calls::ContextCalls;
pub use form::CallForm;
pub use json::read_arguments;
pub use malformed::MalformedReply;
pub(crate) use name::{json_type, nearest, quoted, quoted_list};
pub use reply_parser::{ReplyContent, ReplyParser, parse};
pub use schema::reply_schema;
pub use tool_set::{CallError, ParameterProblem, ToolSet};

/// A call of a tool, in the one inner form (CALL-4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id, or one that the machine gave it; the result carries it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// Its parameters, an object.
    pub parameters: Value,
    /// Whether the result of this call is the agent's final one (CALL-1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
}
