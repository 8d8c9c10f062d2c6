//! Models that wrap others: asking again, asking another, keeping to a provider's limits (HOST-7), and saying what replies cost. Time is
//! paused: it passes only where all wait, and by exactly as much as they wait for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fallback;
mod limits;
mod price;
mod retry;
mod script;
mod storms;
