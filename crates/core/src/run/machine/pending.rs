//! The effects that a run waits for.

use std::sync::Arc;

use super::acting::CallPosition;
use crate::approval::Approval;
use crate::brief::AgentBrief;
use crate::id::EffectId;
use crate::message::ToolCall;
use crate::question::Question;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pending {
    Planner(Arc<AgentBrief>),
    Reflector(Arc<AgentBrief>),
    SubAgent {
        brief: Arc<AgentBrief>,
        index: usize,
    },
    /// Works for another agent, which made the delegating call.
    Child {
        brief: Arc<AgentBrief>,
        call: EffectId,
    },
    /// A planner or reflector that was stopped; only the usage in its report counts.
    Abandoned(Arc<AgentBrief>),
    Tool {
        index: usize,
        position: usize,
        call: ToolCall,
        started: bool,
        deadline: Timestamp,
        /// The approval that was granted, if one was needed.
        approved: Option<Arc<Approval>>,
    },
    /// A call that waits for approval (APPROVE-1).
    Approval {
        index: usize,
        position: usize,
        call: ToolCall,
        approval: Arc<Approval>,
    },
    Question {
        question: Question,
        asked_at: Timestamp,
    },
}

impl Pending {
    /// The brief of an agent.
    pub(super) fn brief(&self) -> Option<&Arc<AgentBrief>> {
        match self {
            Pending::Planner(brief)
            | Pending::Reflector(brief)
            | Pending::Abandoned(brief)
            | Pending::SubAgent { brief, .. }
            | Pending::Child { brief, .. } => Some(brief),
            Pending::Tool { .. } | Pending::Approval { .. } | Pending::Question { .. } => None,
        }
    }

    /// A running call of the plan.
    pub(super) fn running_call(&self) -> Option<&ToolCall> {
        match self {
            Pending::Tool { call, .. } => Some(call),
            Pending::Planner(_)
            | Pending::Reflector(_)
            | Pending::Abandoned(_)
            | Pending::SubAgent { .. }
            | Pending::Child { .. }
            | Pending::Approval { .. }
            | Pending::Question { .. } => None,
        }
    }

    /// The approval that a person must decide about.
    pub(super) fn approval(&self) -> Option<&Arc<Approval>> {
        match self {
            Pending::Approval { approval, .. } => Some(approval),
            Pending::Planner(_)
            | Pending::Reflector(_)
            | Pending::Abandoned(_)
            | Pending::SubAgent { .. }
            | Pending::Child { .. }
            | Pending::Tool { .. }
            | Pending::Question { .. } => None,
        }
    }

    /// The position of a call of the plan, running or waiting for approval.
    pub(super) fn call_position(&self) -> Option<CallPosition> {
        match *self {
            Pending::Tool { index, position, .. } | Pending::Approval { index, position, .. } => {
                Some(CallPosition { index, position })
            }
            Pending::Planner(_)
            | Pending::Reflector(_)
            | Pending::Abandoned(_)
            | Pending::SubAgent { .. }
            | Pending::Child { .. }
            | Pending::Question { .. } => None,
        }
    }

    /// The delegating call that started an agent.
    pub(super) fn caller(&self) -> Option<EffectId> {
        match self {
            Pending::Child { call, .. } => Some(*call),
            Pending::Planner(_)
            | Pending::Reflector(_)
            | Pending::Abandoned(_)
            | Pending::SubAgent { .. }
            | Pending::Tool { .. }
            | Pending::Approval { .. }
            | Pending::Question { .. } => None,
        }
    }

    /// The question to the user.
    pub(super) fn question(&self) -> Option<&Question> {
        match self {
            Pending::Question { question, .. } => Some(question),
            Pending::Planner(_)
            | Pending::Reflector(_)
            | Pending::Abandoned(_)
            | Pending::SubAgent { .. }
            | Pending::Child { .. }
            | Pending::Tool { .. }
            | Pending::Approval { .. } => None,
        }
    }
}
