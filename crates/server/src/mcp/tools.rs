//! The tools: their names, descriptions, schemas and annotations.

use rmcp::model::{Tool, ToolAnnotations};

use super::arguments::{AnswerRun, DecideCall, GuideRun, ListRuns, OneRun, StartGoal, WaitRun};
use super::host::Decider;
use super::results::{CancelledRun, Delivered, DiffResult, RunList, RunStatus, StartedRun};

/// How a model is to use the server.
pub(crate) const INSTRUCTIONS: &str = "\
Dirigent is an orchestrator of agents. Delegate a whole goal to it with start_goal, then call wait_run until the run has ended; run_diff shows what it has \
changed. State the goal completely: its agents do not see your conversation. While it works, guide_run corrects its course and cancel_run stops it. If a run needs the user, \
pass on what it asks; answers and decisions are theirs.";

/// The tools of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolName {
    StartGoal,
    WaitRun,
    RunStatus,
    GuideRun,
    AnswerRun,
    CancelRun,
    ListRuns,
    RunDiff,
    DecideCall,
}

impl ToolName {
    const ALL: [ToolName; 9] = [
        ToolName::StartGoal,
        ToolName::WaitRun,
        ToolName::RunStatus,
        ToolName::GuideRun,
        ToolName::AnswerRun,
        ToolName::CancelRun,
        ToolName::ListRuns,
        ToolName::RunDiff,
        ToolName::DecideCall,
    ];

    /// The tools that the client has.
    pub(crate) fn available(decider: Decider) -> impl Iterator<Item = ToolName> {
        Self::ALL.into_iter().filter(move |tool| match tool {
            ToolName::DecideCall => decider == Decider::Model,
            _ => true,
        })
    }

    pub(crate) fn from_name(name: &str, decider: Decider) -> Option<ToolName> {
        Self::available(decider).find(|tool| tool.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            ToolName::StartGoal => "start_goal",
            ToolName::WaitRun => "wait_run",
            ToolName::RunStatus => "run_status",
            ToolName::GuideRun => "guide_run",
            ToolName::AnswerRun => "answer_run",
            ToolName::CancelRun => "cancel_run",
            ToolName::ListRuns => "list_runs",
            ToolName::RunDiff => "run_diff",
            ToolName::DecideCall => "decide_call",
        }
    }

    fn title(self) -> &'static str {
        match self {
            ToolName::StartGoal => "Start a goal",
            ToolName::WaitRun => "Wait for a run",
            ToolName::RunStatus => "Show a run",
            ToolName::GuideRun => "Guide a run",
            ToolName::AnswerRun => "Answer a run's question",
            ToolName::CancelRun => "Cancel a run",
            ToolName::ListRuns => "List runs",
            ToolName::RunDiff => "Show a run's changes",
            ToolName::DecideCall => "Decide about a call",
        }
    }

    fn description(self) -> &'static str {
        match self {
            ToolName::StartGoal => {
                "Starts a run: Dirigent's agents plan the goal, work on it with tools in the workspace, check the result and plan again until the goal is reached. Returns the \
                 id of the run at once; the run goes on by itself. Get its result with wait_run. They can change files and run commands in the workspace, so do not start a \
                 goal that the user has not asked for."
            }
            ToolName::WaitRun => {
                "Waits until a run has ended or needs the user, or the timeout is over, and returns its state: its result, what it has changed, or what it asks. If the state is \
                 `running`, call it again. If the client can ask the user, the run's questions and approvals are put to them while this waits. Cancelling this call does not \
                 cancel the run."
            }
            ToolName::RunStatus => {
                "Returns the state of a run without waiting: phase, plan, changed files, open questions, calls that wait for approval, usage, and the result if it has ended."
            }
            ToolName::GuideRun => {
                "Gives a run guidance, such as a correction from the user. By default its next plan takes it into account; `when: now` stops the current work and plans again at once. \
                 Resumes a run that was interrupted."
            }
            ToolName::AnswerRun => {
                "Answers a question that a run asks its user. Pass on the user's own answer; do not make one up. It does not approve calls: only the user decides about those."
            }
            ToolName::CancelRun => "Cancels a run: its agents and commands stop. What it has changed stays.",
            ToolName::ListRuns => "Lists runs, the newest first.",
            ToolName::RunDiff => "Returns what a run has changed in files, as a unified diff.",
            ToolName::DecideCall => {
                "Decides about a call that waits for approval. The call and its digest are in the result of wait_run and run_status: read the whole call first. A decision counts once, for \
                 exactly this call."
            }
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let hints = ToolAnnotations::with_title(self.title());
        match self {
            ToolName::WaitRun | ToolName::RunStatus | ToolName::ListRuns | ToolName::RunDiff => {
                hints.read_only(true).open_world(false)
            }
            // Agents can change files, run commands and reach the network.
            ToolName::StartGoal | ToolName::DecideCall => hints
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(true),
            ToolName::GuideRun | ToolName::AnswerRun => hints
                .read_only(false)
                .destructive(false)
                .idempotent(false)
                .open_world(true),
            ToolName::CancelRun => hints
                .read_only(false)
                .destructive(true)
                .idempotent(true)
                .open_world(false),
        }
    }

    /// The tool as clients see it.
    pub(crate) fn definition(self) -> Tool {
        let tool = Tool::new(self.name(), self.description(), rmcp::model::JsonObject::new());
        let tool = match self {
            ToolName::StartGoal => tool
                .with_input_schema::<StartGoal>()
                .with_output_schema::<StartedRun>(),
            ToolName::WaitRun => tool
                .with_input_schema::<WaitRun>()
                .with_output_schema::<RunStatus>(),
            ToolName::RunStatus => tool
                .with_input_schema::<OneRun>()
                .with_output_schema::<RunStatus>(),
            ToolName::GuideRun => tool
                .with_input_schema::<GuideRun>()
                .with_output_schema::<Delivered>(),
            ToolName::AnswerRun => tool
                .with_input_schema::<AnswerRun>()
                .with_output_schema::<Delivered>(),
            ToolName::CancelRun => tool
                .with_input_schema::<OneRun>()
                .with_output_schema::<CancelledRun>(),
            ToolName::ListRuns => tool
                .with_input_schema::<ListRuns>()
                .with_output_schema::<RunList>(),
            ToolName::RunDiff => tool
                .with_input_schema::<OneRun>()
                .with_output_schema::<DiffResult>(),
            ToolName::DecideCall => tool
                .with_input_schema::<DecideCall>()
                .with_output_schema::<Delivered>(),
        };
        tool.with_title(self.title()).with_annotations(self.annotations())
    }
}
