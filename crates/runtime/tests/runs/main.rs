//! Runs through the public API: scripted models and tools, real actors, a real journal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agent_questions;
mod approvals;
mod budget;
mod cancelling;
mod damaged;
mod delegating;
mod deltas;
mod events;
mod failures;
mod forking;
mod fragile;
mod inbox;
mod journal_failure;
mod pending;
mod questions;
mod redirecting;
mod resuming;
mod script;
mod several;
mod shutting_down;
mod supervision;
mod supervision_steering;
mod whole_run;
mod world;
