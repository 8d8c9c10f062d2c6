//! The Plan–Act–Observe–Reflect state machine of one goal.
//!
//! ```text
//!  Idle ──▶ Planning ──▶ Acting ──▶ Observing ──▶ Reflecting ──▶ Complete
//!              ▲                                      │
//!              └──────────────────────────────────────┘
//!  every phase except Complete ──▶ Failed ──▶ Planning (only by `Resumed`, after a limit or an unreachable model)
//! ```
//!
//! Lead and reflector are agents; sub-tasks are agents or sequences of tool calls. The lead is one agent for the whole run: it reports with
//! a plan or text, and is continued when it is needed again (LEAD-1). Acting begins with the lead's first call that is not safe to repeat,
//! or with its plan (LEAD-3). The state machine starts sub-tasks as they become ready, collects their results, and ends the run for exactly one
//! recorded reason (PAOR-12).

mod iteration;
mod machine;
mod rejections;
mod report;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use crate::file_changes::{
    ChangedFile, CommandChanges, FileChangeKind, during_command_title, during_commands_title,
};
pub use iteration::{ActiveSubTask, Iteration};
pub use machine::Run;
pub use report::{GuidanceStatus, IterationReport, JSON_VERSION, Report, WaitingCall};

use crate::agent_report::{AgentReport, AgentWork};
use crate::approval::{Approval, Decision};
use crate::brief::{AgentBrief, Continuation};
use crate::end_reason::EndReason;
use crate::id::{AgentId, EffectId, RunId, SubTaskId};
use crate::limits::RunLimits;
use crate::message::ToolCall;
use crate::phase::Transition;
use crate::policy::CallPattern;
use crate::question::Question;
use crate::run_diff::ReflectorDiff;
use crate::spec::RunSpec;
use crate::time::Timestamp;
use crate::tool::ToolResult;
use crate::tools_change::ToolsChange;
use crate::user_request::UserRequestKind;

