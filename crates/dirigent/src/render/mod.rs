//! Text and drawings for people: reports, usage tables and plan graphs.
//!
//! They are computed from the data of `dirigent_core` and never parsed.

mod graph;
mod proposal;
mod report;
mod transcripts;
mod usage;

pub use graph::{dot, mermaid, tree};
pub use proposal::proposal;
pub use report::report;
pub use transcripts::transcripts;
pub use usage::usage;

/// How detailed the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The outcome, the changed files, and the commands that confirmed them.
    Concise,
    /// The summary, and every step and observation.
    Verbose,
}
