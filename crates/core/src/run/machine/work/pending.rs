//! One piece of outstanding work: a running agent with the purpose of its report, a call of the plan, the diff, or a question to the user.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::agent_report::{AgentReport, CallSummary};
use crate::approval::Approval;
use crate::brief::{AgentBrief, Continuation};
use crate::id::EffectId;
use crate::message::ToolCall;
use crate::question::Question;
use crate::time::Timestamp;
use crate::tool::ToolResult;

/// One piece of work that a run waits for.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "most outstanding work is agents")]
pub(in crate::run::machine) enum Pending {
    Agent(RunningAgent),
    Call(PlannedCall),
    /// The run's net diff, for the reflector.
    Diff,
    Question(AskedQuestion),
}

/// An agent that is still running, or that has ended while its delegates are still running.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::run::machine) struct RunningAgent {
    pub(in crate::run::machine) brief: Arc<AgentBrief>,
    /// The run's message to a lead that continues; `None` for a first start.
    pub(in crate::run::machine) continuation: Option<Arc<Continuation>>,
    pub(in crate::run::machine) purpose: Purpose,
    /// Set once the run has asked the agent to stop.
    pub(in crate::run::machine) stopping: bool,
    /// The agent's report, deferred until its delegates have ended.
    pub(in crate::run::machine) report: Option<AgentReport>,
    /// The agent's call that waits for the user.
    pub(super) awaited_call: Option<AwaitedCall>,
    /// The number of the run's guidance entries that the agent knows.
    pub(super) known_guidance: u32,
    /// The number of the run's guidance entries that the agent will know once its outdated question is settled.
    pub(super) sent_guidance: u32,
    /// The effect steps of this agent's outstanding delegates.
    pub(super) delegates: BTreeSet<u32>,
    /// The calls of ended delegates, to be added to this agent's report for the reflector.
    pub(in crate::run::machine) delegate_calls: Vec<(EffectId, Vec<CallSummary>)>,
    /// The result of the agent's last delegation; `None` once the agent is known to have received it.
    pub(in crate::run::machine) last_delegation: Option<LastDelegation>,
}

/// An agent's call that waits for the user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AwaitedCall {
    pub(super) call: EffectId,
    pub(super) since: Timestamp,
    pub(super) request: RequestState,
}

/// Whether the request of a waiting call takes the run's guidance into account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::run::machine) enum RequestState {
    /// Guidance does not affect the request: it asks for a decision about a sub-agent's call, or comes from a journal of an earlier
    /// version.
    Independent,
    /// A sub-agent's question. Guidance outdates it only if all outstanding work waits for the user and the agent has not received the
    /// guidance.
    Question,
    /// The lead knew all guidance when it made the request.
    Current,
    /// The agent was sent guidance, or calls that the user allows, after it made the request. It will withdraw the request or make it again, so it counts as busy.
    Outdated,
}

/// The purpose of an agent's report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::run::machine) enum Purpose {
    /// The lead's plan or answer.
    Lead,
    Reflection,
    /// The result of the sub-task at this index of the plan.
    SubTask(usize),
    /// The result of a `delegate` call of another agent.
    Delegation(EffectId),
    /// The result is no longer needed: the agent is a reflector that was stopped. Only the usage in its report is counted.
    Abandoned,
}

/// The result of an agent's last delegation. After a restart, the agent may repeat the delegation, so the result is stored until the agent
/// is known to have received it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::run::machine) struct LastDelegation {
    pub(in crate::run::machine) call: EffectId,
    pub(in crate::run::machine) result: ToolResult,
}

/// A tool call of the plan.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::run::machine) struct PlannedCall {
    pub(in crate::run::machine) position: CallPosition,
    pub(in crate::run::machine) call: ToolCall,
    pub(in crate::run::machine) state: CallState,
}

