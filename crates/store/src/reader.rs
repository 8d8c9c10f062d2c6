//! Reads the journal on separate connections, so that readers and the writer do not block each other.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::time::Timestamp;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use uuid::Uuid;

use crate::chained_entries::{EntryBatch, read_entries};
use crate::error::StoreError;
use crate::owner::{Liveness, liveness};
use crate::run_filter::{RunFilter, RunPage};
use crate::schema::{ReadConnection, open_for_reading};
use crate::sql::{parsed, run_key, unsigned};
use dirigent_runtime::run_log::{ForkPoint, RunRecord, TurnNumber};

/// Maximum number of idle connections that are kept open.
const MAX_IDLE_CONNECTIONS: usize = 4;

const RECORDS: &str = "
    SELECT run, goal, workspace, created_at, ended_at, status,
           (SELECT owner FROM claims WHERE claims.run = runs.id),
           (SELECT pid FROM claims WHERE claims.run = runs.id),
           entries,
           forked_from, forked_at,
           (SELECT coalesce(max(seq), 0) FROM journal WHERE journal.run = runs.id),
           conversation, turn
    FROM runs";

/// Whether a live process owns a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// A live process owns the run. If the run is marked as ended, it has just ended or is about to be resumed.
    Owned { ended_at: Option<u64> },
    /// No live process owns the run, or the run does not exist.
    Unowned,
}

pub(crate) struct Readers {
    path: Arc<PathBuf>,
    busy_timeout: Duration,
    idle: Mutex<Vec<ReadConnection>>,
}

impl Readers {
    pub(crate) fn new(path: Arc<PathBuf>, busy_timeout: Duration) -> Self {
        Readers {
            path,
            busy_timeout,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Closes idle connections, so that the writer's connection is the last to close and removes the write-ahead log.
    pub(crate) fn close(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn entries(&self, run: RunId, after: u64, limit: usize) -> Result<EntryBatch, StoreError> {
        self.with(|db| read_entries(&*db.unchecked_transaction()?, run, after, limit))
    }

    /// Reads the runs that a filter selects, newest first.
    pub(crate) fn page(&self, filter: &RunFilter) -> Result<RunPage, StoreError> {
        let (selected, mut parameters) = filter.condition(self.live_owners()?);
        let count = format!("SELECT count(*) FROM runs WHERE {selected}");
        let total = self.with(|db| {
            db.prepare_cached(&count)?
                .query_row(params_from_iter(&parameters), |row| unsigned(row, 0))
        })?;
        if let Some(run) = filter.last_known() {
            self.run(run)?;
        }
        let page = filter.page_condition(&mut parameters);
        let page = page.map_or(String::new(), |page| format!(" AND {page}"));
        let size = filter.page_size();
        // Reads one row more than the page has, to find out whether there is a next page.
        let limit = i64::try_from(size).unwrap_or(i64::MAX).saturating_add(1);
        let sql = format!("{RECORDS} WHERE {selected}{page} ORDER BY created_at DESC, id DESC LIMIT {limit}");
        let mut runs = self.records(&sql, &parameters)?;
        let has_more = runs.len() > size;
        runs.truncate(size);
        let next = runs.last().filter(|_| has_more).map(|last| last.run);
        Ok(RunPage { runs, total, next })
    }

    pub(crate) fn run(&self, run: RunId) -> Result<RunRecord, StoreError> {
        let parameters = [Value::from(run_key(run))];
        self.records(&format!("{RECORDS} WHERE run = ?1"), &parameters)?
            .pop()
            .ok_or_else(|| self.no_such_run(run.to_string()))
    }

    /// Reads the records of these runs, in no particular order. Runs that do not exist are left out.
    pub(crate) fn runs(&self, runs: &BTreeSet<RunId>) -> Result<Vec<RunRecord>, StoreError> {
        let keys: Vec<String> = runs.iter().map(|run| run_key(*run)).collect();
        let parameters = [Value::from(serde_json::Value::from(keys).to_string())];
        let sql = format!("{RECORDS} WHERE run IN (SELECT value FROM json_each(?1))");
        self.records(&sql, &parameters)
    }

    /// Returns the names of the live processes that own runs, as a JSON array.
    fn live_owners(&self) -> Result<String, StoreError> {
        let owners: Vec<String> = self.with(|db| {
            db.prepare_cached("SELECT DISTINCT owner FROM claims")?
                .query_map([], |row| row.get(0))?
                .collect()
        })?;
        let mut live = Vec::new();
        for owner in owners {
            if liveness(&self.path, &owner)? == Liveness::Alive {
                live.push(owner);
            }
        }
        Ok(serde_json::Value::from(live).to_string())
    }

    pub(crate) fn ownership(&self, run: RunId) -> Result<Ownership, StoreError> {
        let found: Option<(Option<i64>, String)> = self.with(|db| {
            db.prepare_cached(
                "SELECT ended_at, owner FROM runs JOIN claims ON claims.run = runs.id WHERE runs.run = ?1",
            )?
            .query_row([run_key(run)], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
        })?;
        let Some((ended_at, owner)) = found else {
            return Ok(Ownership::Unowned);
        };
        Ok(match liveness(&self.path, &owner)? {
            Liveness::Dead => Ownership::Unowned,
            Liveness::Alive => Ownership::Owned {
                ended_at: ended_at.map(i64::unsigned_abs),
            },
        })
    }

    pub(crate) fn find(&self, text: &str) -> Result<RunId, StoreError> {
        const MIN_DIGITS: usize = 4;
        let text = text.trim();
        let found = if text == "last" {
            self.ids(
                "WHERE entries > 0 ORDER BY created_at DESC, id DESC LIMIT 1",
                None,
            )?
        } else {
            let digits = text.replace('-', "").to_ascii_lowercase();
            if digits.len() < MIN_DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                let text = text.to_owned();
                return Err(StoreError::NotARunId { text });
            }
            self.ids(
                // The last condition matches the beginning of an id's short form, which is its last 8 digits.
                "WHERE run LIKE ?1 || '%' OR run LIKE '%' || ?1 OR substr(run, -8) LIKE ?1 || '%'
                 ORDER BY created_at DESC, id DESC",
                Some(&digits),
            )?
        };
        match found.as_slice() {
            [] => Err(self.no_such_run(text.to_owned())),
            [run] => Ok(*run),
            [..] => Err(StoreError::AmbiguousRun {
                text: text.to_owned(),
                candidates: found,
            }),
        }
    }

    fn no_such_run(&self, text: String) -> StoreError {
        let path = self.path.as_ref().clone();
        StoreError::NoSuchRun { text, path }
    }

    fn ids(&self, condition: &str, digits: Option<&str>) -> Result<Vec<RunId>, StoreError> {
        self.with(|db| {
            db.prepare_cached(&format!("SELECT run FROM runs {condition}"))?
                .query_map(params_from_iter(digits), |row| parsed(row, 0))?
                .collect()
        })
    }

    fn records(&self, sql: &str, parameters: &[Value]) -> Result<Vec<RunRecord>, StoreError> {
        let rows: Vec<(RunRecord, Option<String>)> = self.with(|db| {
            db.prepare_cached(sql)?
                .query_map(params_from_iter(parameters), |row| {
                    Ok((record(row), row.get(6).unwrap_or_default()))
                })?
                .collect()
        })?;
        let mut known = HashMap::new();
        rows.into_iter()
            .map(|(record, owner)| self.with_owner(record, owner, &mut known))
            .collect()
    }

    /// Clears the owner of a record if the owner's process is dead. `known` caches the liveness of each owner.
    fn with_owner(
        &self,
        mut record: RunRecord,
        owner: Option<String>,
        known: &mut HashMap<String, Liveness>,
    ) -> Result<RunRecord, StoreError> {
        if let Some(owner) = owner {
            let state = match known.get(&owner) {
                Some(state) => *state,
                None => liveness(&self.path, &owner)?,
            };
            if state == Liveness::Dead {
                record.owner_pid = None;
            }
            known.insert(owner, state);
        }
        Ok(record)
    }

    /// Reads with an idle connection or a new one.
    pub(crate) fn with<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let path: &Path = &self.path;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open_for_reading(path, self.busy_timeout)?,
        };
        let result = read(&connection.connection).map_err(|e| StoreError::sqlite(path, e));
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if connection.sees_changes && idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(connection);
        }
        result
    }
}

