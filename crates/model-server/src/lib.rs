//! The servers of the tests: [`HttpServer`] answers with canned bytes, well-formed or not; [`ModelServer`] speaks the OpenAI API.
//!
//! # The model server
//! It answers `POST /v1/chat/completions`, streamed or whole, and `GET /v1/models`. A [`Script`] defines the
//! replies, and what goes wrong: a [`Fault`] replaces a reply, a [`Flaw`] damages its delivery. Every request is checked as strictly as by
//! the strictest real servers: invalid requests are answered with 400, and logged for assertions. The check covers calls without results
//! and results without calls, natively or in the text (there, results are messages of the role `tool` with the tool's name, or user
//! messages that begin with `Result of NAME:`), and the order of roles.
//!
//! The servers never call a model, never leave the machine, and wait only where the test says so.
//!
//! ```
//! use dirigent_model_server::{Fault, Matcher, ModelServer, Rule, Script, ToolCall, Turn};
//! use serde_json::json;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let server = ModelServer::start(Script::rules([
//!     // The first attempt at every request of a lead fails.
//!     Rule::always(Matcher::system("You are a lead").and_attempt(1), Fault::Status(500, "Try again.").into()),
//!     Rule::new(
//!         Matcher::system("You are a lead"),
//!         [Turn::calls([ToolCall::new("submit_plan", &json!({ "tasks": [] }))])],
//!     ),
//!     Rule::always(Matcher::any(), Turn::text("Done.")),
//! ]))
//! .await?;
//!
//! // … point a client at `server.url()`, then:
//! assert_eq!(server.requests().len(), 0);
//! assert_eq!(server.violations(), []);
//! # Ok::<(), std::io::Error>(())
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
//! A [`Gate`] holds a response before its headers or within its body until the test opens it. Until then,
//! [`ModelServer::wait_for_requests`] waits for the request, and [`ModelServer::wait_for_hang_ups`] for
//! the client to give up.
#![warn(missing_docs)]

mod body;
mod check;
mod completion;
mod fault;
mod flaw;
mod gate;
mod http;
mod message;
mod reply;
mod request;
mod request_log;
mod script;
mod server;
mod text_calls;
mod violation;

pub use fault::{Fault, RetryAfter};
pub use flaw::Flaw;
pub use gate::Gate;
pub use http::{HttpAnswer, HttpRequest, HttpServer, Then};
pub use reply::{FinishReason, Reply, ToolCall, Usage};
pub use request::Request;
pub use script::{Matcher, Rule, Script, Turn};
pub use server::ModelServer;
pub use violation::Violation;
