//! The Plan–Act–Observe–Reflect machine of one goal.
//!
//! ```text
//!  Idle ──▶ Planning ──▶ Acting ──▶ Observing ──▶ Reflecting ──▶ Complete
//!              ▲                                      │
//!              └──────────────────────────────────────┘
//!  any of them but Complete ──▶ Failed ──▶ Planning (only by `Resumed`, after a limit or an unreachable model)
//! ```
//!
//! Planner and reflector are agents; sub-tasks are agents or sequences of tool calls. The machine starts what is ready,
//! collects how each ends, and ends the run for exactly one recorded reason (PAOR-12).

mod changes;
mod iteration;
mod machine;
mod rejections;
mod report;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use changes::{ChangedFile, FileChangeKind};
pub use iteration::{ActiveSubTask, Iteration};
pub use machine::Run;
pub use report::{GuidanceStatus, IterationReport, Report, WaitingCall};

use crate::agent_report::{AgentReport, AgentWork};
use crate::approval::{Approval, Decision};
use crate::brief::AgentBrief;
use crate::end_reason::EndReason;
use crate::id::{AgentId, EffectId, SubTaskId};
use crate::limits::RunLimits;
use crate::message::ToolCall;
use crate::phase::Transition;
use crate::question::Question;
use crate::spec::RunSpec;
use crate::time::Timestamp;
use crate::tool::ToolResult;

/// What can come in. Journaled: variants are added, never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunInput {
    /// The first input.
    Started {
        /// The goal and all that decides how it is pursued.
        spec: Arc<RunSpec>,
    },
    /// An agent ended.
    AgentFinished {
        /// Which start it answers.
        effect: EffectId,
        /// How.
        report: AgentReport,
    },
    /// A tool of a sub-task's sequence is about to run. Journaled before it does (HOST-2).
    ToolStarted {
        /// Which call.
        effect: EffectId,
    },
    /// A tool of a sub-task's sequence ended.
    ToolFinished {
        /// Which call.
        effect: EffectId,
        /// How.
        result: ToolResult,
    },
    /// The user has something to say: the next plan takes it into account (PAOR-8).
    Guided {
        /// The user's words.
        guidance: String,
    },
    /// The user has something to say that cannot wait: what is under way is stopped, and the next plan is made now (PAOR-8).
    Redirected {
        /// The user's words.
        guidance: String,
    },
    /// A call of an agent waits for an approval.
    ApprovalAsked {
        /// Which.
        effect: EffectId,
    },
    /// It waits no longer.
    ApprovalSettled {
        /// Which.
        effect: EffectId,
    },
    /// A person decided about a call of a sub-task's sequence.
    Decided {
        /// Which.
        effect: EffectId,
        /// What was decided.
        decision: Decision,
    },
    /// An agent has another one do something (PAOR-5).
    Delegated {
        /// The call by which it does.
        effect: EffectId,
        /// The other one's name.
        agent: String,
        /// What it is to do.
        task: String,
    },
    /// The user answered the run's question (PAOR-9).
    UserAnswered {
        /// Which question.
        effect: EffectId,
        /// The user's words; of a choice its text, whichever way it was chosen.
        answer: String,
    },
    /// Nobody can answer the run's question, or decide about the calls that it waits for: the run stops until somebody does.
    UserAbsent {
        /// Which question or call.
        effect: EffectId,
    },
    /// A timer ran out.
    TimerFired {
        /// Which.
        timer: RunTimer,
    },
    /// The process was started anew: what was under way is commanded again or, where it is not safe to repeat, observed
    /// as interrupted.
    Resumed {
        /// When the process that ended last gave a sign of life: the time of the run's last journal entry, whichever machine's.
        last_seen: Timestamp,
        /// Whether the run was forked off another, and takes its first input of its own (APPROVE-3): what a person decided, or decides, about
        /// the other one's calls does not count here, so that each of them is asked about anew.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        forked: bool,
        /// The limits that hold from now on; `None` if they stay as they are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<RunLimits>>,
        /// For a run that failed: the work of the agents that were cut off by its end, which the run observes now.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        cut_off: BTreeMap<AgentId, AgentWork>,
    },
    /// The user ended the run.
    Cancelled,
}

/// The timers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTimer {
    /// The end of the run's time.
    Deadline,
    /// The end of a tool call's time, by the call's step.
    Call(u32),
    /// The end of the wait for an approval, by the call's step.
    Approval(u32),
}

/// What a run asks its driver for.
#[derive(Clone, Debug, PartialEq)]
pub enum RunCommand {
    /// Nothing to do but to let watchers know (PAOR-1).
    Announce {
        /// From which phase to which.
        transition: Transition,
    },
    /// Start an agent, or go on with it where it has inputs in the journal already.
    StartAgent {
        /// What its report must carry.
        effect: EffectId,
        /// What it is to do.
        brief: Arc<AgentBrief>,
    },
    /// Journal the start of the call and run it.
    RunTool {
        /// What the result must carry.
        effect: EffectId,
        /// The sub-task it belongs to.
        subtask: SubTaskId,
        /// The call.
        call: ToolCall,
    },
    /// Stop a call whose result no longer matters.
    StopTool {
        /// Which.
        effect: EffectId,
    },
    /// Stop an agent, which then reports what it did.
    StopAgent {
        /// Which start its report answers.
        effect: EffectId,
    },
    /// Give an agent the result of a call by which it had another one do something.
    ReturnFindings {
        /// Which call.
        effect: EffectId,
        /// What the other one found, or why it has found nothing.
        result: ToolResult,
    },
    /// Let a person decide about a call of a sub-task's sequence.
    AskApproval {
        /// What the person decides about.
        approval: Arc<Approval>,
    },
    /// Nothing goes on until a person has decided about one of the calls that wait: where nobody is there, say so with
    /// [`RunInput::UserAbsent`].
    AwaitUser {
        /// The call that has waited longest.
        effect: EffectId,
    },
    /// Put a question to the user.
    AskUser {
        /// What the answer must carry.
        effect: EffectId,
        /// The question.
        question: Question,
    },
    /// Wake the machine at a time; an earlier setting of the same timer is void.
    SetTimer {
        /// Which.
        timer: RunTimer,
        /// When.
        at: Timestamp,
    },
    /// The run is over, or (for [`EndReason::UserRequired`]) stops until the user answers: stop what is under way.
    Finish {
        /// Why.
        reason: EndReason,
    },
}
