//! The specification with which a run starts. It is journaled completely, so that a run depends only on its journal: later changes to the
//! configuration or the prompts do not affect a resumed or replayed run.

use crate::agent_spec::AgentSpec;
use crate::call::ToolSet;
use crate::limits::RunLimits;
use crate::mode::Mode;
use crate::setup::{AgentIndex, DelegationDepth, OfferedTools, SharedSetup};
use serde::{Deserialize, Serialize};

/// The goal of a run, and everything that determines how the run pursues it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The goal as the user wrote it.
    pub goal: String,
    /// Absolute path of the folder in which tools work.
    pub workspace: String,
    /// The limits of the run.
    pub limits: RunLimits,
    /// The agents, tools and rules of the run.
    pub setup: SharedSetup,
    /// What the lead may do itself, and whether its plans wait for the user (LEAD-2).
    #[serde(default, skip_serializing_if = "Mode::is_auto")]
    pub mode: Mode,
}

impl RunSpec {
    /// All tools of the run, with their validators.
    pub fn tool_set(&self) -> &ToolSet {
        &self.setup.tables().tools
    }

    /// The tools `submit_plan` and `submit_reflection`.
    pub(crate) fn submissions(&self) -> &ToolSet {
        &self.setup.tables().submissions
    }

    /// The system prompt of an agent that works at this depth of delegation.
    pub(crate) fn system_prompt<'a>(&self, agent: &'a AgentSpec, depth: u32) -> &'a str {
        let deepest = match self.delegation_depth(depth) {
            DelegationDepth::BelowMax => None,
            DelegationDepth::Max => agent.deepest_prompt.as_deref(),
        };
        deepest.unwrap_or(&agent.system_prompt)
    }

    /// The tools offered to an agent that works at this depth of delegation.
    pub(crate) fn offer(&self, agent: AgentIndex, depth: u32) -> &OfferedTools {
        self.setup.tables().offer(agent, self.delegation_depth(depth))
    }

    fn delegation_depth(&self, depth: u32) -> DelegationDepth {
        if depth < self.limits.max_depth {
            DelegationDepth::BelowMax
        } else {
            DelegationDepth::Max
        }
    }
}
