//! Tool calls: from a model's reply to validated calls.
//!
//! A [`ReplyParser`] finds the calls in a reply, in the model's configured form or in any form ([`CallForm`], CALL-1 to CALL-5), and
//! distinguishes them from quotations of the model's context ([`ContextCalls`], CALL-7). [`ToolSet::check`] validates a call against its
//! tool's schema (CALL-6). [`reply_schema`] is a schema of replies for servers that enforce one. No other module depends on the form of a call.

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
