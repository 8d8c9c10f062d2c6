//! What the machines decide with, at its public edge, a module each. The machines themselves are in `machines`.

mod budget;
mod call;
mod call_check;
mod intents;
mod plan;
mod policy;
mod undo;
