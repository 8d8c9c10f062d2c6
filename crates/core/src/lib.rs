//! The data types of Dirigent and its two pure state machines.
//!
//! This crate makes every orchestration decision. [`run::Run`] drives one goal through the Plan–Act–Observe–Reflect loop, and
//! [`agent::Agent`] runs the model ⇄ tools loop of one agent. Both take an input and the current time, update their state and return
//! commands. The journal records their inputs in order, so replaying it rebuilds both state machines exactly.
//!
//! This crate does no IO, reads no clock, generates no random numbers and contains no async code. Time and ids are passed in as arguments,
//! and iteration order never depends on a hash.
#![warn(missing_docs)]

pub mod agent;
pub mod agent_report;
pub mod agent_spec;
mod answer_form;
pub mod approval;
pub mod brief;
pub mod budget;
pub mod call;
pub mod confirmation;
pub mod delegation;
pub mod digest;
pub mod end_reason;
mod ended_turn;
mod file_changes;
mod goal;
pub mod id;
mod input_description;
pub mod intent;
pub mod journal;
pub mod limits;
pub mod loop_tools;
pub mod machine;
pub mod message;
pub mod mode;
pub mod name;
pub mod observation;
pub mod phase;
pub mod plan;
pub mod policy;
pub mod price;
pub mod project;
pub mod prompt;
pub mod question;
pub mod recording;
pub mod reflection;
pub mod route;
pub mod run;
pub mod run_diff;
pub mod run_tree;
pub mod setup;
pub mod shared_text;
pub mod spec;
pub mod steering;
pub mod submission;
pub mod tags;
pub mod text;
pub mod time;
pub mod token_ratio;
pub mod tool;
pub mod tools_change;
pub mod turn;
pub mod undo;
pub mod usage;
pub mod user_request;
pub mod view;
