//! Tests of the types and functions that the machines use, through their public API, one module each. The tests of the machines are in
//! `machines`.

mod budget;
mod call;
mod call_check;
mod intents;
mod plan;
mod policy;
mod undo;
