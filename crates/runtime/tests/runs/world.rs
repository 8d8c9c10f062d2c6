//! An orchestrator with its own journal, and helpers that wait for events.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dirigent_core::end_reason::EndReason;
use dirigent_core::id::RunId;
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::{Report, RunInput};
use dirigent_core::spec::RunSpec;
use dirigent_core::view::EventKind;
use dirigent_runtime::run_log::{RunLog, RunLogErrorKind};
use dirigent_runtime::{Orchestrator, Resume, RunHandle, RuntimeError, Services, UserPresence};
use dirigent_store::{Journal, JournalOptions, StoreError};
use dirigent_tools::ToolRegistry;

use super::fragile::Fragile;
use super::script::{Scripted, spec};

pub struct World {
    pub journal: Journal,
    /// The run log of the orchestrator, which wraps this journal.
    pub log: Fragile,
    pub orchestrator: Orchestrator,
    pub spec: RunSpec,
    pub model: Arc<Scripted>,
    pub folder: tempfile::TempDir,
    tasks: usize,
}

impl World {
    pub async fn new(model: Arc<Scripted>, tools: ToolRegistry) -> Self {
        Self::with_options(model, tools, &JournalOptions::default()).await
    }

    pub async fn with_options(model: Arc<Scripted>, tools: ToolRegistry, options: &JournalOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let journal = options.open(&folder.path().join("journal.db")).unwrap();
        let spec = spec(folder.path(), &tools);
        let log = Fragile::new(journal.clone());
        let orchestrator = start_up(&log, &model, &tools).await;
        World {
            journal,
            log,
            orchestrator,
            spec,
            model,
            tasks: alive_tasks(),
            folder,
        }
    }

    pub async fn start(&self, user: UserPresence) -> RunHandle {
        self.orchestrator.start(self.spec.clone(), user).await.unwrap()
    }

    /// Starts the run and waits for its end.
    pub async fn run(&self) -> Arc<Report> {
        let handle = self.start(UserPresence::Absent).await;
        ended(&handle).await.unwrap()
    }

    /// The run's status in the journal.
    pub fn status(&self, run: RunId) -> Option<String> {
        self.journal.run(run).unwrap().status
    }

    pub fn entries(&self, run: RunId) -> Vec<Entry> {
        self.journal.entries(run, 0, 100_000).unwrap()
    }

    /// Waits until only the tasks from before the first run are left.
    pub async fn all_tasks_end(&self) {
        within(async {
            while alive_tasks() > self.tasks {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Cancels the run, and checks that it is journaled as cancelled and leaves no tasks (HOST-8).
    pub async fn cancel(&self, handle: &RunHandle) -> Arc<Report> {
        handle.cancel().unwrap();
        self.cancelled(handle).await
    }

    /// Waits for the end of a cancelled run, and checks it like [`Self::cancel`].
    pub async fn cancelled(&self, handle: &RunHandle) -> Arc<Report> {
        let report = ended(handle).await.unwrap();
        assert_eq!(report.end, Some(EndReason::Cancelled));
        assert_eq!(
            self.status(handle.id()).as_deref(),
            Some(r#"{"reason":"cancelled"}"#)
        );
        let inputs = self.entries(handle.id()).into_iter().map(|entry| entry.input);
        let cancels = inputs.filter(|input| *input == Input::Run(RunInput::Cancelled));
        assert_eq!(cancels.count(), 1);
        assert!(self.orchestrator.run(handle.id()).is_none());
        self.all_tasks_end().await;
        report
    }
}

pub async fn start_up(
    log: &(impl RunLog + Clone),
    model: &Arc<Scripted>,
    tools: &ToolRegistry,
) -> Orchestrator {
    let services = Services::new(log.clone(), model.clone(), tools.clone());
    Orchestrator::start_up(services).await.unwrap()
}

/// Resumes a run that another handle of its journal owned. That handle releases the run only after its last write, which may be later than
/// its orchestrator reports.
pub async fn resumed(orchestrator: &Orchestrator, run: RunId, user: UserPresence) -> RunHandle {
    within(async {
        loop {
            match orchestrator.resume(run, Resume::new().user(user)).await {
                Err(RuntimeError::Journal(error)) if error.kind() == RunLogErrorKind::AlreadyClaimed => {
                    tokio::task::yield_now().await
                }
                resumed => return resumed.unwrap(),
            }
        }
    })
    .await
}

/// Waits for the end of the run. A run without an end fails the test instead of hanging it.
pub async fn ended(handle: &RunHandle) -> Result<Arc<Report>, RuntimeError> {
    within(handle.outcome()).await
}

pub async fn within<T>(work: impl Future<Output = T>) -> T {
    let far_away = Duration::from_secs(120);
    tokio::time::timeout(far_away, work).await.expect("it hangs")
}

/// Waits for the first matching event.
pub async fn event(handle: &RunHandle, is_meant: impl Fn(&EventKind) -> bool) {
    let mut events = handle.events(0);
    within(async {
        while let Some(event) = events.next().await {
            if is_meant(&event.unwrap().kind) {
                return;
            }
        }
        panic!("the run ended without that event");
    })
    .await;
}

/// The journal's own error.
pub fn store_error(error: &RuntimeError) -> &StoreError {
    match error {
        RuntimeError::Journal(error) => error.downcast_ref().unwrap(),
        other => panic!("{other}"),
    }
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
