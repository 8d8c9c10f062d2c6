//! The stories that are told of Dirigent, each from the goal to what the user reads in the end: through the public API, with a model that
//! says what the test wrote down.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod approving;
mod misbehaving;
mod one_file;
mod renaming;
