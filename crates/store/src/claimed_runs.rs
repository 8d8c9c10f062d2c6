//! Applies jobs to the runs that this process owns, and to the database tables.
//!
//! Entry numbers are assigned here, in memory. After a failed transaction, all further writes for its runs
//! are refused, so that no entry can follow a missing one. A new claim continues from the last stored entry.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use dirigent_core::id::RunId;
use dirigent_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::chain::Chain;
use crate::chained_entries::{self, Head};
use crate::contents;
use crate::conversations;
use crate::error::StoreError;
use crate::job::{Job, JobOutcome};
use crate::maintenance;
use crate::message::{self, PostError};
use crate::owner::{self, Liveness, Owner};
use crate::progress::Progress;
use crate::sql::{conversation_key, integer, run_key};
use crate::stored_entry::StoredEntry;
use dirigent_runtime::run_log::{ForkPoint, NewEntry, NewRun, Position, RunEnding};

/// The runs that this process owns.
#[derive(Default)]
pub(crate) struct ClaimedRuns {
    /// The registration of this process as an owner of runs; `None` until the first run is claimed.
    owner: Option<Owner>,
    runs: HashMap<RunId, ClaimedRun>,
    /// Runs that this process has released but that may still be in the claims table.
    unreleased: Vec<RunId>,
    /// Dead owners whose claims are being deleted. Their lock files are removed after the commit.
    dead: Vec<String>,
    /// The runs to which the current transaction appends.
    grown: Vec<RunId>,
}

struct ClaimedRun {
    /// The run's key in the `runs` table.
    id: i64,
    /// The last assigned entry number.
    last: u64,
    /// The checksum of the last entry.
    chain: Chain,
    write_state: WriteState,
}

enum WriteState {
    Open,
    /// The run ended before this claim; appending the next entry reopens it.
    EndedBefore,
    Ended,
    Poisoned(StoreError),
}

type Applied = rusqlite::Result<JobOutcome>;

impl ClaimedRuns {
    /// Applies a job within a transaction. An error makes the whole transaction fail.
    pub(crate) fn apply(&mut self, db: &Connection, path: &Path, job: &Job) -> Applied {
        match job {
            Job::Create { run, new, .. } => self.create(db, path, *run, new),
            Job::Claim { run, .. } => refuse_unreadable(path, self.claim(db, path, *run)),
            Job::Fork { point, run, at, .. } => {
                refuse_unreadable(path, self.fork(db, path, *point, *run, *at))
            }
            Job::Append { run, entry, .. } => self.append(db, *run, entry),
            Job::End {
                run,
                at,
                status,
                ending,
                ..
            } => self.end(db, *run, *at, status, *ending),
            Job::Post {
                run,
                at,
                body,
                position,
                ..
            } => post(db, path, *run, *at, body, *position),
            Job::RejectMessage { run, message, reason } => match self.runs.get(run) {
                None => Ok(JobOutcome::Refused(StoreError::NotClaimed { run: *run })),
                Some(claimed) => {
                    message::reject(db, *message, claimed.id, reason).map(|()| JobOutcome::Done(0))
                }
            },
            Job::StoreContent {
                digest,
                bytes,
                original,
                ..
            } => contents::insert(db, digest, Some(bytes), original.as_ref()).map(|()| JobOutcome::Done(0)),
            Job::Write { write, .. } => Ok(match write(db)? {
                Ok(number) => JobOutcome::Done(number),
                Err(error) => JobOutcome::Refused(error),
            }),
            Job::Import { imported, .. } => imported.insert(db),
            Job::DeleteRun { run, filter, .. } => maintenance::delete_run(db, path, *run, *filter),
            Job::DeleteContents { references, .. } => maintenance::delete_contents(db, references),
            Job::Flush { .. } => Ok(JobOutcome::Done(0)),
            Job::Release { run } => {
                self.store_head(db, *run)?;
                self.runs.remove(run);
                self.unreleased.push(*run);
                self.release(db, *run)
            }
        }
    }

    /// Deletes the claims that could not be released because an earlier transaction failed.
    pub(crate) fn release_leftovers(&self, db: &Connection) -> rusqlite::Result<()> {
        self.unreleased
            .iter()
            .try_for_each(|run| self.release(db, *run).map(drop))
    }

    /// Writes the number of entries and the last checksum of each run to which the transaction has appended.
    pub(crate) fn store_heads(&self, db: &Connection) -> rusqlite::Result<()> {
        self.grown.iter().try_for_each(|run| self.store_head(db, *run))
    }

