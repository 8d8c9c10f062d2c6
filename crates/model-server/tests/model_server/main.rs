//! The server as a client sees it: bytes on a socket, and a client written by others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checks;
mod command;
mod conversations;
mod faults;
mod flaws;
mod peer;
mod replies;
mod socket;
mod time;
