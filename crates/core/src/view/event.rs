//! What happened in a run, as its watchers are told.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::agent_report::AgentFailure;
use crate::approval::{Approval, Decision};
use crate::brief::AgentRole;
use crate::end_reason::EndReason;
use crate::id::{AgentId, EffectId, RunId, Scope, SubTaskId};
use crate::message::{ToolCall, Usage};
use crate::observation::Observation;
use crate::phase::Transition;
use crate::plan::Plan;
use crate::question::Question;
use crate::time::{Millis, Timestamp};
use crate::tool::{StateChange, ToolOutcome, ToolResult};

/// Something that happened in a run. JSON: `{"run", "seq", "at", "scope", "event": "…", …}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// The run.
    pub run: RunId,
    /// The journal entry that made it happen. Several events may come of one.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Where: the run or one of its agents.
    pub scope: Scope,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A goal is being pursued.
    RunStarted {
        /// The goal.
        goal: String,
        /// The folder.
        workspace: String,
    },
    /// From one phase to the next (PAOR-1).
    PhaseChanged {
        /// Which.
        #[serde(flatten)]
        transition: Transition,
    },
    /// The planner's plan was accepted.
    PlanMade {
        /// The plan.
        plan: Plan,
    },
    /// A sub-task runs.
    #[serde(rename = "subtask_started")]
    SubTaskStarted {
        /// Which.
        subtask: SubTaskId,
        /// Its title.
        title: String,
        /// The sub-agent that works on it; none for a sequence of calls.
        agent: Option<AgentId>,
    },
    /// A sub-task ended or was skipped.
    #[serde(rename = "subtask_finished")]
    SubTaskFinished {
        /// How.
        observation: Observation,
    },
    /// An agent's loop began.
    AgentStarted {
        /// What it is to the run.
        role: AgentRole,
        /// The call by which another agent had it started (PAOR-5); none for those that the run started by itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        caller: Option<EffectId>,
    },
    /// A model answered.
    ModelReplied {
        /// The request's number in the agent's loop, from 1.
        turn: u32,
        /// What it said.
        content: String,
        /// The model, by its provider's name; none where that is not known.
        model: Option<String>,
        /// What it cost.
        usage: Usage,
    },
    /// A model did not answer.
    ModelFailed {
        /// Why.
        error: String,
    },
    /// A tool runs.
    ToolStarted {
        /// The effect id of the call.
        effect: EffectId,
        /// The tool's name.
        tool: String,
        /// What it was given.
        parameters: Value,
    },
    /// A tool ended.
    ToolFinished {
        /// The effect id of the call.
        effect: EffectId,
        /// The tool's name.
        tool: String,
        /// Whether it did what was asked.
        success: bool,
        /// What kind of failure it is, in a word that stays the same ([`crate::tool::code`]), where one says so.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// What was wrong, if it did not.
        error: Option<String>,
        /// How long it took.
        duration: Millis,
        /// What it changed.
        changes: Vec<StateChange>,
        /// What the tool says to operators alone.
        #[serde(skip_serializing_if = "Map::is_empty")]
        metadata: Map<String, Value>,
    },
    /// An agent's loop ended.
    AgentFinished {
        /// Why it has no answer, if it has none.
        failure: Option<AgentFailure>,
        /// What it used.
        usage: Usage,
        /// From its start to its end.
        duration: Millis,
    },
    /// The user gave guidance.
    Guided {
        /// The user's words.
        guidance: String,
        /// Whether what was under way was stopped for it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        immediate: bool,
    },
    /// A call waits for an approval.
    ApprovalAsked {
        /// What a person must decide about.
        approval: Arc<Approval>,
    },
    /// A person decided about a call.
    ApprovalDecided {
        /// Which.
        effect: EffectId,
        /// What was decided.
        #[serde(flatten)]
        decision: Decision,
    },
    /// Nobody decided about a call in time.
    ApprovalExpired {
        /// Which.
        effect: EffectId,
    },
    /// The run waits for the user.
    QuestionAsked {
        /// What must carry the answer.
        effect: EffectId,
        /// The question.
        #[serde(flatten)]
        question: Question,
    },
    /// The user answered.
    QuestionAnswered {
        /// The user's words.
        answer: String,
    },
    /// The run or an agent goes on in a new process.
    Resumed,
    /// The run ended or, for `user_required`, stands still.
    RunFinished {
        /// Why.
        #[serde(flatten)]
        reason: EndReason,
        /// What came of it.
        summary: String,
    },
}

impl EventKind {
    /// A call that runs from now on.
    pub(super) fn tool_started(effect: EffectId, call: ToolCall) -> Self {
        EventKind::ToolStarted {
            effect,
            tool: call.tool,
            parameters: call.parameters,
        }
    }

    /// A call that has ended.
    pub(super) fn tool_finished(effect: EffectId, call: &ToolCall, result: &ToolResult) -> Self {
        let (code, error) = match &result.outcome {
            ToolOutcome::Success { .. } => (None, None),
            ToolOutcome::Failure { code, error, .. } => (Some(code), Some(error.clone())),
        };
        EventKind::ToolFinished {
            effect,
            tool: call.tool.clone(),
            success: result.succeeded(),
            code: code.filter(|code| !code.is_empty()).cloned(),
            error,
            duration: result.duration,
            changes: result.changes.clone(),
            metadata: result.metadata.clone(),
        }
    }
}
