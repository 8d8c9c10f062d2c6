//! The events of a run, for watchers.

use std::sync::Arc;

use serde::{Serialize, Serializer};
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
use crate::reflection::Reflection;
use crate::run::JSON_VERSION;
use crate::spec::Worktree;
use crate::time::{Millis, Timestamp};
use crate::tool::{StateChange, ToolOutcome, ToolResult, ToolSpec};
use crate::tools_change::ToolsChange;

/// An event of a run. JSON: `{"version", "run", "seq", "at", "scope", "event": "…", …}`, where `version` is [`JSON_VERSION`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The run's id.
    pub run: RunId,
    /// The number of the journal entry that caused the event. An entry may cause several events.
    pub seq: u64,
    /// The time at which the entry was accepted.
    pub at: Timestamp,
    /// The machine to which the event belongs.
    pub scope: Scope,
    /// The kind of event, with its data.
    pub kind: EventKind,
}

impl Event {
    /// Creates an event.
    pub fn new(run: RunId, seq: u64, at: Timestamp, scope: Scope, kind: EventKind) -> Self {
        Event {
            run,
            seq,
            at,
            scope,
            kind,
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Versioned<'a> {
            version: u32,
            run: RunId,
            seq: u64,
            at: Timestamp,
            scope: Scope,
            #[serde(flatten)]
            kind: &'a EventKind,
        }
        let versioned = Versioned {
            version: JSON_VERSION,
            run: self.run,
            seq: self.seq,
            at: self.at,
            scope: self.scope,
            kind: &self.kind,
        };
        versioned.serialize(serializer)
    }
}

/// The kind of an event, with its data.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// The run started.
    RunStarted {
        /// The goal as the user wrote it.
        goal: String,
        /// The absolute path of the workspace.
        workspace: String,
        /// The git worktree that was created for the run; `None` if the run works in the user's own folder.
        #[serde(skip_serializing_if = "Option::is_none")]
        worktree: Option<Box<Worktree>>,
        /// The files with the project's instructions that the agents were given, relative to the workspace (LEAD-4).
        #[serde(skip_serializing_if = "Vec::is_empty")]
        instructions: Vec<String>,
        /// The project's instructions that were not read or were truncated, with reasons.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        instruction_notes: Vec<String>,
    },
    /// The run's phase changed (PAOR-1).
    PhaseChanged {
        /// The transition to the new phase.
        #[serde(flatten)]
        transition: Transition,
    },
    /// The run accepted the lead's plan.
    PlanMade {
        /// The accepted plan.
        plan: Plan,
    },
    /// A sub-task started.
    #[serde(rename = "subtask_started")]
    SubTaskStarted {
        /// The sub-task's id.
        subtask: SubTaskId,
        /// The sub-task's title.
        title: String,
        /// The sub-agent that works on the sub-task; `None` for a sequence of calls.
        agent: Option<AgentId>,
    },
    /// A sub-task ended or was skipped.
    #[serde(rename = "subtask_finished")]
    SubTaskFinished {
        /// The observation of the sub-task.
        observation: Observation,
    },
    /// The lead continues, because the run needs it again (LEAD-1).
    LeadContinued,
    /// An agent started.
    AgentStarted {
        /// The agent's role.
        role: AgentRole,
        /// The `delegate` call that started the agent (PAOR-5); `None` if the run started it.
        #[serde(skip_serializing_if = "Option::is_none")]
        caller: Option<EffectId>,
    },
    /// A model replied.
    ModelReplied {
        /// The number of the agent's model request, counted from 1.
        turn: u32,
        /// The text of the reply.
        content: String,
        /// The provider's name for the model; `None` if unknown.
        model: Option<String>,
        /// The usage of the request.
        usage: Usage,
    },
    /// A model request failed.
    ModelFailed {
        /// The reason for the failure.
        error: String,
    },
    /// A tool call started.
    ToolStarted {
        /// The effect id of the call.
        effect: EffectId,
        /// The name of the tool.
        tool: String,
        /// The parameters of the call.
        parameters: Value,
        /// The sub-task to which the call belongs, directly or through the agent that makes it; `None` for a call of the lead or the
        /// reflector.
        #[serde(skip_serializing_if = "Option::is_none")]
        subtask: Option<SubTaskId>,
    },
    /// A tool call ended.
    ToolFinished {
        /// The effect id of the call.
        effect: EffectId,
        /// The name of the tool.
        tool: String,
        /// True if the call succeeded.
        success: bool,
        /// The stable code of the failure ([`crate::tool::code`]), if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// The error of a failed call.
        error: Option<String>,
        /// The duration of the call.
        duration: Millis,
        /// The changes that the call made.
        changes: Vec<StateChange>,
        /// The tool's data for operators, which is not shown to models.
        #[serde(skip_serializing_if = "Map::is_empty")]
        metadata: Map<String, Value>,
    },
    /// A call of an agent was refused before it ran.
    ToolRefused {
        /// The name of the tool.
        tool: String,
        /// The parameters of the call, whose long texts are shortened.
        parameters: Value,
        /// The reason, which the agent's model is told as well; shortened if it is long.
        error: String,
    },
    /// The reflector judged an iteration.
    Reflected {
        /// The judgement.
        #[serde(flatten)]
        reflection: Reflection,
    },
    /// An agent ended.
    AgentFinished {
        /// The reason why the agent has no answer; `None` if it answered.
        failure: Option<AgentFailure>,
        /// The usage of the agent.
        usage: Usage,
        /// Time from the agent's start to its end.
        duration: Millis,
    },
    /// The user gave guidance.
    Guided {
        /// The guidance text.
        guidance: String,
        /// True if running work was stopped because of the guidance.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        immediate: bool,
    },
    /// A call waits for approval.
    ApprovalAsked {
        /// The approval to decide about.
        approval: Arc<Approval>,
    },
    /// The user decided about a call.
    ApprovalDecided {
        /// The effect id of the call.
        effect: EffectId,
        /// The user's decision.
        #[serde(flatten)]
        decision: Decision,
    },
    /// An approval expired without a decision.
    ApprovalExpired {
        /// The effect id of the call.
        effect: EffectId,
    },
    /// The run or one of its agents asks the user a question.
    QuestionAsked {
        /// The effect id of the question, to which the answer must refer.
        effect: EffectId,
        /// The name of the agent that asks; `None` if the run asks.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// The question.
        #[serde(flatten)]
        question: Question,
    },
    /// The user answered a question.
    QuestionAnswered {
        /// The effect id of the question.
        effect: EffectId,
        /// The answer text.
        answer: String,
    },
    /// A question of an agent expired without an answer, or the tool that asked no longer needs the answer.
    QuestionExpired {
        /// The effect id of the question.
        effect: EffectId,
    },
    /// A new process resumed the run or the agent.
    Resumed,
    /// The user allows calls from now on, without being asked.
    CallsAllowed {
        /// The calls, as a pattern such as `execute_command(command: cargo test*)`.
        calls: String,
    },
    /// The tools of a service that the run uses have changed.
    ToolsChanged {
        /// The service.
        service: String,
        /// The names of the new tools.
        added: Vec<String>,
        /// The names of the tools that no longer exist.
        removed: Vec<String>,
        /// The names of the tools whose description, parameters or annotations have changed. Such a tool may do something else than before.
        changed: Vec<String>,
    },
    /// Other runs work in the run's workspace, or in a folder above or below it.
    WorkspaceShared {
        /// The ids of the other runs.
        runs: Vec<RunId>,
    },
    /// The run ended or, for `user_required`, waits for the user.
    RunFinished {
        /// The reason why the run ended.
        #[serde(flatten)]
        reason: EndReason,
        /// The outcome, as summarised by the reflector or the lead.
        summary: String,
    },
}

