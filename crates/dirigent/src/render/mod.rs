//! Text and drawings for people: reports, usage tables and plan graphs.
//!
//! All of it is computed from the data of `dirigent_core`; nothing reads it back.

mod graph;
mod report;
mod transcripts;
mod usage;

pub use graph::{dot, mermaid, tree};
pub use report::report;
pub use transcripts::transcripts;
pub use usage::usage;

/// How much a text shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The outcome, what changed, and how it was confirmed.
    Concise,
    /// Every step and observation as well.
    Verbose,
}
