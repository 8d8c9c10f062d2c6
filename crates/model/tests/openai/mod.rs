//! The OpenAI-compatible model with a scripted server, whose responses may be malformed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod failures;
mod faults;
mod replies;
mod requests;
mod secrets;
mod server;
mod streams;
