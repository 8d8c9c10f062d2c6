//! The model ⇄ tools loop of one agent, as a pure state machine.
//!
//! ```text
//!              ModelReplied: calls                     ToolFinished: more calls
//!             ┌────────────────────▶ Running calls ◀──────────┐
//!  Started ──▶ Asking ◀───────────────────┘  └────────────────┘
//!             ├──▶ Asking again (malformed)     ToolFinished: the last one
//!             ├──▶ Summarising, then Asking (the conversation is too long)
//!             └──▶ Done (text, terminating call, a limit, no budget, stuck, a failure, cancelled)
//! ```
//!
//! A lead continues from Done with `Continued`, in the same conversation (LEAD-1).
//!
//! The model decides (LOOP-6): the state machine runs the requested calls, returns every result, and ends the loop only when the model says so or
//! a limit is reached.

mod machine;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent_report::AgentReport;
use crate::approval::{Approval, Decision};
use crate::brief::{AgentBrief, Continuation};
use crate::budget::BudgetExceeded;
use crate::id::EffectId;
use crate::message::{ModelFailure, ModelReply, ToolCall};
use crate::policy::CallPattern;
use crate::question::{OpenQuestion, Question};
use crate::time::Timestamp;
use crate::tool::ToolResult;
use crate::tools_change::ToolsChange;
pub use machine::Agent;

