//! Modes: which actions the lead of a run may take itself, and whether its plans wait for the user (LEAD-2).

use serde::{Deserialize, Serialize};

/// Which actions the lead of a run may take itself, and whether its plans wait for the user (LEAD-2). JSON: `"auto"`, `"plan"` or
/// `"approved_plan"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The lead acts itself, delegates or plans, with all tools that its access allows.
    #[default]
    Auto,
    /// The lead has read access only. Each of its plans waits until the user approves it, unchanged or edited; then the plan is executed.
    /// An answer in text needs no approval.
    Plan,
    /// Like [`Mode::Plan`], but plans are executed without waiting, because the user has approved them in advance. Calls that need approval
    /// still wait for the user.
    ApprovedPlan,
}

impl Mode {
    /// Returns true for the default mode, which is not written to the journal.
    pub fn is_auto(&self) -> bool {
        *self == Mode::Auto
    }
}
