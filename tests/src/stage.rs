//! A workspace and a journal in temporary folders, for runs through the library.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dirigent::model::ChatModel;
use dirigent::{
    AgentDefinition, Approval, ApprovalAnswer, Builder, Decision, Dirigent, EndReason, Event, EventKind,
    Events, Goal, Report, RunHandle, RuntimeError,
};
use dirigent_core::journal::Entry;
use dirigent_core::observation::SubTaskResult;
use dirigent_store::Journal;
use serde_json::Value;

/// A workspace and a journal, which are deleted on drop.
pub struct Stage {
    folder: tempfile::TempDir,
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage {
    /// Creates an empty workspace, without a journal.
    pub fn new() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("workspace")).unwrap();
        Stage { folder }
    }

    /// The workspace.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// The journal's file.
    pub fn journal(&self) -> PathBuf {
        self.folder.path().join("journal.db")
    }

    /// Adds a file to the workspace.
    pub fn file(self, path: &str, content: &str) -> Stage {
        let path = self.workspace().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// Copies a folder's files to the workspace.
    pub fn copy_of(self, folder: &Path) -> Stage {
        copy(folder, &self.workspace());
        self
    }

    /// Reads a file of the workspace.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.workspace().join(path)).unwrap()
    }

    /// Returns a builder for an orchestrator with this model, the journal and the built-in tools.
    pub fn builder(&self, model: impl ChatModel) -> Builder {
        Dirigent::builder().journal(self.journal()).model(model)
    }

    /// A goal in the workspace.
    pub fn goal(&self, text: &str) -> Goal {
        Goal::new(text).workspace(self.workspace())
    }

    /// The outcome of the only run, from the journal's table of runs.
    pub fn journaled_end(&self) -> Value {
        let runs = Journal::open(&self.journal()).unwrap().runs().unwrap();
        assert_eq!(runs.len(), 1);
        serde_json::from_str(runs[0].status.as_deref().expect("the run has ended")).unwrap()
    }

    /// The journal's entries of the only run.
    pub fn entries(&self) -> Vec<Entry> {
        let journal = Journal::open(&self.journal()).unwrap();
        let runs = journal.runs().unwrap();
        assert_eq!(runs.len(), 1);
        journal.entries(runs[0].run, 0, 10_000).unwrap()
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            if entry.file_name() != "target" {
                copy(&entry.path(), &target);
            }
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A sub-agent with the role `You are NAME.` and these tools.
pub fn agent(name: &str, tools: &[&str]) -> AgentDefinition {
    AgentDefinition::new(
        name,
        format!("Does what {name} does."),
        format!("You are {name}."),
    )
    .tools(tools.iter().copied())
}

/// Waits for a run that must achieve its goal, and returns its report.
pub async fn achieved_report(run: &RunHandle) -> Arc<Report> {
    let report = run.outcome().await.expect("the run is carried out");
    assert_eq!(report.end, Some(EndReason::GoalAchieved), "{}", report.summary);
    report
}

/// Waits for the end of a run, and returns all its events.
pub async fn all_events(run: &RunHandle) -> Vec<Arc<Event>> {
    let (mut events, mut all) = (run.events(0), Vec::new());
    while let Some(event) = events.next().await {
        all.push(event.expect("the journal can be read"));
    }
    all
}

/// Reads until the first event for which `fits` returns true.
pub async fn until(events: &mut Events, fits: impl Fn(&EventKind) -> bool) -> Arc<Event> {
    while let Some(event) = events.next().await {
        let event = event.expect("the journal can be read");
        if fits(&event.kind) {
            return event;
        }
    }
    panic!("the run ended without the event");
}

/// Reads until the next call that waits for approval.
pub async fn next_approval(events: &mut Events) -> Arc<Approval> {
    let asked = until(events, |kind| matches!(kind, EventKind::ApprovalAsked { .. })).await;
    match &asked.kind {
        EventKind::ApprovalAsked { approval } => approval.clone(),
        other => unreachable!("just matched: {other:?}"),
    }
}

/// Sends a decision about a displayed call.
pub async fn decide(
    run: &RunHandle,
    approval: &Approval,
    answer: ApprovalAnswer,
) -> Result<(), RuntimeError> {
    run.decide(approval.effect, decision(approval, answer)).await
}

/// Creates a decision with this answer to a displayed call.
pub fn decision(approval: &Approval, answer: ApprovalAnswer) -> Decision {
    Decision {
        digest: approval.digest.clone(),
        answer,
    }
}

/// Waits until the dropped orchestrator has released the run, so that another one can resume it.
pub async fn until_free(dirigent: &Dirigent, run: dirigent::RunId) {
    loop {
        if dirigent.record(run).await.unwrap().owner_pid.is_none() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Waits for an operation of the library in a test without a runtime.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(work)
}

/// Advances the clock of the test's runtime, which must be single-threaded. Time limits can thus be long enough for slow machines, and
/// still expire on demand.
pub async fn pass(time: Duration) {
    let _stopped = StoppedClock::new();
    tokio::time::advance(time).await;
}

/// Pauses the clock until dropped. Keep it short: a paused clock jumps to the next timer whenever the runtime is idle, even while the
/// journal is writing. The clock also resumes if the future that advances it is dropped.
struct StoppedClock;

impl StoppedClock {
    fn new() -> Self {
        tokio::time::pause();
        StoppedClock
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

/// Runs `work`, and advances the clock by `time` once `once` is ready, unless the work ends before.
pub async fn passing<T>(work: impl Future<Output = T>, time: Duration, once: impl Future<Output = ()>) -> T {
    let passes = async {
        once.await;
        pass(time).await;
        std::future::pending().await
    };
    tokio::select! {
        done = work => done,
        () = passes => unreachable!("it is pending"),
    }
}

/// The result of the sub-task with this id in an iteration.
pub fn finding<'a>(report: &'a Report, iteration: usize, subtask: &str) -> &'a SubTaskResult {
    let observations = &report.iterations[iteration].observations;
    let found = observations.iter().find(|seen| seen.subtask.0 == subtask);
    &found
        .unwrap_or_else(|| panic!("no observation of {subtask}"))
        .finding
}

/// The findings of a sub-agent, or the reason why it has none.
pub fn findings(report: &Report, iteration: usize, subtask: &str) -> Result<String, String> {
    match finding(report, iteration, subtask) {
        SubTaskResult::Agent { result, .. } => result.clone().map_err(|failure| failure.to_string()),
        other => panic!("{subtask} was for no agent: {other:?}"),
    }
}