    fn store_head(&self, db: &Connection, run: RunId) -> rusqlite::Result<()> {
        let Some(claimed) = self.runs.get(&run).filter(|_| self.grown.contains(&run)) else {
            return Ok(());
        };
        db.prepare_cached("UPDATE runs SET entries = ?2, chain = ?3 WHERE id = ?1")?
            .execute(params![claimed.id, integer(claimed.last), claimed.chain])
            .map(drop)
    }

    /// Clears the list of unreleased runs, and removes the lock files of dead owners. Called after each commit.
    pub(crate) fn committed(&mut self, path: &Path) {
        for run in self.unreleased.drain(..) {
            if let Some(owner) = &mut self.owner {
                owner.forget(run);
            }
        }
        for run in self.grown.drain(..) {
            if let (Some(owner), Some(claimed)) = (&mut self.owner, self.runs.get(&run)) {
                owner.record_progress(run, claimed.last);
            }
        }
        for owner in self.dead.drain(..) {
            owner::remove_dead(path, &owner);
        }
    }

    /// Undoes the in-memory changes of a failed transaction, and returns the outcome of each of its jobs.
    pub(crate) fn failed(
        &mut self,
        batch: &[Job],
        outcomes: Vec<JobOutcome>,
        error: &StoreError,
    ) -> Vec<JobOutcome> {
        self.dead.clear();
        self.grown.clear();
        let mut outcomes = outcomes.into_iter();
        batch
            .iter()
            .map(|job| match (job, outcomes.next()) {
                (_, Some(JobOutcome::Refused(e))) => JobOutcome::Refused(e),
                // The transaction failed before this job was applied, so an earlier claim of the run by this process stays valid.
                (Job::Create { .. } | Job::Claim { .. } | Job::Fork { .. }, None) => {
                    JobOutcome::Refused(error.clone())
                }
                (job, Some(JobOutcome::Done(_)) | None) => {
                    self.undo(job, error);
                    JobOutcome::Refused(error.clone())
                }
            })
            .collect()
    }

    /// Returns the storage progress of a run; `None` if this process does not own the run.
    pub(crate) fn progress(&self, run: RunId) -> Option<Progress> {
        self.runs.get(&run).map(|claimed| Progress {
            committed: claimed.last,
            closed: false,
        })
    }

    fn undo(&mut self, job: &Job, error: &StoreError) {
        match job {
            Job::Create { run, .. } | Job::Claim { run, .. } | Job::Fork { run, .. } => {
                self.runs.remove(run);
            }
            Job::Append { run, .. } | Job::End { run, .. } => {
                if let Some(claimed) = self.runs.get_mut(run) {
                    claimed.write_state = WriteState::Poisoned(error.clone());
                }
            }
            Job::Post { .. }
            | Job::RejectMessage { .. }
            | Job::StoreContent { .. }
            | Job::Write { .. }
            | Job::Import { .. }
            | Job::DeleteRun { .. }
            | Job::DeleteContents { .. }
            | Job::Flush { .. } => {}
            Job::Release { run } => {
                self.runs.remove(run);
                self.unreleased.push(*run);
            }
        }
    }

