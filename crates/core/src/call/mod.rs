//! How a model calls a tool: from what it said to calls that may run.
//!
//! A [`ReplyParser`] finds the calls in a reply, in the form that was chosen for the model or in whichever form they
//! came ([`CallForm`], CALL-1 to CALL-5), and tells them from those that it only quotes of what the model was given
//! ([`ContextCalls`], CALL-7); [`ToolSet::check`] validates one against its tool's schema (CALL-6); [`reply_schema`] is
//! what a server can hold a model to. Nothing past this module knows which form a call had.

mod candidate;
mod context_calls;
mod form;
mod json;
mod json_scanner;
mod keys;
mod lookalike;
mod malformed;
mod markup;
mod reply_parser;
mod scan;
mod schema;
mod shape;
mod submission;
mod tool_set;

pub use context_calls::ContextCalls;
pub use form::CallForm;
pub use json::read_arguments;
pub use malformed::MalformedReply;
pub use reply_parser::{ReplyContent, ReplyParser, parse};
pub use schema::reply_schema;
pub use submission::{SUBMIT_PLAN, SUBMIT_REFLECTION};
pub use tool_set::{CallError, ParameterProblem, ToolSet};
