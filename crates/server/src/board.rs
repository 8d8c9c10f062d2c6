//! The states of all runs, for clients that watch all of them at once (`/v1/events`).
//!
//! While somebody watches, the journal's list of runs is read several times a second, and the state of each active run is taken from the feed that all its
//! watchers share. Each change of a run gets the next sequence number. A watcher gets the latest state of each run that has changed since its last number,
//! so a slow watcher skips states in between, and misses no run.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dirigent::{Dirigent, Events, RunFilter, RunId, RunRecord, RunState, RunView};
use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::entrance::add_fields;
use crate::problem::Problem;
use crate::runs::run_json;

/// The time between two readings of the list of runs.
const PAUSE: Duration = Duration::from_millis(250);
/// The number of runs that are read apart from those that are active or wait, the newest ones.
const NEWEST: usize = 200;

/// The states of all runs. Clones share them.
#[derive(Clone)]
pub(crate) struct Board(Arc<Shared>);

struct Shared {
    dirigent: Dirigent,
    /// Distinguishes the sequence numbers of this server from those of an earlier one.
    epoch: String,
    state: Mutex<State>,
    /// The last sequence number, or the error with which reading ended.
    changed: watch::Sender<Result<u64, Problem>>,
}

#[derive(Default)]
struct State {
    is_reading: bool,
    seq: u64,
    runs: HashMap<RunId, Known>,
}

/// What is known about a run.
struct Known {
    /// The sequence number of its last change.
    seq: u64,
    record: RunRecord,
    summary: Value,
    /// Keeps the feed of an active run open.
    feed: Option<Events>,
}

impl Known {
    /// Returns true if the run works or waits for the user, as far as known.
    fn is_unfinished(&self) -> bool {
        matches!(self.summary["state"].as_str(), Some("running" | "user_required"))
    }
}

/// A change of a run.
pub(crate) struct Change {
    pub(crate) seq: u64,
    pub(crate) run: Value,
}

/// Somebody who watches all runs.
pub(crate) struct Watcher {
    board: Board,
    changed: watch::Receiver<Result<u64, Problem>>,
}

