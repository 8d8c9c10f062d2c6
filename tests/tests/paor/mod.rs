//! PAOR: a whole run, from its goal to its one recorded end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acting;
mod ending;
mod lead;
mod reach;
mod reflecting;
