//! The states of all runs, for clients that watch all of them at once (`/v1/events`).
//!
//! While somebody watches, the journal tells which runs have changed, and the state of each active run comes from the feed that all its
//! watchers share. Changes in quick succession are read together. Each change of a run gets the next sequence number. A watcher gets the
//! latest state of each run that has changed since its last number, so a slow watcher skips states in between, and misses no run. What is
//! known of finished and deleted runs is bounded: a watcher that has missed more needs a new snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dirigent::{
    ChangedRuns, Dirigent, DirigentError, Events, RunChanges, RunFilter, RunId, RunRecord, RunState, RunView,
};
use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::sleep;

use crate::entrance::add_fields;
use crate::problem::Problem;
use crate::runs::run_json;

/// The time after a change within which further changes are gathered, so that many events of many runs cost few readings.
const GATHERING: Duration = Duration::from_millis(50);
/// The number of runs in a snapshot apart from those that are active or wait, the newest ones.
const NEWEST: usize = 200;
/// The number of the last changes of finished and of deleted runs that are kept for watchers that are behind.
const KEPT: usize = 200;
/// How many more are kept before the oldest are forgotten, so that this is not done with each change.
const SLACK: usize = 50;

/// The states of all runs. Clones share them.
#[derive(Clone)]
pub(crate) struct Board(Arc<Shared>);

struct Shared {
    dirigent: Dirigent,
    /// Distinguishes the sequence numbers of this server from those of an earlier one.
    epoch: String,
    state: Mutex<State>,
    /// The runs whose state has changed since they were read.
    touched: Arc<TouchedRuns>,
    /// Asks the task that reads to catch up. Locked while the task is being started.
    reader: tokio::sync::Mutex<Option<mpsc::Sender<CatchUp>>>,
    /// The last sequence number, or the error with which reading ended.
    changed: watch::Sender<Result<u64, Problem>>,
}

/// Gets an answer once everything that this process has stored before is on the board.
type CatchUp = oneshot::Sender<()>;

#[derive(Default)]
struct State {
    seq: u64,
    /// The last sequence number of what was forgotten.
    forgotten: u64,
    runs: HashMap<RunId, Known>,
}

/// What is known about a run.
struct Known {
    /// The sequence number of its last change.
    seq: u64,
    /// `None` once the run is deleted.
    record: Option<RunRecord>,
    summary: Arc<Value>,
    /// Present while the run is active.
    feed: Option<Feed>,
}

/// The live state of an active run.
struct Feed {
    events: Events,
    has_ended: Arc<AtomicBool>,
}

/// The runs whose state has changed.
#[derive(Default)]
struct TouchedRuns {
    runs: Mutex<BTreeSet<RunId>>,
    touched: Notify,
}

impl TouchedRuns {
    fn add(&self, run: RunId) {
        self.lock().insert(run);
        self.touched.notify_one();
    }

    fn take(&self) -> BTreeSet<RunId> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Returns true if the run works or waits for the user, as far as known.
    fn is_unfinished(&self) -> bool {
        matches!(self.summary["state"].as_str(), Some("running" | "user_required"))
    }

    fn created_at(&self) -> Option<u64> {
        Some(self.record.as_ref()?.created_at.0)
    }
}

/// A change of a run.
pub(crate) struct Change {
    pub(crate) seq: u64,
    pub(crate) run: Arc<Value>,
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
            touched: Arc::default(),
            reader: tokio::sync::Mutex::default(),
            changed: watch::Sender::new(Ok(0)),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch, once everything that this process has stored before is on the board.
    pub(crate) async fn watch(&self) -> Result<Watcher, Problem> {
        let watcher = Watcher {
            changed: self.0.changed.subscribe(),
            board: self.clone(),
        };
        loop {
            let mut reader = self.0.reader.lock().await;
            let Some(requests) = reader.clone().filter(|requests| !requests.is_closed()) else {
                *reader = Some(self.start().await?);
                return Ok(watcher);
            };
            drop(reader);
            let (done, wait) = oneshot::channel();
            // Fails if the task ends at this moment, because nobody had watched.
            if requests.send(done).await.is_ok() && wait.await.is_ok() {
                return Ok(watcher);
            }
        }
    }

    /// Lists the runs, and starts the task that reads their changes.
    async fn start(&self) -> Result<mpsc::Sender<CatchUp>, Problem> {
        // Watched first, so that a change between the list and the first reading is not missed.
        let changes = self.0.dirigent.run_changes().await?;
        self.list().await?;
        let _ = self.0.changed.send_replace(Ok(self.state().seq));
        let (requests, asked) = mpsc::channel(16);
        let reader = Reader {
            board: self.clone(),
            changes,
            asked,
            waiting: Vec::new(),
        };
        tokio::spawn(reader.run());
        Ok(requests)
    }

