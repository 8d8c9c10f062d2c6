//! The tools as agents call them, a module for each tool or concern: one program, as linking all tools takes longer than most of these tests.
//!
//! A test that needs its own process is a file next to this one with an entry in `Cargo.toml`.

mod apply_patch;
mod attacks;
mod execute_command;
mod execute_command_changes;
mod execute_command_ended;
mod files_changed;
mod files_edited;
mod files_interrupted;
mod files_jail;
mod files_read;
mod files_seen;
mod files_text;
mod files_undone;
mod folder;
mod git;
mod http_request;
#[cfg(unix)]
mod meanwhile;
mod rename_symbol;
mod restoring;
mod sandbox;
mod search;
mod sql_servers;
mod sql_sqlite;
mod symbols;
mod typed;
#[cfg(unix)]
mod worktree;