/// An input of [`Agent`]. Inputs are journaled, so variants may be added, but existing variants must not change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentInput {
    /// The first input of every agent.
    Started {
        /// The agent's role and task.
        brief: AgentBrief,
    },
    /// The model answered.
    ModelReplied {
        /// The request's id.
        effect: EffectId,
        /// The model's reply.
        reply: ModelReply,
    },
    /// The model did not answer, after all retries.
    ModelFailed {
        /// The request's id.
        effect: EffectId,
        /// Why the model did not answer.
        failure: ModelFailure,
    },
    /// The run's budget has no room for the request, which was not sent (HOST-6).
    OverBudget {
        /// The request's id.
        effect: EffectId,
        /// The limit that the request would exceed.
        budget_exceeded: BudgetExceeded,
    },
    /// A tool call is about to run; journaled before it runs (HOST-2).
    ToolStarted {
        /// The call's id.
        effect: EffectId,
    },
    /// A tool call ended.
    ToolFinished {
        /// The call's id.
        effect: EffectId,
        /// The call's result.
        result: ToolResult,
    },
    /// A tool asks the user a question during its call. The call waits for the answer ([`AgentCommand::AnswerTool`]).
    ToolAsked {
        /// The call's id.
        effect: EffectId,
        /// The question.
        question: Question,
    },
    /// A tool no longer needs the answer to the question that it asked during its call. The call continues.
    QuestionWithdrawn {
        /// The call's id.
        effect: EffectId,
    },
    /// The user decided about the call that waits for approval.
    Decided {
        /// The call's id.
        effect: EffectId,
        /// The user's decision.
        decision: Decision,
    },
    /// The user answered the question of a call: of `ask_user` (LEAD-4), or of a tool that asked during its call.
    UserAnswered {
        /// The call's id.
        effect: EffectId,
        /// The answer, as the user gave it: text, or the number of a choice.
        answer: String,
    },
    /// The user gave guidance, which is added to the conversation before the next model request.
    Guided {
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// The user gave guidance to the run while its lead works. The lead sees it before its next request, so its next plan or answer takes it
    /// into account (PAOR-8).
    RunGuided {
        /// The number of the guidance entry, counted from 1.
        number: u32,
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// The user gave immediate guidance to the run while its lead works: the lead's request or call is cancelled, and a new request is sent
    /// to its model with the guidance (PAOR-8).
    Redirected {
        /// The number of the guidance entry, counted from 1.
        number: u32,
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// The user allows calls that match a pattern from now on (APPROVE-1). The call that is waiting for approval runs if the policy allows
    /// it now.
    CallsAllowed {
        /// The pattern's number among the patterns that the user has added to the run, counted from 1.
        number: u32,
        /// The calls that need no approval.
        calls: CallPattern,
    },
    /// The tools of a service have changed (MCP-2). The next request tells the model, if it knows tools of that service.
    ToolsChanged {
        /// The number of the change among those since the run started, counted from 1.
        number: u32,
        /// The change.
        change: Arc<ToolsChange>,
    },
    /// The run needs its lead again (LEAD-1). A call that the end of the run interrupted is reported to the model as interrupted.
    Continued {
        /// The run's message to the lead.
        continuation: Continuation,
    },
    /// A timer expired.
    TimerFired {
        /// The expired timer.
        timer: AgentTimer,
    },
    /// A new process resumes the run. The outstanding effect starts again if that is safe; otherwise the model is told that it was
    /// interrupted.
    Resumed {
        /// The time of the last journal entry of any machine of the run: when the previous process was last active.
        last_seen: Timestamp,
        /// True for the first input that this machine of a fork handles after the inputs copied from the source run. Decisions made in the
        /// source run are not valid in the fork, so pending and approved calls ask for approval again (APPROVE-3).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        forked: bool,
    },
    /// The run no longer needs the agent's answer.
    Cancelled,
}

/// The timers of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentTimer {
    /// The agent's time limit (LOOP-5).
    Deadline,
    /// The expiry of an approval or a question.
    #[serde(rename = "approval")]
    UserRequest,
}

/// A command of [`Agent`] to its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentCommand {
    /// Send the current request ([`Agent::request`]) to the model.
    AskModel {
        /// The id that the reply must carry.
        effect: EffectId,
    },
    /// Journal the start of a call, then run it.
    RunTool {
        /// The id that the result must carry.
        effect: EffectId,
        /// The call, already validated.
        call: ToolCall,
    },
    /// Ask the user to approve a call.
    AskApproval {
        /// The approval to ask for.
        approval: Arc<Approval>,
        /// For a lead, the number of the run's guidance entries that the lead knows.
        guidance: Option<u32>,
        /// The number of [`AgentInput::CallsAllowed`] patterns that the agent knows.
        allowed: u32,
    },
    /// Ask the user the question of a call: of `ask_user` (LEAD-4), or of a tool that asks during its call.
    AskUser {
        /// The question to ask.
        question: Arc<OpenQuestion>,
        /// For a lead, the number of the run's guidance entries that the lead knows.
        guidance: Option<u32>,
        /// The number of [`AgentInput::CallsAllowed`] patterns that the agent knows.
        allowed: u32,
    },
    /// Give a running call the user's answer to its question.
    AnswerTool {
        /// The call's id.
        effect: EffectId,
        /// The answer; `None` if the user does not answer: the question has expired, or was withdrawn.
        answer: Option<String>,
    },
    /// Withdraw a call's request to the user, because the request was settled or has expired, or the loop ended.
    CallSettled {
        /// The call's id.
        effect: EffectId,
    },
    /// Delegate a task to another agent, whose findings become the call's result. Until then, this agent's time limit is paused, because the
    /// other agent has a separate time limit (LOOP-5).
    Delegate {
        /// The id that the result must carry.
        effect: EffectId,
        /// The name of the other agent.
        agent: String,
        /// The other agent's task.
        task: String,
    },
    /// Pass the user's guidance on the lead's plan to the run. The run then sends the guidance to the lead, which withdraws the plan
    /// (LEAD-2).
    GuideRun {
        /// The id of the call that submitted the plan.
        effect: EffectId,
        /// The guidance, in the user's words.
        guidance: String,
    },
    /// The lead begins to act: its next call is not safe to repeat, or delegates (LEAD-3).
    BeginActing,
    /// Cancel the running request or call; its completion no longer matters.
    Stop,
    /// Set a timer, replacing any earlier setting of the same timer.
    SetTimer {
        /// The timer to set.
        timer: AgentTimer,
        /// When the timer expires.
        at: Timestamp,
    },
    /// Report the end of the loop to the run, and stop all running work.
    Finish {
        /// The agent's result and work.
        report: AgentReport,
    },
}
