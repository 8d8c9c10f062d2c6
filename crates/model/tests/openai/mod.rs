//! The OpenAI-compatible model against a server that says what the test wants, well-formed or not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod failures;
mod faults;
mod replies;
mod requests;
mod secrets;
mod server;
mod streams;