    /// Reads the newest runs, those that work or wait, and those that were known before.
    async fn list(&self) -> Result<(), Problem> {
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
        let known = self.known_runs();
        self.read(
            known
                .into_iter()
                .filter(|run| !records.contains_key(run))
                .collect(),
        )
        .await?;
        for record in records.into_values() {
            self.note(record).await;
        }
        self.publish();
        Ok(())
    }

    /// The known runs that were not deleted.
    fn known_runs(&self) -> BTreeSet<RunId> {
        let state = self.state();
        let known = state.runs.iter().filter(|(_, known)| known.record.is_some());
        known.map(|(run, _)| *run).collect()
    }

    /// Reads runs that may have changed.
    async fn update(&self, changed: ChangedRuns) -> Result<(), Problem> {
        let mut runs = changed.runs;
        if changed.deleted {
            runs.extend(self.known_runs());
        }
        self.read(runs).await?;
        self.publish();
        Ok(())
    }

    async fn read(&self, mut runs: BTreeSet<RunId>) -> Result<(), Problem> {
        if runs.is_empty() {
            return Ok(());
        }
        for record in self.0.dirigent.records(runs.clone()).await? {
            runs.remove(&record.run);
            self.note(record).await;
        }
        runs.into_iter().for_each(|run| self.remove(run));
        Ok(())
    }

    /// Tells the watchers about what was read.
    fn publish(&self) {
        let last = {
            let mut state = self.state();
            state.forget_surplus();
            state.seq
        };
        self.0.changed.send_if_modified(|seq| {
            let is_new = !matches!(seq, Ok(seq) if *seq == last);
            *seq = Ok(last);
            is_new
        });
    }

    fn remove(&self, run: RunId) {
        let mut state = self.state();
        let next = state.seq + 1;
        if let Some(known) = state.runs.get_mut(&run)
            && known.record.take().is_some()
        {
            (known.seq, known.feed) = (next, None);
            known.summary = Arc::new(json!({"run": run, "removed": true}));
            state.seq = next;
        }
    }

    /// Notes the state of a run, if it has changed.
    async fn note(&self, record: RunRecord) {
        let run = record.run;
        let (is_same, feed) = match self.state().runs.get_mut(&run) {
            Some(known) => (known.record.as_ref() == Some(&record), known.feed.take()),
            None => (false, None),
        };
        let feed = self.feed(&record, feed, is_same);
        if is_same && feed.is_none() {
            return;
        }
        let mut summary = run_json(&record);
        match &feed {
            Some(feed) => {
                if let Some(state) = feed.events.with_view(live_state) {
                    add_fields(&mut summary, state);
                }
            }
            None if record.entries > 0 && RunState::from_record(&record) == RunState::UserRequired => {
                match self.0.dirigent.read(run).await {
                    Ok((view, _)) => add_fields(&mut summary, live_state(&view)),
                    // The other runs can be watched all the same.
                    Err(error) => tracing::warn!("the state of run {run} cannot be read: {error}"),
                }
            }
            None => {}
        }
        self.state().note(record, summary, feed);
    }

    /// The feed of a run, if the run is active.
    fn feed(&self, record: &RunRecord, feed: Option<Feed>, is_same: bool) -> Option<Feed> {
        record.owner_pid?;
        match feed {
            Some(feed) if is_same || !feed.has_ended.load(Ordering::SeqCst) => Some(feed),
            // It has ended with an earlier owner, or before the run was resumed.
            _ if record.ended_at.is_none() => Some(self.follow(record.run)),
            feed => feed,
        }
    }

    /// Has a run read again whenever its live state changes.
    fn follow(&self, run: RunId) -> Feed {
        let feed = Feed {
            events: self.0.dirigent.events(run, 0),
            has_ended: Arc::default(),
        };
        let mut changes = feed.events.view_changes();
        let (touched, has_ended) = (self.0.touched.clone(), feed.has_ended.clone());
        // Ends at the latest when the feed is dropped.
        tokio::spawn(async move {
            while changes.next().await {
                touched.add(run);
            }
            has_ended.store(true, Ordering::SeqCst);
            touched.add(run);
        });
        feed
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
}

impl State {
    fn note(&mut self, record: RunRecord, summary: Value, feed: Option<Feed>) {
        let run = record.run;
        let unchanged = self.runs.get(&run).filter(|known| *known.summary == summary);
        let seq = match unchanged {
            Some(known) => known.seq,
            None => {
                self.seq += 1;
                self.seq
            }
        };
        let known = Known {
            seq,
            record: Some(record),
            summary: Arc::new(summary),
            feed,
        };
        self.runs.insert(run, known);
    }

