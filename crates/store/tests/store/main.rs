//! The journal at its public edge.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod append;
mod claims;
mod find;
mod fixture;
mod open;
mod tail;
