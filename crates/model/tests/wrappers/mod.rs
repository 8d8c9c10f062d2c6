//! Wrappers of models: retries, fallback, a provider's rate limits (HOST-7), and the cost of replies. The clock is paused: time passes only
//! while all tasks wait, and exactly as much as they wait for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fallback;
mod limits;
mod price;
mod retry;
mod script;
mod storms;
