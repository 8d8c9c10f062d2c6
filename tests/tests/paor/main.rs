//! PAOR: a whole run, from its goal to its one recorded end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod delegation;
mod ending;
mod guidance;
mod observation;
mod plan;
mod reach;
mod result;
mod states;