/// The position of a call in the plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::run::machine) struct CallPosition {
    /// The index of the sub-task.
    pub(in crate::run::machine) subtask: usize,
    /// The index of the call in its sub-task.
    pub(in crate::run::machine) call: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::run::machine) enum CallState {
    /// Waits for approval (APPROVE-1).
    AwaitingApproval(Arc<Approval>),
    Running {
        /// Set once the start of the call is journaled.
        started: bool,
        /// Set once the run has requested that the call stop.
        stopping: bool,
        deadline: Timestamp,
        /// The approval that was granted, if one was needed.
        approved: Option<Arc<Approval>>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::run::machine) struct AskedQuestion {
    pub(in crate::run::machine) question: Question,
    pub(in crate::run::machine) asked_at: Timestamp,
}

impl Purpose {
    /// The `delegate` call that started the agent; `None` for any other purpose.
    pub(in crate::run::machine) fn delegating_call(self) -> Option<EffectId> {
        match self {
            Purpose::Delegation(call) => Some(call),
            Purpose::Lead | Purpose::Reflection | Purpose::SubTask(_) | Purpose::Abandoned => None,
        }
    }
}

impl RunningAgent {
    /// Creates a running agent. `known_guidance` is the number of the run's guidance entries that the agent receives at its start.
    pub(in crate::run::machine) fn new(
        brief: Arc<AgentBrief>,
        purpose: Purpose,
        known_guidance: u32,
    ) -> Self {
        RunningAgent {
            brief,
            continuation: None,
            purpose,
            stopping: false,
            report: None,
            awaited_call: None,
            known_guidance,
            sent_guidance: known_guidance,
            delegates: BTreeSet::new(),
            delegate_calls: Vec::new(),
            last_delegation: None,
        }
    }

    /// The agent's call that waits for the user.
    pub(in crate::run::machine) fn awaited_call(&self) -> Option<EffectId> {
        self.awaited_call.map(|awaited| awaited.call)
    }

    /// Returns true while an agent to which this agent delegated is outstanding.
    pub(in crate::run::machine) fn has_delegates(&self) -> bool {
        !self.delegates.is_empty()
    }
}

impl PlannedCall {
    /// The approval that the call waits for.
    pub(in crate::run::machine) fn approval(&self) -> Option<&Arc<Approval>> {
        match &self.state {
            CallState::AwaitingApproval(approval) => Some(approval),
            CallState::Running { .. } => None,
        }
    }

    /// Records that the run has requested that a running call stop.
    pub(in crate::run::machine) fn stop(&mut self) {
        if let CallState::Running { stopping, .. } = &mut self.state {
            *stopping = true;
        }
    }
}

impl Pending {
    pub(super) fn agent(&self) -> Option<&RunningAgent> {
        match self {
            Pending::Agent(agent) => Some(agent),
            Pending::Call(_) | Pending::Diff | Pending::Question(_) => None,
        }
    }

    pub(super) fn call(&self) -> Option<&PlannedCall> {
        match self {
            Pending::Call(call) => Some(call),
            Pending::Agent(_) | Pending::Diff | Pending::Question(_) => None,
        }
    }

    /// Returns false if the work waits for the user's decision about a call or for the user's answer to an agent. An agent with delegates
    /// is not busy itself, because its delegates are separate work. The run's own question counts as busy:
    /// [`OutstandingWork::question`](super::OutstandingWork::question) tracks its wait.
    pub(super) fn is_busy(&self) -> bool {
        match self {
            Pending::Agent(agent) => {
                let waits_for_user = |awaited: AwaitedCall| match awaited.request {
                    RequestState::Independent | RequestState::Question | RequestState::Current => true,
                    RequestState::Outdated => false,
                };
                let waits = agent.has_delegates() || agent.awaited_call.is_some_and(waits_for_user);
                agent.stopping || agent.purpose == Purpose::Abandoned || !waits
            }
            Pending::Call(call) => call.approval().is_none(),
            Pending::Diff | Pending::Question(_) => true,
        }
    }
}
