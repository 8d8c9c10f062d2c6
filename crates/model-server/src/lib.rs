//! A scripted model server that speaks the OpenAI API over real HTTP, for tests.
//!
//! It answers `POST /v1/chat/completions`, streaming and not, and `GET /v1/models`, on loopback only. What it
//! says comes from a [`Script`]; what can go wrong on the way comes from a [`Fault`] (an answer in place of a
//! reply) or a [`Flaw`] (something wrong with a reply's delivery). It checks every request as strictly as the
//! strictest of real servers, refuses what is wrong with 400 and keeps it all for assertions: calls and results that don't belong
//! together, whether calls are apart from the text or stand in it (results are then a tool's messages with its name, or a user's that
//! begin with `Result of NAME:`), and roles out of order.
//!
//! It never calls a model, never leaves the machine, and never sleeps unless the script says so.
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
//! A conversation is recognised by its leading system messages and its first user message. Its requests are
//! numbered from 1; a request with the same messages as the one before it is a repeat, another attempt at the
//! same turn. Each conversation goes through a rule's turns by itself, and a repeat gets the next turn: after a
//! [`Fault`] comes what the retry is to see.
//!
//! # Time
//! A [`Gate`] holds an answer before its headers or within its body until the test opens it. Meanwhile
//! [`ModelServer::wait_for_requests`] tells that the request came, and [`ModelServer::wait_for_hang_ups`] that
//! the client gave up.
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
//! - `models` and `api_key` may be left out ([`Script::with_models`], [`Script::with_api_key`]).
//! - A rule has the fields of [`Rule`], its `when` those of [`Matcher`], all of which must hold.
//! - A turn has a `reply` ([`Reply`]) or a `fault` ([`Fault`], its name in snake case), and may wait:
//!   `before_headers_ms`, and `in_body_ms` before each event but the first.
//! - `flaws` are [`Flaw`]s in snake case. Unknown fields are refused, with their place.
#![warn(missing_docs)]

mod body;
mod check;
mod completion;
mod fault;
mod flaw;
mod gate;
mod reply;
mod request;
mod request_log;
mod script;
mod server;
mod text_calls;

pub use check::{Violation, ViolationKind};
pub use fault::{Fault, RetryAfter};
pub use flaw::Flaw;
pub use gate::{Gate, Wait};
pub use reply::{FinishReason, Reply, ToolCall, Usage};
pub use request::Request;
pub use script::{AfterLast, Matcher, Rule, Script, ScriptError, Turn};
pub use server::{ModelServer, StartError};
