//! Whole stories, each from the goal to the text that the user finally reads: through the public API, with scripted model replies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod approving;
mod misbehaving;
mod one_file;
mod renaming;