    /// Forgets finished runs that are neither among the newest nor among those that have changed last, and deleted runs but the last.
    fn forget_surplus(&mut self) {
        let settled = self.runs.iter().filter(|(_, known)| !known.is_unfinished());
        let (mut finished, mut removed) = (Vec::new(), Vec::new());
        for (run, known) in settled {
            match known.created_at() {
                Some(at) => finished.push((at, known.seq, *run)),
                None => removed.push((known.seq, *run)),
            }
        }
        let mut surplus: Vec<RunId> = Vec::new();
        if removed.len() > KEPT + SLACK {
            removed.sort_unstable();
            removed.truncate(removed.len() - KEPT);
            surplus.extend(removed.iter().map(|(_, run)| *run));
        }
        if finished.len() > NEWEST + KEPT + SLACK {
            finished.sort_unstable_by_key(|(at, ..)| std::cmp::Reverse(*at));
            let mut older = finished.split_off(NEWEST);
            older.sort_unstable_by_key(|(_, seq, _)| *seq);
            older.truncate(older.len() - KEPT);
            surplus.extend(older.iter().map(|(.., run)| *run));
        }
        for run in surplus {
            if let Some(known) = self.runs.remove(&run) {
                self.forgotten = self.forgotten.max(known.seq);
            }
        }
    }

    /// The number of active and of waiting runs, and of what waits.
    fn counts(&self) -> Value {
        let runs = || self.runs.values().map(|known| &known.summary);
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
    /// The runs that are active or wait and the newest others, with the sequence number up to which they are known.
    pub(crate) fn snapshot(&self) -> (u64, Value) {
        let state = self.board.state();
        let mut known: Vec<&Known> = state
            .runs
            .values()
            .filter(|known| known.record.is_some())
            .collect();
        known.sort_by_key(|known| std::cmp::Reverse((known.created_at(), known.seq)));
        let mut others = 0;
        let runs = known.into_iter().filter(|known| {
            others += usize::from(!known.is_unfinished());
            known.is_unfinished() || others <= NEWEST
        });
        let runs: Vec<&Value> = runs.map(|known| &*known.summary).collect();
        let states = json!({"id": self.board.id(state.seq), "runs": runs, "counts": state.counts()});
        (state.seq, states)
    }

    /// The runs that have changed since a sequence number, in the order of their changes, and the counts. `None` if some of them were
    /// forgotten, so that a new snapshot is needed.
    pub(crate) fn changes_since(&self, seq: u64) -> Option<(Vec<Change>, Value)> {
        let state = self.board.state();
        if seq < state.forgotten || seq > state.seq {
            return None;
        }
        let changed = state.runs.values().filter(|known| known.seq > seq);
        let mut changes: Vec<Change> = changed
            .map(|known| Change {
                seq: known.seq,
                run: known.summary.clone(),
            })
            .collect();
        changes.sort_by_key(|change| change.seq);
        let counts = match changes.is_empty() {
            true => Value::Null,
            false => state.counts(),
        };
        Some((changes, counts))
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

/// The task that reads changes as long as somebody watches.
struct Reader {
    board: Board,
    changes: RunChanges,
    asked: mpsc::Receiver<CatchUp>,
    /// Those that get an answer after the next reading.
    waiting: Vec<CatchUp>,
}

impl Reader {
    async fn run(mut self) {
        if let Err(problem) = self.keep_reading().await {
            let _ = self.board.0.changed.send_replace(Err(problem));
        }
        // Without feeds, nothing is read from the journal.
        let clear = |state: &mut State| state.runs.values_mut().for_each(|known| known.feed = None);
        clear(&mut self.board.state());
        // Who asks from now on starts another task.
        self.asked.close();
    }

    async fn keep_reading(&mut self) -> Result<(), Problem> {
        let shared = self.board.0.clone();
        loop {
            let mut changed = ChangedRuns::default();
            if self.waiting.is_empty() {
                tokio::select! {
                    biased;
                    () = shared.changed.closed() => return Ok(()),
                    asked = self.asked.recv() => self.waiting.extend(asked),
                    found = self.changes.next() => changed = found.map_err(DirigentError::from)?,
                    () = shared.touched.touched.notified() => {}
                }
            }
            if let Some(more) = self.changes.next().now_or_never() {
                let more = more.map_err(DirigentError::from)?;
                changed.runs.extend(more.runs);
                changed.deleted |= more.deleted;
            }
            changed.runs.extend(shared.touched.take());
            self.board.update(changed).await?;
            for done in self.waiting.drain(..) {
                // Fails if the client has gone.
                let _ = done.send(());
            }
            // Lets changes gather, unless somebody begins to watch.
            tokio::select! {
                () = sleep(GATHERING) => {}
                asked = self.asked.recv() => self.waiting.extend(asked),
            }
        }
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
