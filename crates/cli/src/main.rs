//! The dirigent command.
fn main() {}
