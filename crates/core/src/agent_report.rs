//! The end of an agent, as its run learns of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::BudgetExceeded;
use crate::id::{AgentId, EffectId};
use crate::message::{ModelFailure, Usage};
use crate::plan::Plan;
use crate::reflection::Reflection;
use crate::time::Millis;
use crate::tool::StateChange;

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

/// How an agent's result stands in JSON: `{"answer": …}` or `{"failure": …}`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Result")]
pub(crate) enum AnswerOrFailure<T, E> {
    #[serde(rename = "answer")]
    Ok(T),
    #[serde(rename = "failure")]
    Err(E),
}

/// An agent's work without its transcript, which stays in the journal under its id (PAOR-5).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentWork {
    /// Its tool calls, refused ones included, shortened to what reflection needs; after them those of the agents that it delegated to.
    pub calls: Vec<CallSummary>,
    /// What they changed.
    pub changes: Vec<StateChange>,
    /// What it used.
    pub usage: Usage,
    /// What its model had said beside its calls, shortened; empty for an agent that ended with an answer (LOOP-2).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub findings_so_far: String,
}

/// A tool call of an agent, in short; also one that was refused and did not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallSummary {
    /// The handle to read the whole result; `None` if the call did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectId>,
    /// The tool's name.
    pub tool: String,
    /// The parameters, or `null` where they were long.
    pub parameters: Value,
    /// Whether it succeeded.
    pub success: bool,
    /// How long it took.
    pub duration: Millis,
    /// The error of a failed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The agent that it started; none for any call but a delegation (PAOR-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
}
