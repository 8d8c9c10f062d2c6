//! Text and drawings for people: reports, usage tables and plan graphs, which are never parsed; and the JSON forms of runs' records, workflows, agents, services and rules,
//! which are the same in every interface.

mod agents;
mod approval_rule;
mod graph;
mod proposal;
mod report;
mod run_record;
mod services;
mod transcripts;
mod usage;
mod visible;
mod workflow;

pub use agents::{agent, agents};
pub use approval_rule::approval_rule;
pub use graph::{dot, mermaid, tree};
pub use proposal::proposal;
pub use report::report;
pub use run_record::{fork_point, run_record};
pub use services::{service, services};
pub use transcripts::transcripts;
pub use usage::usage;
pub use visible::{escape_invisible, sanitize};
pub use workflow::{ruling, workflow, workflow_mode, workflow_parameter, workflows};

/// How detailed the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The outcome, the changed files, and the commands that confirmed them.
    Concise,
    /// The summary, and every step and observation.
    Verbose,
}
