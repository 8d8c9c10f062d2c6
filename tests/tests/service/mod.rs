//! PROMPT-3, HOST-2, HOST-8, HOST-11: the HTTP service, through real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod command;
mod conversations;
mod limits;
mod mcp;
mod runs;
mod system_prompts;
mod webhooks;
