//! Reports, usage tables and drawings, as people read them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../core/tests/machines/driver.rs"]
#[allow(dead_code)]
mod driver;
#[path = "../../../core/tests/machines/fixture.rs"]
#[allow(dead_code)]
mod fixture;
mod graph;
#[path = "../../../core/tests/machines/plans.rs"]
#[allow(dead_code)]
mod plans;
#[path = "../../../core/tests/machines/renamed.rs"]
mod renamed;
mod report;
mod usage;
