//! PROMPT-3, HOST-2, HOST-8, HOST-11: the HTTP service, through real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod all_runs;
mod clients;
mod command;
mod console;
mod conversations;
mod decisions;
mod examples;
mod idempotency;
mod limits;
mod mcp;
mod passthrough;
mod reference;
mod registries;
mod runs;
mod system_prompts;
mod webhooks;
mod workflows;