    fn create(&mut self, db: &Connection, path: &Path, run: RunId, new: &NewRun) -> Applied {
        let owner = match self.owner(path) {
            Ok(owner) => owner.name().to_owned(),
            Err(e) => return Ok(JobOutcome::Refused(e)),
        };
        let NewRun {
            turn,
            goal,
            workspace,
            at,
        } = new;
        if let Some(turn) = *turn
            && let Some(refused) = conversations::refuse_turn(db, path, turn)?
        {
            return Ok(JobOutcome::Refused(refused));
        }
        let created = db
            .prepare_cached(
                "INSERT INTO runs (run, goal, workspace, created_at, entries, chain, conversation, turn)
                 VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                run_key(run),
                goal,
                workspace,
                integer(at.0),
                Chain::start(run),
                turn.map(|turn| conversation_key(turn.conversation)),
                turn.map(|turn| turn.number),
            ])?;
        if created == 0 {
            return Ok(JobOutcome::Refused(StoreError::RunExists { run }));
        }
        let head = Head {
            id: db.last_insert_rowid(),
            entries: 0,
            chain: Chain::start(run),
        };
        self.insert_claim(db, &owner, run, head, WriteState::Open)
    }

    fn fork(&mut self, db: &Connection, path: &Path, point: ForkPoint, run: RunId, at: Timestamp) -> Applied {
        let owner = match self.owner(path) {
            Ok(owner) => owner.name().to_owned(),
            Err(e) => return Ok(JobOutcome::Refused(e)),
        };
        let Some(source) = Head::read(db, point.run)? else {
            return Ok(JobOutcome::Refused(no_such_run(path, point.run)));
        };
        if !(1..=source.entries).contains(&point.seq) {
            return Ok(JobOutcome::Refused(StoreError::NoSuchEntry {
                run: point.run,
                at: point.seq,
                last: source.entries,
            }));
        }
        // Checks the entries before anything is written, because the transaction continues after a refusal.
        let checked = chained_entries::walk(db, point.run, source, 0, point.seq, &mut |mut entry| {
            let complete = entry.complete_body(db)?;
            Ok(complete.map_err(|problem| StoreError::broken(point.run, entry.seq, problem)))
        })?;
        if let Err(broken) = checked {
            return Ok(JobOutcome::Refused(broken));
        }
        let created = db
            .prepare_cached(
                "INSERT INTO runs (run, goal, workspace, created_at, entries, chain, forked_from, forked_at)
                 SELECT ?1, goal, workspace, ?2, 0, ?5, run, ?4 FROM runs WHERE id = ?3 ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                run_key(run),
                integer(at.0),
                source.id,
                integer(point.seq),
                Chain::start(run)
            ])?;
        if created == 0 {
            return Ok(JobOutcome::Refused(StoreError::RunExists { run }));
        }
        let id = db.last_insert_rowid();
        match chained_entries::copy(db, (point.run, source), point.seq, (run, id))? {
            Ok(head) => self.insert_claim(db, &owner, run, head, WriteState::Open),
            Err(broken) => Ok(JobOutcome::Refused(broken)),
        }
    }

    fn claim(&mut self, db: &Connection, path: &Path, run: RunId) -> Applied {
        let own = match self.owner(path) {
            Ok(owner) => owner.name().to_owned(),
            Err(e) => return Ok(JobOutcome::Refused(e)),
        };
        let found = db
            .prepare_cached(
                "SELECT ended_at IS NOT NULL, owner, pid
                 FROM runs LEFT JOIN claims ON claims.run = runs.id WHERE runs.run = ?1",
            )?
            .query_row([run_key(run)], |row| {
                let owner: Option<String> = row.get(1)?;
                Ok((row.get(0)?, owner, row.get::<_, Option<u32>>(2)?))
            })
            .optional()?;
        let (Some((ended, owner, pid)), Some(head)) = (found, Head::read(db, run)?) else {
            return Ok(JobOutcome::Refused(no_such_run(path, run)));
        };
        if self.runs.contains_key(&run) {
            let pid = std::process::id();
            return Ok(JobOutcome::Refused(StoreError::AlreadyClaimed { run, pid }));
        }
        let previous = owner.filter(|owner| *owner != own);
        if let Some(owner) = &previous {
            match owner::liveness(path, owner) {
                Err(e) => return Ok(JobOutcome::Refused(e)),
                Ok(Liveness::Alive) => {
                    let pid = pid.unwrap_or_default();
                    return Ok(JobOutcome::Refused(StoreError::AlreadyClaimed { run, pid }));
                }
                Ok(Liveness::Dead) => {}
            }
        }
        let write_state = if ended {
            WriteState::EndedBefore
        } else {
            WriteState::Open
        };
        let complete = chained_entries::check_end(db, run, head)?;
        if let Err(error) = complete.and_then(|()| owner::check_progress(path, run, head.entries)) {
            return Ok(JobOutcome::Refused(error));
        }
        if let Some(owner) = previous
            && !owns_other_runs(db, &owner, head.id)?
        {
            self.dead.push(owner);
        }
        self.insert_claim(db, &own, run, head, write_state)
    }

    fn insert_claim(
        &mut self,
        db: &Connection,
        owner: &str,
        run: RunId,
        head: Head,
        write_state: WriteState,
    ) -> Applied {
        db.prepare_cached("INSERT OR REPLACE INTO claims (run, owner, pid) VALUES (?1, ?2, ?3)")?
            .execute(params![head.id, owner, std::process::id()])?;
        let claimed = ClaimedRun {
            id: head.id,
            last: head.entries,
            chain: head.chain,
            write_state,
        };
        self.runs.insert(run, claimed);
        self.grown.push(run);
        Ok(JobOutcome::Done(0))
    }

    fn append(&mut self, db: &Connection, run: RunId, entry: &NewEntry) -> Applied {
        let claimed = match self.writable(run) {
            Ok(claimed) => claimed,
            Err(e) => return Ok(JobOutcome::Refused(e)),
        };
        let seq = claimed.last + 1;
        if let Some(message) = entry.consumes
            && !message::accept(db, message, claimed.id, seq)?
        {
            let error = StoreError::MessageNotPending { run, message };
            // Later entries are also refused, because the caller has already derived them from this entry.
            claimed.write_state = WriteState::Poisoned(error.clone());
            return Ok(JobOutcome::Refused(error));
        }
        if let WriteState::EndedBefore = claimed.write_state {
            db.prepare_cached("UPDATE runs SET ended_at = NULL, status = NULL WHERE id = ?1")?
                .execute([claimed.id])?;
            claimed.write_state = WriteState::Open;
        }
        let row = StoredEntry::prepare(db, seq, entry)?;
        let chain = row.chain_after(claimed.chain);
        row.insert(db, claimed.id, chain)?;
        (claimed.last, claimed.chain) = (seq, chain);
        if !self.grown.contains(&run) {
            self.grown.push(run);
        }
        Ok(JobOutcome::Done(seq))
    }

    fn end(
        &mut self,
        db: &Connection,
        run: RunId,
        at: Timestamp,
        status: &str,
        ending: RunEnding,
    ) -> Applied {
        let claimed = match self.writable(run) {
            Ok(claimed) => claimed,
            Err(e) => return Ok(JobOutcome::Refused(e)),
        };
        db.prepare_cached("UPDATE runs SET ended_at = ?2, status = ?3, paused = ?4 WHERE id = ?1")?
            .execute(params![
                claimed.id,
                integer(at.0),
                status,
                ending == RunEnding::Paused
            ])?;
        match ending {
            RunEnding::Finished => message::reject_pending(db, claimed.id)?,
            RunEnding::Paused => {}
        }
        claimed.write_state = WriteState::Ended;
        Ok(JobOutcome::Done(0))
    }

    fn release(&self, db: &Connection, run: RunId) -> Applied {
        if let Some(owner) = &self.owner {
            db.prepare_cached(
                "DELETE FROM claims WHERE owner = ?1 AND run = (SELECT id FROM runs WHERE run = ?2)",
            )?
            .execute(params![owner.name(), run_key(run)])?;
        }
        Ok(JobOutcome::Done(0))
    }

    fn writable(&mut self, run: RunId) -> Result<&mut ClaimedRun, StoreError> {
        let claimed = self.runs.get_mut(&run).ok_or(StoreError::NotClaimed { run })?;
        match &claimed.write_state {
            WriteState::Open | WriteState::EndedBefore => Ok(claimed),
            WriteState::Ended => Err(StoreError::Ended { run }),
            WriteState::Poisoned(e) => Err(StoreError::Poisoned {
                run,
                source: Arc::new(e.clone()),
            }),
        }
    }

    fn owner(&mut self, path: &Path) -> Result<&Owner, StoreError> {
        let owner = match self.owner.take() {
            Some(owner) => owner,
            None => Owner::register(path)?,
        };
        Ok(self.owner.insert(owner))
    }
}

