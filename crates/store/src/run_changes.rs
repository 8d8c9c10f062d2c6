//! Tells which runs have changed, without listing them.
//!
//! The writer thread tells about the runs of this process. For those of other processes, the journal is watched for writes: after one, only
//! the new runs, the runs with new entries and the claims are read, which are as many as there are active runs. The death of an owner writes nothing, so claims are also
//! read once a second.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use dirigent_core::id::RunId;
use futures::FutureExt as _;
use rusqlite::{Connection, OptionalExtension as _};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::error::StoreError;
use crate::journal::Journal;
use crate::owner::{Liveness, liveness};
use crate::progress::WrittenRuns;
use crate::sql::{parsed, unsigned};
use crate::watcher::ChangeSubscription;

/// The interval at which the liveness of the runs' owners is checked.
const OWNER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Journal {
    /// Watches the runs of all processes from now on. Blocks while the claims are read.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn run_changes(&self) -> Result<RunChanges, StoreError> {
        // Subscribed before the claims are read, so that nothing in between is missed.
        let (own, writes) = (self.live().listen(), self.subscribe());
        let listed = ListedRuns::read(self, None)?.0;
        Ok(RunChanges {
            journal: self.clone(),
            own,
            writes,
            listed: Arc::new(listed),
            found: ChangedRuns::default(),
            is_due: false,
            reading: None,
            check_at: Instant::now() + OWNER_CHECK_INTERVAL,
        })
    }
}

/// A subscription to changes of runs. Created by [`Journal::run_changes`].
pub struct RunChanges {
    journal: Journal,
    own: Arc<WrittenRuns>,
    writes: ChangeSubscription,
    listed: Arc<ListedRuns>,
    /// The changes that the next answer contains.
    found: ChangedRuns,
    /// Whether another process may have written since the last reading began.
    is_due: bool,
    /// The reading that has begun. It goes on if a caller stops waiting, so that callers who never wait long do not prevent it.
    reading: Option<JoinHandle<Result<(ListedRuns, ChangedRuns), StoreError>>>,
    /// When the owners are checked next.
    check_at: Instant,
}

/// What has changed since the last answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedRuns {
    /// The runs that were created, claimed, released, ended or reopened, to which entries were appended, or whose owner has died.
    pub runs: BTreeSet<RunId>,
    /// Whether runs were deleted.
    pub deleted: bool,
}

impl RunChanges {
    /// Waits for changes, and returns all since the last call. Changes in quick succession come together, so a slow caller needs no more
    /// memory than there are runs. Changes that this process has made before the call are returned without waiting. A run may be named
    /// although it has not changed. Cancel safe.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn next(&mut self) -> Result<ChangedRuns, StoreError> {
        loop {
            self.found.runs.extend(self.own.take());
            // Also while this process writes all the time.
            self.is_due |=
                self.writes.wait_for_write().now_or_never().is_some() || Instant::now() >= self.check_at;
            if self.is_due && self.reading.is_none() {
                self.begin_reading();
            }
            if self.found != ChangedRuns::default() {
                return Ok(std::mem::take(&mut self.found));
            }
            tokio::select! {
                () = self.own.wait() => {}
                () = self.writes.wait_for_write() => self.is_due = true,
                () = sleep_until(self.check_at), if self.reading.is_none() => {}
                read = finished(&mut self.reading) => {
                    self.reading = None;
                    let (listed, changed) = read?;
                    self.listed = Arc::new(listed);
                    self.found.runs.extend(changed.runs);
                    self.found.deleted |= changed.deleted;
                }
            }
        }
    }

    /// Begins to read what other processes have changed.
    fn begin_reading(&mut self) {
        let (journal, known) = (self.journal.clone(), self.listed.clone());
        self.is_due = false;
        self.check_at = Instant::now() + OWNER_CHECK_INTERVAL;
        self.reading = Some(tokio::task::spawn_blocking(move || {
            ListedRuns::read(&journal, Some(&known))
        }));
    }
}

/// Waits for the end of a reading; for ever without one, or while the runtime is shutting down. Panics if the reading has panicked.
async fn finished(
    reading: &mut Option<JoinHandle<Result<(ListedRuns, ChangedRuns), StoreError>>>,
) -> Result<(ListedRuns, ChangedRuns), StoreError> {
    let Some(reading) = reading else {
        return std::future::pending().await;
    };
    match reading.await {
        Ok(read) => read,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
    }
}

