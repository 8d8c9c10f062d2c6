//! Dirigent over HTTP: runs, conversations and what waits for the user. `docs/service.md` describes the API.
//!
//! The service decides nothing: every request calls the library, so that the command line, programs and HTTP clients see the same runs. It holds the token, the sessions of
//! browsers, its limits, the slots for active runs, the states of runs for those who watch them, the usage of runs that was read, the sessions of MCP clients, and until when
//! webhooks were called. All of this may be lost with the process, except the token, the sessions of browsers and the progress of webhooks, which are files.
//!
//! ```no_run
//! use dirigent::Dirigent;
//! use dirigent_server::{Server, ServerOptions, Token};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let dirigent = Dirigent::builder().build().await?;
//! let token = Token::load_or_create("/var/lib/dirigent/token".as_ref())?.token;
//! let server = Server::bind(dirigent, token, ServerOptions::default()).await?;
//! println!("listening on http://{}", server.address());
//! server.run(std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

mod access;
mod agents;
mod all_runs;
mod approval_rules;
mod approvals;
mod board;
mod clock;
mod completion;
mod connections;
mod console;
mod conversations;
mod decisions;
mod described_routes;
mod entrance;
mod event_pages;
mod event_stream;
mod files;
mod idempotency;
mod input;
mod limits;
mod mcp;
mod mcp_services;
mod memory;
mod messages;
mod openapi;
mod options;
mod outputs;
mod passthrough;
mod permits;
mod private_files;
mod problem;
mod reference;
mod requested_goal;
mod requests_of_user;
mod router;
mod run_changes;
mod run_input;
mod run_slots;
mod runs;
mod schemas;
mod server;
mod service;
mod sessions;
mod steering;
mod system_prompts;
mod token;
mod usage;
mod webhooks;
mod workflows;

pub use mcp::{Decider, McpServer, McpServerError};
pub use openapi::openapi;
pub use options::{DEFAULT_ADDRESS, ServerLimits, ServerOptions};
pub use reference::reference_markdown;
pub use run_slots::RunSlots;
pub use server::{Server, ServerError};
pub use token::{LoadedToken, Token, TokenError, TokenOrigin, reachable};
pub use webhooks::{Webhook, WebhookError, WebhookOptions};