impl EventKind {
    /// The names of all kinds of events.
    pub const NAMES: &'static [&'static str] = &[
        "run_started",
        "phase_changed",
        "plan_made",
        "subtask_started",
        "subtask_finished",
        "lead_continued",
        "agent_started",
        "model_replied",
        "model_failed",
        "tool_started",
        "tool_finished",
        "tool_refused",
        "reflected",
        "agent_finished",
        "guided",
        "approval_asked",
        "approval_decided",
        "approval_expired",
        "question_asked",
        "question_answered",
        "question_expired",
        "resumed",
        "calls_allowed",
        "tools_changed",
        "workspace_shared",
        "run_finished",
    ];

    /// Returns the name of the event, as in its JSON form.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::RunStarted { .. } => "run_started",
            EventKind::PhaseChanged { .. } => "phase_changed",
            EventKind::PlanMade { .. } => "plan_made",
            EventKind::SubTaskStarted { .. } => "subtask_started",
            EventKind::SubTaskFinished { .. } => "subtask_finished",
            EventKind::LeadContinued => "lead_continued",
            EventKind::AgentStarted { .. } => "agent_started",
            EventKind::ModelReplied { .. } => "model_replied",
            EventKind::ModelFailed { .. } => "model_failed",
            EventKind::ToolStarted { .. } => "tool_started",
            EventKind::ToolFinished { .. } => "tool_finished",
            EventKind::ToolRefused { .. } => "tool_refused",
            EventKind::Reflected { .. } => "reflected",
            EventKind::AgentFinished { .. } => "agent_finished",
            EventKind::Guided { .. } => "guided",
            EventKind::ApprovalAsked { .. } => "approval_asked",
            EventKind::ApprovalDecided { .. } => "approval_decided",
            EventKind::ApprovalExpired { .. } => "approval_expired",
            EventKind::QuestionAsked { .. } => "question_asked",
            EventKind::QuestionAnswered { .. } => "question_answered",
            EventKind::QuestionExpired { .. } => "question_expired",
            EventKind::Resumed => "resumed",
            EventKind::CallsAllowed { .. } => "calls_allowed",
            EventKind::ToolsChanged { .. } => "tools_changed",
            EventKind::WorkspaceShared { .. } => "workspace_shared",
            EventKind::RunFinished { .. } => "run_finished",
        }
    }

    /// Creates the event for a change of a service's tools.
    pub(super) fn tools_changed(change: &ToolsChange) -> Self {
        let names = |tools: &[ToolSpec]| tools.iter().map(|tool| tool.name.clone()).collect();
        EventKind::ToolsChanged {
            service: change.service.clone(),
            added: names(&change.added),
            removed: change.removed.clone(),
            changed: names(&change.changed),
        }
    }

    /// Creates the event for the start of a call.
    pub(super) fn tool_started(effect: EffectId, call: ToolCall, subtask: Option<SubTaskId>) -> Self {
        EventKind::ToolStarted {
            effect,
            tool: call.tool,
            parameters: call.parameters,
            subtask,
        }
    }

    /// Creates the event for the end of a call.
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
