//! The runs that this process owns. Applies jobs to these runs and to the database tables.
//!
//! Entry numbers are assigned here, in memory. After a failed transaction, all further writes for its runs are refused, so that no entry
//! can follow a missing one. A new claim continues from the last stored entry.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::contents;
use crate::error::StoreError;
use crate::job::{Job, JobOutcome};
use crate::message::{self, MessageId, PostError};
use crate::owner::{self, Liveness, Owner};
use crate::progress::Progress;
use crate::record::{ForkPoint, NewEntry, RunEnding};
use crate::sql::{integer, run_key, unsigned};

/// The runs that this process owns.
#[derive(Default)]
pub(crate) struct ClaimedRuns {
    /// This process as an owner of runs; `None` until the first run is claimed.
    owner: Option<Owner>,
    runs: HashMap<RunId, ClaimedRun>,
    /// Runs that this process has released but that may still be in the claims table.
    unreleased: Vec<RunId>,
    /// Dead owners whose claims are being deleted. Their lock files are removed after the commit.
    dead: Vec<String>,
}

struct ClaimedRun {
    /// The run's key in the `runs` table.
    id: i64,
    /// The last assigned entry number.
    last: u64,
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
            Job::Create {
                run,
                goal,
                workspace,
                at,
                ..
            } => self.create(db, path, *run, goal, workspace, *at),
            Job::Claim { run, .. } => self.claim(db, path, *run),
            Job::Fork { point, run, at, .. } => self.fork(db, path, *point, *run, *at),
            Job::Append { run, entry, .. } => self.append(db, *run, entry),
            Job::End {
                run,
                at,
                status,
                ending,
                ..
            } => self.end(db, *run, *at, status, *ending),
            Job::Post {
                run, at, body, last, ..
            } => post(db, path, *run, *at, body, *last),
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
            } => contents::insert(db, digest, bytes.as_deref(), original.as_ref())
                .map(|()| JobOutcome::Done(0)),
            Job::Flush { .. } => Ok(JobOutcome::Done(0)),
            Job::Release { run } => {
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

    /// Clears the list of unreleased runs, and removes the lock files of dead owners. Called after each commit.
    pub(crate) fn committed(&mut self, path: &Path) {
        self.unreleased.clear();
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
            Job::Post { .. } | Job::RejectMessage { .. } | Job::StoreContent { .. } | Job::Flush { .. } => {}
            Job::Release { run } => {
                self.runs.remove(run);
                self.unreleased.push(*run);
            }
        }
    }

    fn create(
        &mut self,
        db: &Connection,
        path: &Path,
        run: RunId,
        goal: &str,
        workspace: &str,
        at: Timestamp,
    ) -> Applied {
        let owner = match self.owner(path) {
            Ok(owner) => owner.name().to_owned(),
            Err(e) => return Ok(JobOutcome::Refused(e)),
        };
        let created = db
            .prepare_cached(
                "INSERT INTO runs (run, goal, workspace, created_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
            )?
            .execute(params![run_key(run), goal, workspace, integer(at.0)])?;
        if created == 0 {
            return Ok(JobOutcome::Refused(StoreError::RunExists { run }));
        }
        self.insert_claim(db, &owner, run, db.last_insert_rowid(), WriteState::Open)
    }

    fn fork(&mut self, db: &Connection, path: &Path, point: ForkPoint, run: RunId, at: Timestamp) -> Applied {
        let owner = match self.owner(path) {
            Ok(owner) => owner.name().to_owned(),
            Err(e) => return Ok(JobOutcome::Refused(e)),
        };
        let found = db
            .prepare_cached(
                "SELECT id, (SELECT coalesce(max(seq), 0) FROM journal WHERE journal.run = runs.id)
                 FROM runs WHERE run = ?1",
            )?
            .query_row([run_key(point.run)], |row| {
                Ok((row.get::<_, i64>(0)?, unsigned(row, 1)?))
            })
            .optional()?;
        let Some((source, last)) = found else {
            return Ok(JobOutcome::Refused(no_such_run(path, point.run)));
        };
        if !(1..=last).contains(&point.seq) {
            let (run, at) = (point.run, point.seq);
            return Ok(JobOutcome::Refused(StoreError::NoSuchEntry { run, at, last }));
        }
        let created = db
            .prepare_cached(
                "INSERT INTO runs (run, goal, workspace, created_at, forked_from, forked_at)
                 SELECT ?1, goal, workspace, ?2, id, ?4 FROM runs WHERE id = ?3 ON CONFLICT DO NOTHING",
            )?
            .execute(params![run_key(run), integer(at.0), source, integer(point.seq)])?;
        if created == 0 {
            return Ok(JobOutcome::Refused(StoreError::RunExists { run }));
        }
        let id = db.last_insert_rowid();
        db.prepare_cached(
            "INSERT INTO journal (run, seq, at, scope, body)
             SELECT ?1, seq, at, scope, body FROM journal WHERE run = ?2 AND seq <= ?3 ORDER BY seq",
        )?
        .execute(params![id, source, integer(point.seq)])?;
        self.insert_claim(db, &owner, run, id, WriteState::Open)
    }

    fn claim(&mut self, db: &Connection, path: &Path, run: RunId) -> Applied {
        let own = match self.owner(path) {
            Ok(owner) => owner.name().to_owned(),
            Err(e) => return Ok(JobOutcome::Refused(e)),
        };
        let found = db
            .prepare_cached(
                "SELECT id, ended_at IS NOT NULL, owner, pid
                 FROM runs LEFT JOIN claims ON claims.run = runs.id WHERE runs.run = ?1",
            )?
            .query_row([run_key(run)], |row| {
                let owner: Option<String> = row.get(2)?;
                Ok((row.get(0)?, row.get(1)?, owner, row.get::<_, Option<u32>>(3)?))
            })
            .optional()?;
        let Some((id, ended, owner, pid)) = found else {
            return Ok(JobOutcome::Refused(no_such_run(path, run)));
        };
        if self.runs.contains_key(&run) {
            let pid = std::process::id();
            return Ok(JobOutcome::Refused(StoreError::AlreadyClaimed { run, pid }));
        }
        if let Some(owner) = owner.filter(|owner| *owner != own) {
            match owner::liveness(path, &owner) {
                Err(e) => return Ok(JobOutcome::Refused(e)),
                Ok(Liveness::Alive) => {
                    let pid = pid.unwrap_or_default();
                    return Ok(JobOutcome::Refused(StoreError::AlreadyClaimed { run, pid }));
                }
                Ok(Liveness::Dead) => {
                    db.prepare_cached("DELETE FROM claims WHERE owner = ?1")?
                        .execute([&owner])?;
                    self.dead.push(owner);
                }
            }
        }
        let write_state = if ended {
            WriteState::EndedBefore
        } else {
            WriteState::Open
        };
        self.insert_claim(db, &own, run, id, write_state)
    }

    fn insert_claim(
        &mut self,
        db: &Connection,
        owner: &str,
        run: RunId,
        id: i64,
        write_state: WriteState,
    ) -> Applied {
        db.prepare_cached("INSERT OR REPLACE INTO claims (run, owner, pid) VALUES (?1, ?2, ?3)")?
            .execute(params![id, owner, std::process::id()])?;
        let last = db
            .prepare_cached("SELECT coalesce(max(seq), 0) FROM journal WHERE run = ?1")?
            .query_row([id], |row| unsigned(row, 0))?;
        let claimed = ClaimedRun {
            id,
            last,
            write_state,
        };
        self.runs.insert(run, claimed);
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
            // Later entries are refused, too, because the caller has already derived them from this one.
            claimed.write_state = WriteState::Poisoned(error.clone());
            return Ok(JobOutcome::Refused(error));
        }
        if let WriteState::EndedBefore = claimed.write_state {
            db.prepare_cached("UPDATE runs SET ended_at = NULL, status = NULL WHERE id = ?1")?
                .execute([claimed.id])?;
            claimed.write_state = WriteState::Open;
        }
        let agent = match entry.scope {
            Scope::Run => None,
            Scope::Agent(AgentId(number)) => Some(number),
        };
        db.prepare_cached("INSERT INTO journal (run, seq, at, scope, body) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![
                claimed.id,
                integer(seq),
                integer(entry.at.0),
                agent,
                entry.body
            ])?;
        claimed.last = seq;
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

fn post(
    db: &Connection,
    path: &Path,
    run: RunId,
    at: Timestamp,
    body: &str,
    last: Option<MessageId>,
) -> Applied {
    Ok(match message::post(db, run, at, body, last)? {
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