impl Board {
    pub(crate) fn new(dirigent: Dirigent, epoch: String) -> Self {
        Board(Arc::new(Shared {
            dirigent,
            epoch,
            state: Mutex::default(),
            changed: watch::Sender::new(Ok(0)),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch, once the list of runs was read.
    pub(crate) async fn watch(&self) -> Result<Watcher, Problem> {
        let changed = self.0.changed.subscribe();
        self.read().await?;
        let is_first = !std::mem::replace(&mut self.state().is_reading, true);
        if is_first {
            let _ = self.0.changed.send_replace(Ok(self.state().seq));
            tokio::spawn(self.clone().keep_reading());
        }
        Ok(Watcher {
            board: self.clone(),
            changed,
        })
    }

    /// Reads the list of runs again and again, as long as somebody watches.
    async fn keep_reading(self) {
        loop {
            tokio::time::sleep(PAUSE).await;
            if self.stop_unless_watched() {
                return;
            }
            if let Err(problem) = self.read().await {
                self.state().is_reading = false;
                let _ = self.0.changed.send_replace(Err(problem));
                return;
            }
        }
    }

    /// Returns true if nobody watches. A new watcher subscribes before it looks whether the list is being read.
    fn stop_unless_watched(&self) -> bool {
        let mut state = self.state();
        let is_unwatched = self.0.changed.receiver_count() == 0;
        if is_unwatched {
            state.is_reading = false;
            // Without feeds, nothing is read from the journal.
            state.runs.values_mut().for_each(|known| known.feed = None);
        }
        is_unwatched
    }

    /// Reads the list of runs, and notes the changes.
    async fn read(&self) -> Result<(), Problem> {
        let filters = [
            RunFilter::new().limit(NEWEST),
            RunFilter::new()
                .state(RunState::Running)
                .state(RunState::UserRequired)
                .limit(usize::MAX),
        ];
        let mut records: BTreeMap<RunId, RunRecord> = BTreeMap::new();
        for filter in filters {
            let page = self.0.dirigent.runs(filter).await?;
            records.extend(page.runs.into_iter().map(|record| (record.run, record)));
        }
        for record in self.unlisted(&records).await? {
            records.insert(record.run, record);
        }
        for record in records.into_values() {
            self.note(record).await;
        }
        let last = self.state().seq;
        self.0.changed.send_if_modified(|seq| {
            let is_new = !matches!(seq, Ok(seq) if *seq == last);
            *seq = Ok(last);
            is_new
        });
        Ok(())
    }

    /// The records of runs that worked or waited when they were read last, and are not listed any more. Notes those that were deleted.
    async fn unlisted(&self, records: &BTreeMap<RunId, RunRecord>) -> Result<Vec<RunRecord>, Problem> {
        let missing: Vec<RunId> = {
            let state = self.state();
            // A run that neither works nor waits changes only if it is listed again.
            let known = state
                .runs
                .iter()
                .filter(|(run, known)| known.is_unfinished() && !records.contains_key(run));
            known.map(|(run, _)| *run).collect()
        };
        let mut found = Vec::new();
        for run in missing {
            match self.0.dirigent.record(run).await {
                Ok(record) => found.push(record),
                Err(error) => {
                    let problem = Problem::from(error);
                    if !problem.is("unknown_run") {
                        return Err(problem);
                    }
                    self.remove(run);
                }
            }
        }
        Ok(found)
    }

    fn remove(&self, run: RunId) {
        let mut state = self.state();
        state.seq += 1;
        let seq = state.seq;
        if let Some(known) = state.runs.get_mut(&run) {
            (known.seq, known.feed) = (seq, None);
            known.summary = json!({"run": run, "removed": true});
        }
    }

    /// Notes the state of a run, if it has changed.
    async fn note(&self, record: RunRecord) {
        let run = record.run;
        let is_active = record.owner_pid.is_some();
        let (is_same, mut feed) = match self.state().runs.get_mut(&run) {
            Some(known) => (known.record == record, known.feed.take()),
            None => (false, None),
        };
        if is_same && !is_active {
            return;
        }
        let mut summary = run_json(&record);
        if is_active {
            let open = feed.get_or_insert_with(|| self.0.dirigent.events(run, record.entries));
            // Notices that the feed has ended, as when another process has taken over the run.
            let has_ended = matches!(open.next().now_or_never(), Some(None | Some(Err(_))));
            if let Some(state) = open.with_view(live_state) {
                add_fields(&mut summary, state);
            }
            if has_ended {
                feed = None;
            }
        } else {
            feed = None;
            if record.entries > 0 && RunState::from_record(&record) == RunState::UserRequired {
                match self.0.dirigent.read(run).await {
                    Ok((view, _)) => add_fields(&mut summary, live_state(&view)),
                    // The other runs can be watched all the same.
                    Err(error) => tracing::warn!("the state of run {run} cannot be read: {error}"),
                }
            }
        }
        self.store(record, summary, feed);
    }

    fn store(&self, record: RunRecord, summary: Value, feed: Option<Events>) {
        let mut state = self.state();
        let run = record.run;
        let is_same = state.runs.get(&run).is_some_and(|known| known.summary == summary);
        let seq = match state.runs.get(&run) {
            Some(known) if is_same => known.seq,
            Some(_) | None => {
                state.seq += 1;
                state.seq
            }
        };
        let known = Known {
            seq,
            record,
            summary,
            feed,
        };
        state.runs.insert(run, known);
    }

    /// The id of a sequence number.
    pub(crate) fn id(&self, seq: u64) -> String {
        format!("{}.{seq}", self.0.epoch)
    }

    /// The sequence number of an id; `None` if it is not of this server, so that its client needs all runs.
    pub(crate) fn seq_of(&self, id: &str) -> Option<u64> {
        let (epoch, seq) = id.split_once('.')?;
        (epoch == self.0.epoch).then(|| seq.parse().ok()).flatten()
    }

    /// The number of active and of waiting runs, and of what waits.
    pub(crate) fn counts(&self) -> Value {
        let state = self.state();
        let runs = || state.runs.values().map(|known| &known.summary);
        let waiting = |name: &str| {
            runs()
                .filter_map(|run| run["waiting"][name].as_u64())
                .sum::<u64>()
        };
        let (approvals, questions) = (waiting("approvals"), waiting("questions"));
        json!({
            "running": runs().filter(|run| run["state"] == "running").count(),
            "user_required": runs().filter(|run| run["state"] == "user_required").count(),
            "approvals": approvals,
            "questions": questions,
        })
    }
}

impl Watcher {
    /// The runs that have changed since a sequence number, in the order of their changes.
    pub(crate) fn changes_since(&self, seq: u64) -> Vec<Change> {
        let state = self.board.state();
        let changed = state.runs.values().filter(|known| known.seq > seq);
        let mut changes: Vec<Change> = changed
            .map(|known| Change {
                seq: known.seq,
                run: known.summary.clone(),
            })
            .collect();
        changes.sort_by_key(|change| change.seq);
        changes
    }

    /// Waits for a change.
    ///
    /// # Errors
    /// The journal cannot be read any more.
    pub(crate) async fn changed(&mut self) -> Result<(), Problem> {
        // The board lives as long as its watchers.
        let _ = self.changed.changed().await;
        self.changed.borrow_and_update().clone().map(drop)
    }
}

/// What a view adds to the record of a run.
fn live_state(view: &RunView) -> Value {
    let run = view.run();
    let mut subtasks: BTreeMap<String, u64> = BTreeMap::new();
    if let Some(iteration) = run.iterations().last() {
        let graph = &iteration.graph;
        for index in 0..graph.plan().subtasks.len() {
            *subtasks.entry(graph.state(index).to_string()).or_default() += 1;
        }
    }
    json!({
        "phase": run.phase(),
        "iteration": run.iterations().len(),
        "waiting": {"approvals": view.waiting().len(), "questions": view.questions().len()},
        "subtasks": subtasks,
        "usage": run.usage(),
    })
}
