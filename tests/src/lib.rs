//! Fixtures of the end-to-end tests.

pub mod approving;
pub mod cli;
pub mod http_client;
pub mod mcp_client;
pub mod probes;
pub mod pty;
pub mod scripted;
pub mod served;
pub mod service;
pub mod stage;
