//! The state of a run at one moment.

use dirigent::{EndReason, RunId, RunRecord, RunState, RunView};

use super::host::Host;
use super::requests::UserRequest;
use super::results::{ChangedPath, RunStatus, State, SubTaskStatus, UsageStatus};
use crate::problem::Problem;

/// The state of a run at one moment.
pub(crate) struct Snapshot {
    pub(crate) run: RunId,
    pub(crate) state: State,
    /// What the run asks its user. Empty for a run that has ended.
    pub(crate) requests: Vec<UserRequest>,
    /// The number of the last journal entry that the snapshot includes.
    pub(crate) seq: u64,
    record: RunRecord,
    /// `None` if the run has no journal entries.
    view: Option<RunView>,
}

impl Snapshot {
    pub(crate) async fn read(host: &Host, run: RunId) -> Result<Snapshot, Problem> {
        // Read first: if the run ends meanwhile, its entries tell.
        let record = host.dirigent.record(run).await?;
        if record.entries == 0 {
            let state = RunState::from_record(&record).into();
            let requests = Vec::new();
            return Ok(Snapshot {
                run,
                state,
                requests,
                seq: 0,
                record,
                view: None,
            });
        }
        let (view, events) = host.dirigent.read(run).await?;
        let mut requests = UserRequest::of_view(&view);
        let state = match view.run().end() {
            Some(EndReason::UserRequired) => State::NeedsUser,
            Some(end) => {
                requests.clear();
                RunState::from_end(end).into()
            }
            None if !requests.is_empty() => State::NeedsUser,
            None => RunState::from_record(&record).into(),
        };
        let seq = events.last().map_or(0, |event| event.seq);
        Ok(Snapshot {
            run,
            state,
            requests,
            seq,
            record,
            view: Some(view),
        })
    }

    /// Returns true if nothing changes any more unless somebody resumes the run.
    pub(crate) fn is_at_rest(&self) -> bool {
        match self.state {
            State::Running => false,
            State::NeedsUser => self.record.owner_pid.is_none(),
            State::Interrupted
            | State::NeverBegan
            | State::GoalAchieved
            | State::IterationLimit
            | State::TimeLimit
            | State::BudgetExhausted
            | State::Cancelled
            | State::Failed => true,
        }
    }

    /// The state for the calling model; `next` says what to do next.
    pub(crate) fn status(&self, next: Option<String>) -> RunStatus {
        let report = self.view.as_ref().map(RunView::report);
        let usage = report.as_ref().map(|report| report.usage).unwrap_or_default();
        let mut status = RunStatus {
            run: self.run.to_string(),
            state: self.state,
            goal: self.record.goal.clone(),
            workspace: self.record.workspace.clone(),
            end: None,
            summary: String::new(),
            answer: None,
            phase: "idle".to_owned(),
            iterations: 0,
            subtasks: self.view.as_ref().map_or_else(Vec::new, subtasks),
            changed_files: Vec::new(),
            questions: Vec::new(),
            approvals: Vec::new(),
            usage: UsageStatus {
                model_calls: usage.model_calls,
                tool_calls: usage.tool_calls,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cost: usage.cost.0,
            },
            next,
        };
        for request in &self.requests {
            match request {
                UserRequest::Question(open) => status.questions.push(open.into()),
                UserRequest::Call(waiting) => status.approvals.push((&waiting.call).into()),
            }
        }
        if let Some(report) = report {
            status.end = report.end.map(|end| end.to_string());
            status.summary = report.summary;
            status.answer = report.answer;
            status.phase = report.phase.to_string().to_lowercase();
            status.iterations = report.iteration_count;
            let changed = report.changed.into_iter().map(|file| ChangedPath {
                path: file.path,
                kind: file.kind.to_string(),
            });
            status.changed_files = changed.collect();
        }
        status
    }
}

/// The sub-tasks of the latest plan.
fn subtasks(view: &RunView) -> Vec<SubTaskStatus> {
    let Some(iteration) = view.run().iterations().last() else {
        return Vec::new();
    };
    let graph = &iteration.graph;
    let subtasks = graph.plan().subtasks.iter().enumerate();
    subtasks
        .map(|(index, subtask)| SubTaskStatus {
            id: subtask.id.0.clone(),
            title: subtask.title.clone(),
            state: graph.state(index).to_string(),
        })
        .collect()
}
