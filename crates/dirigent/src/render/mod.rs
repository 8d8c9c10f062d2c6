//! Text and drawings for people: reports, usage tables and plan graphs, which are never parsed; and the JSON form of a run's record, which
//! is the same in every interface.

mod graph;
mod proposal;
mod report;
mod run_record;
mod transcripts;
mod usage;
mod visible;

pub use graph::{dot, mermaid, tree};
pub use proposal::proposal;
pub use report::report;
pub use run_record::{fork_point, run_record};
pub use transcripts::transcripts;
pub use usage::usage;
pub use visible::{escape_invisible, sanitize};

/// How detailed the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The outcome, the changed files, and the commands that confirmed them.
    Concise,
    /// The summary, and every step and observation.
    Verbose,
}
