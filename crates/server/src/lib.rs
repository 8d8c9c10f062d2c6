//! Dirigent over HTTP: runs, conversations and what waits for the user. `docs/service.md` describes the API.
//!
//! The service decides nothing and stores nothing: every request calls the library, so that the command line, programs and HTTP clients see the same runs. All that
//! it holds is the token, its limits and the number of requests under way.
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
mod approvals;
mod completion;
mod connections;
mod conversations;
mod entrance;
mod event_stream;
mod input;
mod mcp;
mod messages;
mod options;
mod permits;
mod problem;
mod requests_of_user;
mod router;
mod run_changes;
mod run_input;
mod runs;
mod server;
mod service;
mod steering;
mod system_prompts;
mod token;
mod webhooks;

pub use mcp::{Decider, McpServer, McpServerError};
pub use options::{DEFAULT_ADDRESS, ServerLimits, ServerOptions};
pub use server::{Server, ServerError};
pub use token::{LoadedToken, Token, TokenError, TokenOrigin};
pub use webhooks::{Webhook, WebhookError, WebhookOptions};
