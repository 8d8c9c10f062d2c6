//! The result and the work of an agent, as reported to its run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::BudgetExceeded;
use crate::confirmation::Outdated;
use crate::id::{AgentId, EffectId};
use crate::message::{ModelFailure, Usage};
use crate::plan::Plan;
use crate::reflection::Reflection;
use crate::time::Millis;
use crate::tool::StateChange;

/// The result and the work of an agent that has ended. A lead reports once for each iteration, with its work since its previous report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// The agent's answer, or the reason why there is none.
    #[serde(with = "AnswerOrFailure")]
    pub result: Result<AgentAnswer, AgentFailure>,
    /// The calls, changes and usage of the agent.
    pub work: AgentWork,
    /// Time from the agent's start to its end; for a lead, from its last continuation, if any.
    pub duration: Millis,
    /// For a lead, the number of the run's guidance entries that its last request contained (PAOR-8); `None` for other agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<u32>,
}

/// The answer of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentAnswer {
    /// Text, or the result of a terminating call as JSON text.
    Text(String),
    /// The plan that the agent submitted, already validated.
    Plan(Plan),
    /// The reflection that the agent submitted, already validated.
    Reflection(Reflection),
}

impl AgentAnswer {
    /// Returns the answer as text, which is the summary of a plan or a reflection.
    pub(crate) fn text(&self) -> &str {
        match self {
            AgentAnswer::Text(text) => text,
            AgentAnswer::Plan(plan) => &plan.summary,
            AgentAnswer::Reflection(reflection) => &reflection.summary,
        }
    }

    /// Like [`AgentAnswer::text`], but consumes the answer.
    pub(crate) fn into_text(self) -> String {
        match self {
            AgentAnswer::Text(text) => text,
            AgentAnswer::Plan(plan) => plan.summary,
            AgentAnswer::Reflection(reflection) => reflection.summary,
        }
    }
}

/// The reason why an agent ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AgentFailure {
    /// The agent reached its limit of model turns (LOOP-2).
    #[error(
        "the agent reached its limit of {max_turns} model turns before it finished: raise `max_turns` in this agent's limits"
    )]
    TurnLimit {
        /// The limit that was reached.
        max_turns: u32,
    },
    /// The agent reached its time limit (LOOP-5).
    #[error(
        "the agent reached its time limit of {timeout} before it finished: raise `timeout` in this agent's limits"
    )]
    TimeLimit {
        /// The limit that was reached.
        timeout: Millis,
    },
    /// The model sent too many malformed replies in a row (LOOP-3).
    #[error(
        "the model's reply was malformed {attempts} times in a row: {error}. Its last reply: {last_reply}"
    )]
    Malformed {
        /// The number of malformed replies in a row.
        attempts: u32,
        /// The error in the last reply.
        error: String,
        /// The text of the last reply.
        last_reply: String,
    },
    /// The provider withheld the model's reply.
    #[error(
        "the provider's content filter withheld the model's reply, so the request was not repeated: change the task, or use another model"
    )]
    Filtered,
    /// The model's reply exceeds the maximum size.
    #[error(
        "the model's reply exceeds the maximum size, so the request was not repeated: ask for less at a time, or raise \
         `max_reply_bytes` in the options of the model's client"
    )]
    Oversized,
    /// The model did not reply.
    #[error("the model did not answer: {failure}")]
    Model {
        /// The reason why the model did not reply.
        failure: ModelFailure,
    },
    /// The run's budget is used up or has no room for another request (HOST-6).
    #[error("{budget_exceeded}")]
    Budget {
        /// The refused request and the limit that it would exceed.
        budget_exceeded: BudgetExceeded,
    },
    /// The agent made the same call with the same result too many times (LOOP-10).
    #[error(
        "the agent is stuck: it called `{tool}` {times} times with the same parameters and got the same result"
    )]
    Stuck {
        /// The name of the tool.
        tool: String,
        /// How many times the tool was called.
        times: u32,
    },
    /// The agent gave up, because it cannot do its task (LEAD-4).
    #[error("the agent gave up: {reason}")]
    GaveUp {
        /// The obstacle and the findings, in the agent's words.
        reason: String,
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
    /// The agent was stopped because the user's guidance changes the plan (PAOR-8).
    #[error("the agent was stopped, because the user gave guidance that changes the plan")]
    Redirected,
    /// The agent was interrupted because the run ended at a limit.
    #[error("the agent was interrupted, because the run ended at a limit")]
    RunEnded,
    /// The run or the user cancelled the agent.
    #[error("cancelled")]
    Cancelled,
    /// The code that runs the agent panicked (PAOR-7).
    #[error("the agent panicked: {message}")]
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

/// The work of an agent, without its transcript. The journal contains the transcript under the agent's id (PAOR-5).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentWork {
    /// Summaries of the agent's tool calls, including refused calls, in chronological order. The calls of a delegate follow the `delegate`
    /// call.
    pub calls: Vec<CallSummary>,
    /// The changes made by these calls.
    pub changes: Vec<StateChange>,
    /// The usage of the agent.
    pub usage: Usage,
    /// The text that the model wrote next to its calls, shortened; empty if the agent ended with an answer (LOOP-2).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub findings_so_far: String,
}

/// A summary of an agent's tool call. A refused call did not run.
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
    /// The duration of the call.
    pub duration: Millis,
    /// The error of a failed call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The shortened output, for the reflector; `null` if there is none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// True if a diff of the files shows everything that the call did and returned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shown_by_diff: bool,
    /// What the call's changes have outdated of the results of earlier calls.
    #[serde(default, skip_serializing_if = "Outdated::is_nothing")]
    pub outdates: Outdated,
    /// The agent that a `delegate` call started; `None` for any other call (PAOR-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
}
