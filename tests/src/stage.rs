//! Where a test's run takes place: a workspace and a journal in temporary folders.
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

/// A workspace and a journal, gone when dropped.
pub struct Stage {
    folder: tempfile::TempDir,
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage {
    /// An empty workspace and no journal yet.
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

    /// The same with a file in the workspace.
    pub fn file(self, path: &str, content: &str) -> Stage {
        let path = self.workspace().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// The same with a copy of a folder's files as the workspace.
    pub fn copy_of(self, folder: &Path) -> Stage {
        copy(folder, &self.workspace());
        self
    }

    /// A file of the workspace.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.workspace().join(path)).unwrap()
    }

    /// An orchestrator to be built, with the built-in tools, that asks this model.
    pub fn builder(&self, model: impl ChatModel) -> Builder {
        Dirigent::builder().journal(self.journal()).model(model)
    }

    /// A goal in the workspace.
    pub fn goal(&self, text: &str) -> Goal {
        Goal::new(text).workspace(self.workspace())
    }

    /// What the journal's table of runs says of the end of the only run.
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

/// A sub-agent that is told `You are NAME.` and may use these tools.
pub fn agent(name: &str, tools: &[&str]) -> AgentDefinition {
    AgentDefinition::new(
        name,
        format!("Does what {name} does."),
        format!("You are {name}."),
    )
    .tools(tools.iter().copied())
}

/// The report of a run that ends with a goal achieved.
pub async fn achieved_report(run: &RunHandle) -> Arc<Report> {
    let report = run.outcome().await.expect("the run is carried out");
    assert_eq!(report.end, Some(EndReason::GoalAchieved), "{}", report.summary);
    report
}

/// All events of a run, to its end.
pub async fn all_events(run: &RunHandle) -> Vec<Arc<Event>> {
    let (mut events, mut all) = (run.events(0), Vec::new());
    while let Some(event) = events.next().await {
        all.push(event.expect("the journal can be read"));
    }
    all
}

/// Reads on to the first event that fits.
pub async fn until(events: &mut Events, fits: impl Fn(&EventKind) -> bool) -> Arc<Event> {
    while let Some(event) = events.next().await {
        let event = event.expect("the journal can be read");
        if fits(&event.kind) {
            return event;
        }
    }
    panic!("the run ended without the event");
}

/// Reads on to the next call that waits for an approval.
pub async fn next_approval(events: &mut Events) -> Arc<Approval> {
    let asked = until(events, |kind| matches!(kind, EventKind::ApprovalAsked { .. })).await;
    match &asked.kind {
        EventKind::ApprovalAsked { approval } => approval.clone(),
        other => unreachable!("just matched: {other:?}"),
    }
}

/// Decides about a call by what was shown of it.
pub async fn decide(
    run: &RunHandle,
    approval: &Approval,
    answer: ApprovalAnswer,
) -> Result<(), RuntimeError> {
    run.decide(approval.effect, decision(approval, answer)).await
}

/// That answer to what was shown.
pub fn decision(approval: &Approval, answer: ApprovalAnswer) -> Decision {
    Decision {
        digest: approval.digest.clone(),
        answer,
    }
}

/// Waits until a run whose orchestrator was dropped can be carried on by another one.
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

/// Lets that time pass at once for all that runs in the test's runtime, which must be of one thread. What has a limit can so have a long
/// one, which no slow machine reaches, and yet be past it the moment the test says.
pub async fn pass(time: Duration) {
    let _stopped = StoppedClock::new();
    tokio::time::advance(time).await;
}

/// The clock stands still while this is there, which must not be long: it jumps to the next timer whenever nothing is to do, also while
/// the journal writes. It goes on where nobody waits for the time to pass any more, too.
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

/// Does the work, and lets that time pass once what is waited for has come. Work that ends before it does without.
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

/// What the first sub-task of an iteration came to, by its id.
pub fn finding<'a>(report: &'a Report, iteration: usize, subtask: &str) -> &'a SubTaskResult {
    let observations = &report.iterations[iteration].observations;
    let found = observations.iter().find(|seen| seen.subtask.0 == subtask);
    &found
        .unwrap_or_else(|| panic!("no observation of {subtask}"))
        .finding
}

/// What a sub-agent found, or the text of why it has no findings.
pub fn findings(report: &Report, iteration: usize, subtask: &str) -> Result<String, String> {
    match finding(report, iteration, subtask) {
        SubTaskResult::Agent { result, .. } => result.clone().map_err(|failure| failure.to_string()),
        other => panic!("{subtask} was for no agent: {other:?}"),
    }
}