/// Reads as much of a record as possible; the first field that cannot be read is the record's problem.
fn record(row: &Row<'_>) -> RunRecord {
    let mut fields = LenientRow { row, problem: None };
    let ended_at: Option<i64> = fields.read("the time of its end", |row| row.get(4));
    let record = RunRecord {
        run: fields
            .read("its id", |row| parsed(row, 0).map(Some))
            .unwrap_or(RunId(Uuid::nil())),
        goal: fields.read("its goal", |row| row.get(1)),
        workspace: fields.read("its workspace", |row| row.get(2)),
        created_at: Timestamp(fields.read("the time of its creation", |row| unsigned(row, 3))),
        ended_at: ended_at.map(|at| Timestamp(at.unsigned_abs())),
        status: fields.read("its status", |row| row.get(5)),
        owner_pid: fields.read("its owner", |row| row.get(7)),
        entries: fields.read("the number of its entries", |row| unsigned(row, 8)),
        turn: fields.read("its conversation", turn_number),
        forked_from: fields.read("its source", fork_point),
        problem: None,
    };
    let stored: u64 = fields.read("the number of its entries", |row| unsigned(row, 11));
    let lost = (stored != record.entries)
        .then(|| format!("it had {} entries, but the journal has {stored}", record.entries));
    RunRecord {
        problem: fields.problem.or(lost),
        ..record
    }
}

/// A row of which some fields may be unreadable.
struct LenientRow<'a, 'b> {
    row: &'a Row<'b>,
    problem: Option<String>,
}

impl LenientRow<'_, '_> {
    fn read<T: Default>(&mut self, field: &str, read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>) -> T {
        read(self.row).unwrap_or_else(|error| {
            self.problem
                .get_or_insert_with(|| format!("{field} cannot be read: {error}"));
            T::default()
        })
    }
}

fn turn_number(row: &Row<'_>) -> rusqlite::Result<Option<TurnNumber>> {
    if row.get_ref(12)? == ValueRef::Null {
        return Ok(None);
    }
    Ok(Some(TurnNumber {
        conversation: parsed(row, 12)?,
        number: row.get(13)?,
    }))
}

fn fork_point(row: &Row<'_>) -> rusqlite::Result<Option<ForkPoint>> {
    if row.get_ref(9)? == ValueRef::Null {
        return Ok(None);
    }
    Ok(Some(ForkPoint {
        run: parsed(row, 9)?,
        seq: unsigned(row, 10)?,
    }))
}
