//! The journal through its public API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod append;
mod claims;
mod contents;
mod facts;
mod find;
mod fixture;
mod follow;
mod fork;
mod integrity;
mod maintenance;
mod messages;
mod open;
mod other_process;
mod run_page;
mod tail;
