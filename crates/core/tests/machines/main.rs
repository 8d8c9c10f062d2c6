//! The two machines through their public API: examples by requirement, properties under arbitrary inputs, and snapshots of all texts that a
//! model or a user reads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agent_calls;
mod agent_context;
mod agent_ends;
mod agent_limits;
mod agent_progress;
mod agent_properties;
mod agent_replies;
mod agent_resumed;
mod agent_seen;
mod approvals;
mod asking_user;
mod delegating;
mod driver;
mod earlier_iterations;
mod extraction;
mod fixture;
mod giving_up;
mod journaled;
mod judging;
mod lead;
mod may_fail;
mod project;
mod prompts;
mod prompts_judged;
mod questions;
mod reading_diffs;
mod redirecting;
mod refused_calls;
mod renamed;
mod reports;
mod run;
mod run_ends;
mod run_inputs;
mod run_properties;
mod run_recovery;
mod run_resume;
mod service_tools;
mod system_prompts;
mod tool_questions;
mod unjudged;
mod usage;
mod views;
mod whole_run;
