//! The journal through its public API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod append;
mod backup;
mod check;
mod claims;
mod contents;
mod export;
mod facts;
mod find;
mod fixture;
mod follow;
mod fork;
mod integrity;
mod mcp_services;
mod messages;
mod open;
mod other_process;
mod prune;
mod run_changes;
mod run_page;
mod tail;
