//! How a model calls a tool: from what it said to calls that may run.
//!
//! A [`ReplyParser`] finds the calls in a reply, in the form that was chosen for the model or in whichever form they
//! came ([`CallForm`], CALL-1 to CALL-5), and tells them from those that it only quotes of what the model was given
//! ([`GivenCalls`], CALL-7); [`ToolSet::check`] validates one against its tool's schema (CALL-6); [`reply_schema`] is
//! what a server can hold a model to. Nothing past this module knows which form a call had.

mod check;
mod extract;
mod form;
mod given;
mod json;
mod lookalike;
mod malformed;
mod markup;
mod name;
mod reader;
mod scan;
mod schema;
mod shape;
mod submission;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use check::{CallFault, ParameterProblem, ToolSet};
pub use extract::{ReplyParser, Said, parse};
pub use form::CallForm;
pub use given::GivenCalls;
pub use json::read_arguments;
pub use malformed::Malformed;
pub(crate) use name::{kind, listed, nearest, quoted};
pub use schema::reply_schema;

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
