//! What the tools return: structured, with a schema, and as short text for clients that show only text.

use std::fmt::Write as _;

use dirigent::events::OpenQuestion;
use dirigent::report::WaitingCall;
use dirigent::{RunRecord, RunState};
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::host::Delivery;
use super::requests::call_json;
use crate::problem::Problem;

/// The largest number of bytes of a diff in a result.
const MAX_DIFF: usize = 200_000;

/// A result with a schema and a text.
pub(crate) trait ToolResult: Serialize + JsonSchema {
    /// The result for clients that show only text.
    fn text(&self) -> String;
}

/// The successful result of a call.
pub(crate) fn success(result: &impl ToolResult) -> CallToolResult {
    let mut returned = CallToolResult::structured(json!(result));
    returned.content = vec![ContentBlock::text(result.text())];
    returned
}

/// The result of a call that failed for a reason that the caller can read.
pub(crate) fn failure(problem: &Problem) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(problem.detail())])
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It works.
    Running,
    /// It waits for a decision or an answer of the user.
    NeedsUser,
    /// Its process has ended before the run. It can be resumed.
    Interrupted,
    /// Its process ended before the run began.
    NeverBegan,
    /// The goal was achieved.
    GoalAchieved,
    /// It ended at its limit of iterations.
    IterationLimit,
    /// It ended at its limit of time.
    TimeLimit,
    /// It ended because its budget was used up.
    BudgetExhausted,
    /// It was cancelled.
    Cancelled,
    /// It failed.
    Failed,
}

impl From<RunState> for State {
    fn from(state: RunState) -> Self {
        match state {
            RunState::Running => State::Running,
            RunState::UserRequired => State::NeedsUser,
            RunState::Interrupted => State::Interrupted,
            RunState::NeverBegan => State::NeverBegan,
            RunState::GoalAchieved => State::GoalAchieved,
            RunState::IterationLimit => State::IterationLimit,
            RunState::TimeLimit => State::TimeLimit,
            RunState::BudgetExhausted => State::BudgetExhausted,
            RunState::Cancelled => State::Cancelled,
            // There are no others: the type only reserves the right to have more.
            RunState::Failed | _ => State::Failed,
        }
    }
}

impl State {
    /// The state in a sentence, after "Run 0190a1b2".
    fn sentence(self) -> &'static str {
        match self {
            State::Running => "is running",
            State::NeedsUser => "needs the user",
            State::Interrupted => "was interrupted, and can be resumed",
            State::NeverBegan => "never began",
            State::GoalAchieved => "has achieved its goal",
            State::IterationLimit => "ended at its limit of iterations",
            State::TimeLimit => "ended at its limit of time",
            State::BudgetExhausted => "ended because its budget is used up",
            State::Cancelled => "was cancelled",
            State::Failed => "failed",
        }
    }
}

/// A run that was started.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StartedRun {
    /// The id of the run.
    pub(crate) run: String,
    pub(crate) state: State,
    /// The folder that the run works in.
    pub(crate) workspace: String,
    /// Notes about the files that the goal mentions.
    pub(crate) notes: Vec<String>,
}

impl ToolResult for StartedRun {
    fn text(&self) -> String {
        let mut text = format!(
            "Started run {} in {}. Call wait_run with this id to get its result.",
            self.run, self.workspace
        );
        for note in &self.notes {
            let _ = write!(text, "\nNote: {note}");
        }
        text
    }
}

/// The state of a run, and its result if it has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunStatus {
    /// The id of the run.
    pub(crate) run: String,
    pub(crate) state: State,
    pub(crate) goal: String,
    /// The folder that the run works in.
    pub(crate) workspace: String,
    /// Why the run ended or waits. Absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<String>,
    /// The result, or the error of a failed run. Empty until there is one.
    pub(crate) summary: String,
    /// The lead's own answer, if it is not the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
    /// The phase: idle, planning, acting, observing, reflecting, complete or failed.
    pub(crate) phase: String,
    /// The number of planning iterations.
    pub(crate) iterations: u32,
    /// The sub-tasks of the latest plan. Empty if the run has none.
    pub(crate) subtasks: Vec<SubTaskStatus>,
    /// The files that the run has created, edited or deleted.
    pub(crate) changed_files: Vec<ChangedPath>,
    /// The questions that wait for the user's answer.
    pub(crate) questions: Vec<OpenQuestionStatus>,
    /// The calls that wait for the user's decision.
    pub(crate) approvals: Vec<WaitingCallStatus>,
    /// Model requests, tokens and cost so far.
    pub(crate) usage: UsageStatus,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A sub-task of the plan.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SubTaskStatus {
    pub(crate) id: String,
    pub(crate) title: String,
    /// `waiting`, `ready`, `running`, `succeeded`, `failed` or `skipped`.
    pub(crate) state: String,
}

/// A file that the run has changed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangedPath {
    /// The path relative to the workspace.
    pub(crate) path: String,
    /// `created`, `edited` or `deleted`.
    pub(crate) kind: String,
}

/// An open question.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OpenQuestionStatus {
    /// The id of the question.
    pub(crate) question: String,
    pub(crate) text: String,
    /// Suggested answers. Other text is possible, too.
    pub(crate) choices: Vec<String>,
}

impl From<&OpenQuestion> for OpenQuestionStatus {
    fn from(open: &OpenQuestion) -> Self {
        OpenQuestionStatus {
            question: open.effect.to_string(),
            text: open.question.question.clone(),
            choices: open.question.choices.clone(),
        }
    }
}