/// Refuses a job that has found an unreadable column, instead of failing the whole transaction. Jobs read before they write.
fn refuse_unreadable(path: &Path, applied: Applied) -> Applied {
    match applied {
        Err(e) if chained_entries::is_unreadable(&e) => Ok(JobOutcome::Refused(StoreError::sqlite(path, e))),
        applied => applied,
    }
}

/// Returns true if the owner has claims of runs other than the one with the key `id`.
fn owns_other_runs(db: &Connection, owner: &str, id: i64) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM claims WHERE owner = ?1 AND run <> ?2")?
        .exists(params![owner, id])
}

fn post(db: &Connection, path: &Path, run: RunId, at: Timestamp, body: &str, position: Position) -> Applied {
    Ok(match message::post(db, run, at, body, position)? {
        Ok(message) => JobOutcome::Done(message.0),
        Err(PostError::NoSuchRun) => JobOutcome::Refused(no_such_run(path, run)),
        Err(PostError::Finished) => JobOutcome::Refused(StoreError::Finished { run }),
        Err(PostError::TooMany) => JobOutcome::Refused(StoreError::TooManyMessages { run }),
        Err(PostError::Outdated) => JobOutcome::Refused(StoreError::OtherMessages { run }),
    })
}

fn no_such_run(path: &Path, run: RunId) -> StoreError {
    StoreError::NoSuchRun {
        text: run.to_string(),
        path: path.to_owned(),
    }
}
