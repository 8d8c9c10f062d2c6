//! The offline model in whole conversations: the prompts that it receives in a run, and its replies (HOST-4).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dialogue;
mod other_requests;
mod planning_a_rename;
mod queries;
mod reflecting_on_a_rename;
mod repairing;
mod replacing;
mod sub_agents;
