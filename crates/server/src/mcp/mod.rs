//! Dirigent as a server of the Model Context Protocol: another agent delegates a goal, waits for it and reads what it changed.
//!
//! Over stdio it is one client's own server, limited to the folders of that client ([`McpServer`]); over HTTP it is a part of the service, at `/mcp`. The
//! tools only call the library. A call that needs approval is decided by a person: through the client where it can ask one, otherwise with the command line or in the
//! console. The calling model decides nothing unless the owner allows it ([`Decider::Model`]).

mod arguments;
mod folders;
mod handler;
mod host;
mod http;
mod person;
mod person_forms;
mod progress;
mod requests;
mod results;
mod sessions;
mod snapshot;
mod stdio;
mod tools;
mod waiting;

pub use host::Decider;
pub use stdio::{McpServer, McpServerError};

pub(crate) use http::McpEndpoint;
