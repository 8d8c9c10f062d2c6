//! Tests of the types and functions that the machines use, through their public API, one module each. The tests of the machines are in
//! `machines`.

mod budget;
mod call;
mod call_check;
mod call_patterns;
mod intents;
mod plan;
mod policy;
mod policy_addresses;
mod undo;