/// An input of [`Run`]. Inputs are journaled, so variants may be added, but existing variants must not change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunInput {
    /// The first input of every run.
    Started {
        /// The goal, and everything that determines how the run pursues it.
        spec: Arc<RunSpec>,
    },
    /// An agent ended.
    AgentFinished {
        /// The effect id of the [`RunCommand::StartAgent`] that started the agent.
        effect: EffectId,
        /// The agent's result and work.
        report: AgentReport,
    },
    /// A tool call of a sub-task is about to run; journaled before it runs (HOST-2).
    ToolStarted {
        /// The call's id.
        effect: EffectId,
    },
    /// A tool call of a sub-task ended.
    ToolFinished {
        /// The call's id.
        effect: EffectId,
        /// The call's result.
        result: ToolResult,
    },
    /// The user gave guidance for the next plan (PAOR-8).
    Guided {
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// The user gave immediate guidance: the run stops its running work and makes the next plan at once (PAOR-8).
    Redirected {
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// An agent's call waits for the user: for a decision (APPROVE-1) or an answer (LEAD-4).
    #[serde(rename = "approval_asked")]
    CallAwaitsUser {
        /// The call's id.
        effect: EffectId,
        /// For a call of the lead, the number of the run's guidance entries that the lead knew; `None` in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guidance: Option<u32>,
        /// Whether the call waits for a decision or an answer; always a decision in journals of earlier versions.
        #[serde(default, skip_serializing_if = "UserRequestKind::is_default")]
        request: UserRequestKind,
        /// The number of [`RunInput::CallsAllowed`] patterns that the agent knew.
        #[serde(default, skip_serializing_if = "is_zero")]
        allowed: u32,
    },
    /// An agent's call no longer waits for the user.
    #[serde(rename = "approval_settled")]
    CallSettled {
        /// The call's id.
        effect: EffectId,
    },
    /// The user decided about a tool call of a sub-task that waits for approval.
    Decided {
        /// The call's id.
        effect: EffectId,
        /// The user's decision.
        decision: Decision,
    },
    /// The user answered a plan with guidance instead of approving it. The guidance is for the whole run (LEAD-2, PAOR-8).
    PlanGuided {
        /// The effect id of the lead's call that submitted the plan.
        effect: EffectId,
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// The lead begins to act: its next call is not safe to repeat, or delegates (LEAD-3).
    ActingBegan {
        /// The effect id of the [`RunCommand::StartAgent`] that started or continued the lead.
        effect: EffectId,
    },
    /// An agent delegated a task to another agent (PAOR-5).
    Delegated {
        /// The id of the delegating call.
        effect: EffectId,
        /// The name of the other agent.
        agent: String,
        /// The other agent's task.
        task: String,
    },
    /// The run's net diff was read for the reflector (PAOR-6).
    DiffRead {
        /// The effect id of the [`RunCommand::ReadDiff`] that requested the diff.
        effect: EffectId,
        /// The diff, or the reason why there is none.
        diff: ReflectorDiff,
    },
    /// The user answered the run's question (PAOR-9).
    UserAnswered {
        /// The question's id.
        effect: EffectId,
        /// The answer text. If the user selected a choice by its number, the text of that choice.
        answer: String,
    },
    /// No user is available to answer questions or to decide about the calls that wait for approval. The run pauses until it is
    /// resumed.
    UserAbsent {
        /// The id of the question or call.
        effect: EffectId,
        /// True if guidance takes the place of the answer to the run's question: the run does not pause, but plans again (PAOR-8).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        guided: bool,
    },
    /// A timer expired.
    TimerFired {
        /// The expired timer.
        timer: RunTimer,
    },
    /// A new process resumes the run. Each outstanding effect starts again if that is safe; otherwise it is recorded as interrupted.
    Resumed {
        /// The time of the last journal entry of any machine of the run: when the previous process was last active.
        last_seen: Timestamp,
        /// True for the first input that this machine of a fork handles after the inputs copied from the source run. Decisions made in the
        /// source run are not valid in the fork, so pending and approved calls ask for approval again (APPROVE-3).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        forked: bool,
        /// The new limits; `None` if they are unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Box<RunLimits>>,
        /// For a failed run, the work of each agent that was still running when the run ended. The run adds it to its observations.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        interrupted: BTreeMap<AgentId, AgentWork>,
    },
    /// The user allows calls that match a pattern from now on (APPROVE-1).
    CallsAllowed {
        /// The calls that need no approval.
        calls: CallPattern,
    },
    /// The tools of a service have changed since the run started (MCP-2).
    ToolsChanged {
        /// The change.
        change: Arc<ToolsChange>,
    },
    /// Other runs work in the run's workspace. Only for watchers: the run does not react.
    WorkspaceShared {
        /// The ids of the other runs.
        runs: Vec<RunId>,
    },
    /// The user cancelled the run.
    Cancelled,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The timers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTimer {
    /// The run's time limit.
    Deadline,
    /// The time limit of the tool call with this step.
    Call(u32),
    /// The expiry of the approval for the tool call with this step.
    Approval(u32),
}

/// A command of [`Run`] to its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum RunCommand {
    /// Announce a phase change to watchers. The driver executes nothing (PAOR-1).
    Announce {
        /// The phase change.
        transition: Transition,
    },
    /// Start an agent, resume it if the journal already contains inputs of the agent, or continue the lead.
    StartAgent {
        /// The id that the agent's report must carry.
        effect: EffectId,
        /// The agent's role and task.
        brief: Arc<AgentBrief>,
        /// The run's message to a lead that continues; `None` for the first start of an agent.
        continuation: Option<Arc<Continuation>>,
    },
    /// Tell the working lead the user's guidance (PAOR-8).
    GuideLead {
        /// The lead's id.
        agent: AgentId,
        /// The number of the guidance entry, counted from 1.
        number: u32,
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// Send the working lead the user's immediate guidance. The lead stops waiting for its model or call, and takes the guidance into
    /// account at once (PAOR-8).
    RedirectLead {
        /// The lead's id.
        agent: AgentId,
        /// The number of the guidance entry, counted from 1.
        number: u32,
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// Give the user's guidance to a sub-agent, instead of the answer that it waits for (PAOR-8).
    GuideAgent {
        /// The sub-agent's id.
        agent: AgentId,
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// Tell an agent which calls the user allows from now on (APPROVE-1).
    AllowCalls {
        /// The agent's id.
        agent: AgentId,
        /// The pattern's number among the patterns that the user has added to the run, counted from 1.
        number: u32,
        /// The calls that need no approval.
        calls: CallPattern,
    },
    /// Tell an agent how the tools of a service have changed (MCP-2).
    ChangeTools {
        /// The agent's id.
        agent: AgentId,
        /// The number of the change among those since the run started, counted from 1.
        number: u32,
        /// The change.
        change: Arc<ToolsChange>,
    },
    /// Journal the start of a call, then run it.
    RunTool {
        /// The id that the result must carry.
        effect: EffectId,
        /// The sub-task that the call belongs to.
        subtask: SubTaskId,
        /// The call to run.
        call: ToolCall,
    },
    /// Stop a call whose result no longer matters.
    StopTool {
        /// The call's id.
        effect: EffectId,
    },
    /// Stop an agent, which then reports its work.
    StopAgent {
        /// The agent's id.
        agent: AgentId,
    },
    /// Return the result of a delegation to the agent that delegated.
    ReturnFindings {
        /// The id of the delegating call.
        effect: EffectId,
        /// The other agent's findings, or the reason why there are none.
        result: ToolResult,
    },
    /// Read the run's net diff, with which the reflector starts.
    ReadDiff {
        /// The id that the answer to this command must carry.
        effect: EffectId,
    },
    /// Ask the user to approve a tool call of a sub-task.
    AskApproval {
        /// The approval to ask for.
        approval: Arc<Approval>,
    },
    /// Wait for the user to decide about a call or to answer its question, because all outstanding work waits for the user. If no user is available, the driver sends
    /// [`RunInput::UserAbsent`].
    AwaitUser {
        /// The id of the call that has waited longest.
        effect: EffectId,
    },
    /// Ask the user a question.
    AskUser {
        /// The id that the answer must carry.
        effect: EffectId,
        /// The question to ask.
        question: Question,
    },
    /// Set a timer, replacing any earlier setting of the same timer.
    SetTimer {
        /// The timer to set.
        timer: RunTimer,
        /// When the timer expires.
        at: Timestamp,
    },
    /// End the run and stop all running work. For [`EndReason::UserRequired`], only pause the run until it is resumed.
    Finish {
        /// Why the run ends.
        reason: EndReason,
    },
}
