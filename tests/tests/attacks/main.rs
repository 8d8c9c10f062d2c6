//! A model's replies are untrusted, and so is all that tools read. Each row of these tables is an attack that a whole agent loop carries out
//! on the built-in tools, with what its model is told of it; `dirigent_tests::attack` says what is checked after every one.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod code;
mod commands;
mod files;
mod http;
mod listeners;
mod sql;
