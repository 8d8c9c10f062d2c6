//! Runs through the public API: scripted models and tools, real actors, a real journal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod budget;
mod cancelling;
mod deltas;
mod failures;
mod journal_failure;
mod questions;
mod resuming;
mod script;
mod several;
mod whole_run;
mod world;
