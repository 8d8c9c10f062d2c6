//! The loop of one agent: model ⇄ tools, as a pure machine.
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
//! The model decides (LOOP-6): the machine runs what was asked, returns every result, and ends the loop only when the
//! model says so or a limit is reached.

mod machine;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent_report::AgentReport;
use crate::approval::{Approval, Decision};
use crate::brief::AgentBrief;
use crate::budget::BudgetExceeded;
use crate::id::EffectId;
use crate::message::{ModelFailure, ModelReply, ToolCall};
use crate::time::Timestamp;
use crate::tool::ToolResult;
pub use machine::Agent;

/// What can come in. Journaled: variants are added, never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentInput {
    /// The first input.
    Started {
        /// What it is to do.
        brief: AgentBrief,
    },
    /// The model answered.
    ModelReplied {
        /// Which request.
        effect: EffectId,
        /// Its reply.
        reply: ModelReply,
    },
    /// The model did not answer, retries included.
    ModelFailed {
        /// Which request.
        effect: EffectId,
        /// Why.
        failure: ModelFailure,
    },
    /// The run's budget has no room for the request: it was not sent (HOST-6).
    OverBudget {
        /// Which request.
        effect: EffectId,
        /// What there is no room in.
        budget_exceeded: BudgetExceeded,
    },
    /// A tool is about to run. Journaled before it does (HOST-2).
    ToolStarted {
        /// Which call.
        effect: EffectId,
    },
    /// A tool ended.
    ToolFinished {
        /// Which call.
        effect: EffectId,
        /// How.
        result: ToolResult,
    },
    /// A person decided about the call that waits for an approval.
    Decided {
        /// Which call.
        effect: EffectId,
        /// What was decided.
        decision: Decision,
    },
    /// The user has something to say: it joins the conversation before the next model request.
    Guided {
        /// The user's words.
        guidance: String,
    },
    /// A timer ran out.
    TimerFired {
        /// Which.
        timer: AgentTimer,
    },
    /// The process was started anew: what was under way is commanded again or, where it is not safe to repeat, reported
    /// as interrupted.
    Resumed {
        /// When the process that ended last gave a sign of life: the time of the run's last journal entry, whichever machine's.
        last_seen: Timestamp,
        /// Whether its run was forked off another, and this is its first input of its own (APPROVE-3): what a person decided, or decides, about
        /// the other one's calls does not count here, so that each of them is asked about anew.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        forked: bool,
    },
    /// Nobody wants the answer any more.
    Cancelled,
}

/// The timers of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentTimer {
    /// The end of its execution time (LOOP-5).
    Deadline,
    /// The end of the wait for an approval.
    Approval,
}

/// What an agent asks its driver for.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentCommand {
    /// Send the conversation ([`Agent::conversation`]) to the model.
    AskModel {
        /// What the answer must carry.
        effect: EffectId,
    },
    /// Journal the start of the call and run it.
    RunTool {
        /// What the result must carry.
        effect: EffectId,
        /// The call, validated.
        call: ToolCall,
    },
    /// Let a person decide about the call.
    AskApproval {
        /// What the person decides about.
        approval: Arc<Approval>,
    },
    /// Nobody need decide about that call any more: it was decided, expired, or its loop has ended.
    ApprovalSettled {
        /// Which call.
        effect: EffectId,
    },
    /// Have another agent do something; its findings are the call's result. This agent's clock stands still meanwhile (LOOP-5): the other
    /// one has a time of its own.
    Delegate {
        /// What the result must carry.
        effect: EffectId,
        /// The other agent's name.
        agent: String,
        /// What it is to do.
        task: String,
    },
    /// Wake the machine at a time; an earlier setting of the same timer is void.
    SetTimer {
        /// Which.
        timer: AgentTimer,
        /// When.
        at: Timestamp,
    },
    /// Tell the run that the loop has ended, and stop whatever is under way.
    Finish {
        /// How it ended.
        report: AgentReport,
    },
}