/// A call that waits for approval.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitingCallStatus {
    /// The id of the call.
    pub(crate) call: String,
    /// The tool; `submit_plan` for a plan.
    pub(crate) tool: String,
    pub(crate) parameters: Value,
    /// The digest of everything that is shown. A decision counts only for the call with this digest.
    pub(crate) digest: String,
    /// The agent that wants to make the call. Absent for a call of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
}

impl From<&WaitingCall> for WaitingCallStatus {
    fn from(call: &WaitingCall) -> Self {
        let approval = &call.approval;
        WaitingCallStatus {
            call: approval.effect.to_string(),
            tool: approval.tool.clone(),
            parameters: approval.parameters.clone(),
            digest: approval.digest.0.clone(),
            agent: approval.agent.clone(),
        }
    }
}

/// What a run has used.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UsageStatus {
    pub(crate) model_calls: u32,
    pub(crate) tool_calls: u32,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// The cost in nano-dollars; 0 if the prices are unknown.
    pub(crate) cost: u64,
}

impl ToolResult for RunStatus {
    fn text(&self) -> String {
        let mut text = format!("Run {} {}.", self.run, self.state.sentence());
        if self.state == State::Running {
            let _ = write!(text, " Phase: {}, iteration {}.", self.phase, self.iterations);
        }
        if !self.summary.is_empty() {
            let _ = write!(text, "\n{}", self.summary);
        }
        if let Some(answer) = &self.answer {
            let _ = write!(text, "\n{answer}");
        }
        for subtask in self.subtasks.iter().filter(|_| self.state == State::Running) {
            let _ = write!(text, "\n- {} ({}): {}", subtask.title, subtask.id, subtask.state);
        }
        if !self.changed_files.is_empty() {
            let files = self
                .changed_files
                .iter()
                .map(|file| format!("{} ({})", file.path, file.kind));
            let _ = write!(text, "\nChanged files: {}", files.collect::<Vec<_>>().join(", "));
        }
        for question in &self.questions {
            let _ = write!(text, "\nQuestion {}: {}", question.question, question.text);
            for (choice, number) in question.choices.iter().zip(1..) {
                let _ = write!(text, "\n  {number}. {choice}");
            }
        }
        for call in &self.approvals {
            let parameters = call_json(&call.parameters);
            let _ = write!(
                text,
                "\nCall {} waits for approval: {} {parameters}",
                call.call, call.tool
            );
        }
        if let Some(next) = &self.next {
            let _ = write!(text, "\n{next}");
        }
        text
    }
}

/// What became of a message to a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Delivered {
    /// The id of the run.
    pub(crate) run: String,
    pub(crate) delivery: Delivery,
}

impl ToolResult for Delivered {
    fn text(&self) -> String {
        let done = match self.delivery {
            Delivery::Accepted => "has accepted it",
            Delivery::Resumed => "has been resumed with it",
        };
        format!("Run {} {done}. Call wait_run to get its result.", self.run)
    }
}

/// A run that is cancelled.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CancelledRun {
    /// The id of the run.
    pub(crate) run: String,
}

impl ToolResult for CancelledRun {
    fn text(&self) -> String {
        format!(
            "Run {} is cancelled. What it has changed stays: run_diff shows it.",
            self.run
        )
    }
}

/// A page of runs, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunList {
    pub(crate) runs: Vec<ListedRun>,
    /// The value of `after` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A run of a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedRun {
    /// The id of the run.
    pub(crate) run: String,
    /// A run that waits for the user while its process waits, too, is `running` here: run_status tells.
    pub(crate) state: State,
    pub(crate) goal: String,
    pub(crate) workspace: String,
    /// When it was started, in milliseconds since 1970-01-01 UTC.
    pub(crate) created_at: u64,
}

impl From<&RunRecord> for ListedRun {
    fn from(record: &RunRecord) -> Self {
        ListedRun {
            run: record.run.to_string(),
            state: RunState::from_record(record).into(),
            goal: record.goal.clone(),
            workspace: record.workspace.clone(),
            created_at: record.created_at.0,
        }
    }
}

impl ToolResult for RunList {
    fn text(&self) -> String {
        let lines = self.runs.iter().map(|run| {
            let goal = dirigent::render::sanitize(&run.goal);
            format!(
                "{} {} — {}",
                run.run,
                run.state.sentence(),
                goal.lines().next().unwrap_or_default()
            )
        });
        match lines.collect::<Vec<_>>() {
            lines if lines.is_empty() => "No runs.".to_owned(),
            lines => lines.join("\n"),
        }
    }
}

/// The changes of a run to files.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DiffResult {
    /// The id of the run.
    pub(crate) run: String,
    /// The paths that file tools have changed.
    pub(crate) files: Vec<String>,
    /// The changes as a unified diff. What changed while commands ran follows in lines that begin with `#`.
    pub(crate) diff: String,
    /// True if the diff is cut because it is too long.
    pub(crate) truncated: bool,
}

impl DiffResult {
    pub(crate) fn new(run: String, diff: &dirigent::RunDiff) -> Self {
        let mut text = String::from_utf8_lossy(&diff.bytes()).into_owned();
        let truncated = text.len() > MAX_DIFF;
        if truncated {
            text.truncate(text.floor_char_boundary(MAX_DIFF));
            text.push_str("\n… (the diff is longer)\n");
        }
        DiffResult {
            run,
            files: diff.files.iter().map(|file| file.path.clone()).collect(),
            diff: text,
            truncated,
        }
    }
}

impl ToolResult for DiffResult {
    fn text(&self) -> String {
        match self.diff.is_empty() {
            true => format!("Run {} has changed no files.", self.run),
            false => self.diff.clone(),
        }
    }
}
