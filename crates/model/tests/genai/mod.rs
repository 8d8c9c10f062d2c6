//! Models accessed through `genai`, with a scripted server: the requests that are sent, and how the responses are parsed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod anthropic;
mod failures;
mod gemini;
mod lists;
mod requests;
mod secrets;
mod server;
