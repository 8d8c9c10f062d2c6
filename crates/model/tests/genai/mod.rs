//! Models asked through `genai`, against a server that says what the test wants: what goes over the wire, and what is made of what
//! comes back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod anthropic;
mod failures;
mod gemini;
mod lists;
mod requests;
mod secrets;
mod server;
