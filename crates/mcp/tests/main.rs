//! Tests of services, with programs that imitate the faults of services.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod calls;
mod elicitation;
mod faults;
mod http;
mod lifecycle;
mod real_servers;
mod support;
