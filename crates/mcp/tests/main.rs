//! The behaviour of services, with programs that do what services do wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod calls;
mod faults;
mod http;
mod lifecycle;
mod support;
