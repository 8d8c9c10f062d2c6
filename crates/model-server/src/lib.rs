//! A scripted model server that speaks the OpenAI API over real HTTP, for tests.
//!
//! It answers `POST /v1/chat/completions`, streamed or whole, and `GET /v1/models`, on loopback only. A [`Script`] defines the
//! replies, and what goes wrong: a [`Fault`] replaces a reply, a [`Flaw`] damages its delivery. Every request is checked as strictly as by
//! the strictest real servers: invalid requests are answered with 400, and logged for assertions. The check covers calls without results
//! and results without calls, natively or in the text (there, results are messages of the role `tool` with the tool's name, or user
//! messages that begin with `Result of NAME:`), and the order of roles.
//!
//! The server never calls a model, never leaves the machine, and waits only where the script says so.
//!
//! ```
//! use dirigent_model_server::{Fault, Matcher, ModelServer, Rule, Script, ToolCall, Turn};
//! use serde_json::json;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let server = ModelServer::start(Script::rules([
//!     // The first attempt at every request of a planner fails.
//!     Rule::always(Matcher::system("You are a planner").and_attempt(1), Fault::ServerError.into()),
//!     Rule::new(
//!         Matcher::system("You are a planner"),
//!         [Turn::calls([ToolCall::new("submit_plan", &json!({ "tasks": [] }))])],
//!     ),
//!     Rule::always(Matcher::any(), Turn::text("Done.")),
//! ]))
//! .await?;
//!
//! // … point a client at `server.url()`, then:
//! assert_eq!(server.requests().len(), 0);
//! assert_eq!(server.violations(), []);
//! # Ok::<(), dirigent_model_server::StartError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Conversations, turns, attempts
//! A conversation is identified by its leading system messages and its first user message. Its turns are
//! numbered from 1; a request with the same messages as the previous one is another attempt at the
//! same turn. Each conversation goes through a rule's turns by itself, and each attempt gets the rule's next turn: after a
//! [`Fault`] comes the answer to the retry.
//!
//! # Time
//! A [`Gate`] holds a response before its headers or within its body until the test opens it. Meanwhile
//! [`ModelServer::wait_for_requests`] waits for the request, and [`ModelServer::wait_for_hang_ups`] for
//! the client to give up.
//!
//! # Script files
//! `dirigent-model-server --script FILE.json --port N` serves a script from a file:
//!
//! ```
//! # let text = r#"
//! {
//!   "models": ["small", "large"],
//!   "api_key": "test-key",
//!   "rules": [
//!     {
//!       "when": { "system_contains": "planner", "offers_tool": "submit_plan", "attempt": 1 },
//!       "turns": [
//!         { "fault": { "rate_limited": { "retry_after": { "seconds": 1 } } } },
//!         { "fault": "closed_before_headers", "before_headers_ms": 200 }
//!       ]
//!     },
//!     {
//!       "when": { "offers_tool": "submit_plan" },
//!       "turns": [
//!         {
//!           "reply": {
//!             "text": "Here is the plan.",
//!             "tool_calls": [{ "name": "submit_plan", "arguments": { "tasks": [] } }],
//!             "usage": { "tokens": { "prompt": 120, "completion": 30 } },
//!             "flaws": ["split_arguments", { "small_frames": { "bytes": 7 } }]
//!           }
//!         }
//!       ]
//!     },
//!     {
//!       "turns": [{ "reply": { "text": "Done.", "finish_reason": "stop" }, "in_body_ms": 20 }],
//!       "after_last": "repeat"
//!     }
//!   ]
//! }
//! # "#;
//! # dirigent_model_server::Script::from_json(text)?;
//! # Ok::<(), dirigent_model_server::ScriptError>(())
//! ```
//!
//! - `models` and `api_key` are optional ([`Script::with_models`], [`Script::with_api_key`]).
//! - A rule has the fields of [`Rule`], and its `when` those of [`Matcher`].
//! - A turn has a `reply` ([`Reply`]) or a `fault` ([`Fault`], its name in snake case), and may wait:
//!   `before_headers_ms`, and `in_body_ms` before each event except the first.
//! - `flaws` are [`Flaw`]s in snake case. Unknown fields are refused, with their path.
#![warn(missing_docs)]

mod body;
mod check;
mod completion;
mod fault;
mod flaw;
mod gate;
mod message;
mod reply;
mod request;
mod request_log;
mod response_guard;
mod script;
mod server;
mod text_calls;
mod violation;

pub use fault::{Fault, RetryAfter};
pub use flaw::Flaw;
pub use gate::{Gate, Wait};
pub use reply::{FinishReason, Reply, ToolCall, Usage};
pub use request::Request;
pub use script::{AfterLast, Matcher, Rule, Script, ScriptError, Turn};
pub use server::{ModelServer, StartError};
pub use violation::{Violation, ViolationKind};
