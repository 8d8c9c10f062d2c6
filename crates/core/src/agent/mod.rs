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

pub use machine::Agent;
pub(crate) use machine::interrupted_result;

use crate::approval::{Approval, Decision};
use crate::budget::BudgetExceeded;
use crate::call::ToolCall;
use crate::id::{AgentId, EffectId};
use crate::message::{ModelFailure, ModelReply};
use crate::observation::AgentWork;
use crate::plan::Plan;
use crate::reflection::Reflection;
use crate::time::{Millis, Timestamp};
use crate::tool::ToolResult;

/// What an agent is started with; its spec is found by name in the run's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentBrief {
    /// Its id in the run.
    pub agent: AgentId,
    /// What it is to the run.
    pub role: AgentRole,
    /// Its first user message.
    pub task: String,
    /// Sub-agents that a plan may still start; only a planner needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_left: Option<u32>,
    /// How many pieces of guidance it was given, which its plan names by their numbers from 1 on (PAOR-8); only a planner needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<u32>,
    /// How deep it is: 0 for planner and reflector, 1 for a plan's sub-agent, one more than its caller's for one that was delegated to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The call by which another agent had it started; none for those that the run started by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<EffectId>,
    /// The files that the run has changed, which a judgement must name (PAOR-10); only a reflector needs it. `None` where it is not
    /// known, as in journals from before it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<String>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What an agent is to the run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    /// Makes the plan.
    Planner,
    /// Judges the iteration.
    Reflector,
    /// Works on a sub-task; the name is that of a sub-agent.
    Sub(String),
}

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

/// How an agent's result stands in JSON: `{"answer": …}` or `{"failure": …}`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Result")]
pub(crate) enum AnswerOrFailure<T, E> {
    #[serde(rename = "answer")]
    Ok(T),
    #[serde(rename = "failure")]
    Err(E),
}

/// The end of an agent, for its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// What it ended with.
    #[serde(with = "AnswerOrFailure")]
    pub result: Result<AgentAnswer, AgentFailure>,
    /// What it did.
    pub work: AgentWork,
    /// From its start to its end.
    pub duration: Millis,
}

/// What an agent ended with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentAnswer {
    /// Text, or a terminating call's result as JSON text.
    Text(String),
    /// A valid plan.
    Plan(Plan),
    /// A valid reflection.
    Reflection(Reflection),
}

impl AgentAnswer {
    /// What it says, in words.
    pub(crate) fn text(&self) -> &str {
        match self {
            AgentAnswer::Text(text) => text,
            AgentAnswer::Plan(plan) => &plan.summary,
            AgentAnswer::Reflection(reflection) => &reflection.summary,
        }
    }

    /// The same, without a copy.
    pub(crate) fn into_text(self) -> String {
        match self {
            AgentAnswer::Text(text) => text,
            AgentAnswer::Plan(plan) => plan.summary,
            AgentAnswer::Reflection(reflection) => reflection.summary,
        }
    }
}

/// Why an agent ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AgentFailure {
    /// LOOP-2.
    #[error(
        "the agent reached its limit of {max_turns} model turns before it finished; allow more with `max_turns`"
    )]
    TurnLimit {
        /// The limit.
        max_turns: u32,
    },
    /// LOOP-5.
    #[error("the agent reached its time limit of {timeout} before it finished; allow more with `timeout`")]
    TimeLimit {
        /// The limit.
        timeout: Millis,
    },
    /// LOOP-3.
    #[error(
        "the model's reply was malformed {attempts} times in a row: {error}. Its last reply: {last_reply}"
    )]
    Malformed {
        /// How many times.
        attempts: u32,
        /// What was wrong with the last one.
        error: String,
        /// The last one.
        last_reply: String,
    },
    /// The provider withheld the reply.
    #[error(
        "the provider's content filter withheld the model's reply, so it was not asked again: change the task, or use another model"
    )]
    Filtered,
    /// The reply is longer than a reply may be.
    #[error(
        "the model's reply is longer than a reply may be, so it was not asked again: ask for less at a time, or allow more with \
         `max_reply_bytes`"
    )]
    Oversized,
    /// The model did not answer.
    #[error("the model did not answer: {failure}")]
    Model {
        /// Why.
        failure: ModelFailure,
    },
    /// The run's budget is used up (HOST-6).
    #[error("{budget_exceeded}")]
    Budget {
        /// What there is no room in.
        budget_exceeded: BudgetExceeded,
    },
    /// LOOP-10.
    #[error(
        "the agent is stuck: it called `{tool}` {times} times with the same parameters and got the same result"
    )]
    Stuck {
        /// The tool.
        tool: String,
        /// How often.
        times: u32,
    },
    /// APPROVE-2.
    #[error("the user rejected a call of `{tool}`{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    Rejected {
        /// The tool.
        tool: String,
        /// Why, in the user's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// It was stopped as the user's guidance could not wait (PAOR-8).
    #[error("it was stopped, as the user gave guidance that changes the plan")]
    Redirected,
    /// The run ended at a limit while the agent was at work.
    #[error("it was cut off, as the run ended at a limit")]
    RunEnded,
    /// The run or the user ended it.
    #[error("cancelled")]
    Cancelled,
    /// The agent itself broke (PAOR-7).
    #[error("the agent broke down: {message}")]
    Panicked {
        /// What it said.
        message: String,
    },
}