/// What tells whether runs were created, deleted or claimed.
#[derive(Clone, Debug, Default)]
struct ListedRuns {
    /// The number of runs.
    count: u64,
    /// The key of the newest run, with its id.
    newest: Option<(i64, RunId)>,
    /// The key of the newest journal entry of all runs; 0 without any.
    newest_entry: i64,
    claims: HashMap<RunId, Claim>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    owner: String,
    is_alive: bool,
    ended_at: Option<i64>,
}

impl ListedRuns {
    /// Reads the present state, and compares it with an earlier one.
    fn read(journal: &Journal, known: Option<&ListedRuns>) -> Result<(ListedRuns, ChangedRuns), StoreError> {
        let since = known.map(|known| known.newest.map_or(0, |(key, _)| key));
        let since_entry = known.map(|known| known.newest_entry);
        let (count, newest, newest_entry, new, grown, mut claims) = journal.readers().with(|db| {
            // One transaction, so that all of it is of the same moment.
            let db = db.unchecked_transaction()?;
            let count = db.query_row("SELECT count(*) FROM runs", [], |row| unsigned(row, 0))?;
            let newest = db
                .prepare_cached("SELECT id, run FROM runs ORDER BY id DESC LIMIT 1")?
                .query_row([], |row| Ok((row.get(0)?, parsed(row, 1)?)))
                .optional()?;
            let newest_entry = db
                .prepare_cached("SELECT coalesce(max(rowid), 0) FROM journal")?
                .query_row([], |row| row.get(0))?;
            let (new, grown) = (new_runs(&db, since)?, grown_runs(&db, since_entry)?);
            Ok((count, newest, newest_entry, new, grown, claims(&db)?))
        })?;
        let mut owners: HashMap<String, bool> = HashMap::new();
        for claim in claims.values_mut() {
            claim.is_alive = match owners.get(&claim.owner) {
                Some(is_alive) => *is_alive,
                None => liveness(journal.path(), &claim.owner)? == Liveness::Alive,
            };
            owners.insert(claim.owner.clone(), claim.is_alive);
        }
        let listed = ListedRuns {
            count,
            newest,
            newest_entry,
            claims,
        };
        let changed = known.map_or_else(ChangedRuns::default, |known| {
            known.changes_to(&listed, &new, grown)
        });
        Ok((listed, changed))
    }

    /// `new` are the runs from the newest one of `self` on, and `grown` those with newer entries.
    fn changes_to(&self, now: &ListedRuns, new: &[(i64, RunId)], grown: BTreeSet<RunId>) -> ChangedRuns {
        // SQLite may give the key of a deleted run to a new one.
        let added = new.iter().filter(|run| Some(**run) != self.newest);
        let mut runs: BTreeSet<RunId> = added.map(|(_, run)| *run).collect();
        let deleted = self.count + runs.len() as u64 != now.count;
        // A run may have been claimed and released between the two moments.
        runs.extend(grown);
        let either = self.claims.keys().chain(now.claims.keys());
        runs.extend(either.filter(|run| self.claims.get(*run) != now.claims.get(*run)));
        ChangedRuns { runs, deleted }
    }
}

/// The runs from this key on; none without a key, because whoever begins to watch lists the runs.
fn new_runs(db: &Connection, since: Option<i64>) -> rusqlite::Result<Vec<(i64, RunId)>> {
    let Some(since) = since else { return Ok(Vec::new()) };
    db.prepare_cached("SELECT id, run FROM runs WHERE id >= ?1")?
        .query_map([since], |row| Ok((row.get(0)?, parsed(row, 1)?)))?
        .collect()
}

/// The runs with entries after this key; none without a key.
fn grown_runs(db: &Connection, since: Option<i64>) -> rusqlite::Result<BTreeSet<RunId>> {
    let Some(since) = since else {
        return Ok(BTreeSet::new());
    };
    db.prepare_cached(
        "SELECT DISTINCT runs.run FROM journal JOIN runs ON runs.id = journal.run WHERE journal.rowid > ?1",
    )?
    .query_map([since], |row| parsed(row, 0))?
    .collect()
}

fn claims(db: &Connection) -> rusqlite::Result<HashMap<RunId, Claim>> {
    db.prepare_cached(
        "SELECT runs.run, claims.owner, runs.ended_at FROM claims JOIN runs ON runs.id = claims.run",
    )?
    .query_map([], |row| {
        let claim = Claim {
            owner: row.get(1)?,
            is_alive: false,
            ended_at: row.get(2)?,
        };
        Ok((parsed(row, 0)?, claim))
    })?
    .collect()
}
