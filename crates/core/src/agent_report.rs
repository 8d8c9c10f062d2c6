//! The result and the work of an agent, as reported to its run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::BudgetExceeded;
use crate::id::{AgentId, EffectId};
use crate::message::{ModelFailure, Usage};
use crate::plan::Plan;
use crate::reflection::Reflection;
use crate::time::Millis;
use crate::tool::StateChange;

/// The result and the work of an agent that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// The agent's answer, or why there is none.
    #[serde(with = "AnswerOrFailure")]
    pub result: Result<AgentAnswer, AgentFailure>,
    /// The calls, changes and usage of the agent.
    pub work: AgentWork,
    /// Time from start to end.
    pub duration: Millis,
}

/// The answer of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentAnswer {
    /// Text, or the result of a terminating call as JSON text.
    Text(String),
    /// A valid plan.
    Plan(Plan),
    /// A valid reflection.
    Reflection(Reflection),
}

impl AgentAnswer {
    /// The answer as text; the summary of a plan or a reflection.
    pub(crate) fn text(&self) -> &str {
        match self {
            AgentAnswer::Text(text) => text,
            AgentAnswer::Plan(plan) => &plan.summary,
            AgentAnswer::Reflection(reflection) => &reflection.summary,
        }
    }

    /// As [`AgentAnswer::text`], without a copy.
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
    /// The limit of model turns (LOOP-2).
    #[error(
        "the agent reached its limit of {max_turns} model turns before it finished; allow more with `max_turns`"
    )]
    TurnLimit {
        /// The limit that was reached.
        max_turns: u32,
    },
    /// The time limit (LOOP-5).
    #[error("the agent reached its time limit of {timeout} before it finished; allow more with `timeout`")]
    TimeLimit {
        /// The limit that was reached.
        timeout: Millis,
    },
    /// Too many malformed replies in a row (LOOP-3).
    #[error(
        "the model's reply was malformed {attempts} times in a row: {error}. Its last reply: {last_reply}"
    )]
    Malformed {
        /// Malformed replies in a row.
        attempts: u32,
        /// The error in the last reply.
        error: String,
        /// The text of the last reply.
        last_reply: String,
    },
    /// The provider withheld the reply.
    #[error(
        "the provider's content filter withheld the model's reply, so it was not asked again: change the task, or use another model"
    )]
    Filtered,
    /// The reply exceeds the size limit of replies.
    #[error(
        "the model's reply is longer than a reply may be, so it was not asked again: ask for less at a time, or allow more with \
         `max_reply_bytes`"
    )]
    Oversized,
    /// The model did not answer.
    #[error("the model did not answer: {failure}")]
    Model {
        /// Why the model did not answer.
        failure: ModelFailure,
    },
    /// The run's budget is used up (HOST-6).
    #[error("{budget_exceeded}")]
    Budget {
        /// The budget that is used up.
        budget_exceeded: BudgetExceeded,
    },
    /// The same call with the same result, too many times (LOOP-10).
    #[error(
        "the agent is stuck: it called `{tool}` {times} times with the same parameters and got the same result"
    )]
    Stuck {
        /// The name of the tool.
        tool: String,
        /// How many times it was called.
        times: u32,
    },
    /// The user rejected a call (APPROVE-2).
    #[error("the user rejected a call of `{tool}`{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    Rejected {
        /// The name of the tool.
        tool: String,
        /// The user's reason, if given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Stopped because the user's guidance changes the plan (PAOR-8).
    #[error("it was stopped, as the user gave guidance that changes the plan")]
    Redirected,
    /// Cut off because the run ended at a limit.
    #[error("it was cut off, as the run ended at a limit")]
    RunEnded,
    /// Cancelled by the run or the user.
    #[error("cancelled")]
    Cancelled,
    /// The agent's own code panicked (PAOR-7).
    #[error("the agent broke down: {message}")]
    Panicked {
        /// The panic message.
        message: String,
    },
}

/// The JSON form of an agent's result: `{"answer": …}` or `{"failure": …}`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Result")]
pub(crate) enum AnswerOrFailure<T, E> {
    #[serde(rename = "answer")]
    Ok(T),
    #[serde(rename = "failure")]
    Err(E),
}

/// The work of an agent without its transcript, which the journal has under the agent's id (PAOR-5).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentWork {
    /// The agent's tool calls in short, refused ones included, followed by those of the agents it delegated to.
    pub calls: Vec<CallSummary>,
    /// The changes made by these calls.
    pub changes: Vec<StateChange>,
    /// What the agent used.
    pub usage: Usage,
    /// The model's text beside its calls, shortened; empty if the agent ended with an answer (LOOP-2).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub findings_so_far: String,
}

/// A tool call of an agent in short; it may have been refused without running.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallSummary {
    /// The handle for reading the whole result; `None` if the call did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectId>,
    /// The name of the tool.
    pub tool: String,
    /// The parameters, or `null` if they are long.
    pub parameters: Value,
    /// True if the call succeeded.
    pub success: bool,
    /// How long the call took.
    pub duration: Millis,
    /// The error of a failed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The agent that a delegation started; `None` for any other call (PAOR-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
}
