//! The runs that this process carries out, and what the jobs of a batch do to them and to the tables.
//!
//! Places are given out here, in memory. When a transaction fails, nothing more is written for the runs in it,
//! so that no entry can follow one that is missing; a new claim counts from what is stored.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::StoreError;
use crate::owner::{self, Liveness, Owner};
use crate::tail::Progress;
use crate::writer::{Job, Outcome};

/// The runs that this process holds.
#[derive(Default)]
pub(crate) struct HeldRuns {
    /// Made when the first run is held.
    owner: Option<Owner>,
    runs: HashMap<RunId, HeldRun>,
    /// Given up, but perhaps still in the claims table.
    unreleased: Vec<RunId>,
    /// Owners found dead, whose files go once their claims are gone.
    dead: Vec<String>,
}

struct HeldRun {
    /// In the runs table.
    id: i64,
    /// The last place given out.
    last: u64,
    standing: Standing,
}

enum Standing {
    Open,
    /// It ended before it was claimed; its first entry opens it again.
    EndedBefore,
    Ended,
    Broken(StoreError),
}

type Applied = rusqlite::Result<Outcome>;

impl HeldRuns {
    /// Does what a job asks within a transaction. An error is the failure of the whole transaction.
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
            Job::Append {
                run, at, scope, body, ..
            } => self.append(db, *run, *at, *scope, body),
            Job::End { run, at, status, .. } => self.end(db, *run, *at, status),
            Job::Flush { .. } => Ok(Outcome::Done(0)),
            Job::Release { run } => {
                self.runs.remove(run);
                self.unreleased.push(*run);
                self.release(db, *run)
            }
        }
    }

    /// The claims whose release failed with an earlier transaction.
    pub(crate) fn release_leftovers(&self, db: &Connection) -> rusqlite::Result<()> {
        self.unreleased
            .iter()
            .try_for_each(|run| self.release(db, *run).map(drop))
    }

    /// The transaction is stored.
    pub(crate) fn committed(&mut self, path: &Path) {
        self.unreleased.clear();
        for owner in self.dead.drain(..) {
            owner::remove_dead(path, &owner);
        }
    }

    /// Nothing of the transaction is stored: takes back what its jobs changed, and says what became of each.
    pub(crate) fn failed(
        &mut self,
        batch: &[Job],
        outcomes: Vec<Outcome>,
        error: &StoreError,
    ) -> Vec<Outcome> {
        self.dead.clear();
        let mut outcomes = outcomes.into_iter();
        batch
            .iter()
            .map(|job| match (job, outcomes.next()) {
                (_, Some(Outcome::Refused(e))) => Outcome::Refused(e),
                // They were not applied: a run that is held already stays so.
                (Job::Create { .. } | Job::Claim { .. }, None) => Outcome::Refused(error.clone()),
                (job, Some(Outcome::Done(_)) | None) => {
                    self.undo(job, error);
                    Outcome::Refused(error.clone())
                }
            })
            .collect()
    }

    /// How far a run that was just claimed is.
    pub(crate) fn progress(&self, run: RunId) -> Option<Progress> {
        self.runs.get(&run).map(|held| Progress {
            committed: held.last,
            closed: false,
        })
    }

    fn undo(&mut self, job: &Job, error: &StoreError) {
        match job {
            Job::Create { run, .. } | Job::Claim { run, .. } => {
                self.runs.remove(run);
            }
            Job::Append { run, .. } | Job::End { run, .. } => {
                if let Some(held) = self.runs.get_mut(run) {
                    held.standing = Standing::Broken(error.clone());
                }
            }
            Job::Flush { .. } => {}
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
            Err(e) => return Ok(Outcome::Refused(e)),
        };
        let created = db
            .prepare_cached(
                "INSERT INTO runs (run, goal, workspace, created_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
            )?
            .execute(params![key(run), goal, workspace, integer(at.0)])?;
        if created == 0 {
            return Ok(Outcome::Refused(StoreError::RunExists { run }));
        }
        self.hold(db, &owner, run, db.last_insert_rowid(), Standing::Open)
    }

    fn claim(&mut self, db: &Connection, path: &Path, run: RunId) -> Applied {
        let own = match self.owner(path) {
            Ok(owner) => owner.name().to_owned(),
            Err(e) => return Ok(Outcome::Refused(e)),
        };
        let found = db
            .prepare_cached(
                "SELECT id, ended_at IS NOT NULL, owner, pid
                 FROM runs LEFT JOIN claims ON claims.run = runs.id WHERE runs.run = ?1",
            )?
            .query_row([key(run)], |row| {
                let owner: Option<String> = row.get(2)?;
                Ok((row.get(0)?, row.get(1)?, owner, row.get::<_, Option<u32>>(3)?))
            })
            .optional()?;
        let Some((id, ended, owner, pid)) = found else {
            let path = path.to_owned();
            let text = run.to_string();
            return Ok(Outcome::Refused(StoreError::NoSuchRun { text, path }));
        };
        if self.runs.contains_key(&run) {
            let pid = std::process::id();
            return Ok(Outcome::Refused(StoreError::Held { run, pid }));
        }
        if let Some(owner) = owner.filter(|owner| *owner != own) {
            match owner::liveness(path, &owner) {
                Err(e) => return Ok(Outcome::Refused(e)),
                Ok(Liveness::Alive) => {
                    let pid = pid.unwrap_or_default();
                    return Ok(Outcome::Refused(StoreError::Held { run, pid }));
                }
                Ok(Liveness::Dead) => {
                    db.prepare_cached("DELETE FROM claims WHERE owner = ?1")?
                        .execute([&owner])?;
                    self.dead.push(owner);
                }
            }
        }
        let standing = if ended {
            Standing::EndedBefore
        } else {
            Standing::Open
        };
        self.hold(db, &own, run, id, standing)
    }

    fn hold(&mut self, db: &Connection, owner: &str, run: RunId, id: i64, standing: Standing) -> Applied {
        db.prepare_cached("INSERT OR REPLACE INTO claims (run, owner, pid) VALUES (?1, ?2, ?3)")?
            .execute(params![id, owner, std::process::id()])?;
        let last: i64 = db
            .prepare_cached("SELECT coalesce(max(seq), 0) FROM journal WHERE run = ?1")?
            .query_row([id], |row| row.get(0))?;
        let held = HeldRun {
            id,
            last: last.unsigned_abs(),
            standing,
        };
        self.runs.insert(run, held);
        Ok(Outcome::Done(0))
    }

    fn append(&mut self, db: &Connection, run: RunId, at: Timestamp, scope: Scope, body: &str) -> Applied {
        let held = match self.writable(run) {
            Ok(held) => held,
            Err(e) => return Ok(Outcome::Refused(e)),
        };
        if let Standing::EndedBefore = held.standing {
            db.prepare_cached("UPDATE runs SET ended_at = NULL, status = NULL WHERE id = ?1")?
                .execute([held.id])?;
            held.standing = Standing::Open;
        }
        let agent = match scope {
            Scope::Run => None,
            Scope::Agent(AgentId(number)) => Some(number),
        };
        let seq = held.last + 1;
        db.prepare_cached("INSERT INTO journal (run, seq, at, scope, body) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![held.id, integer(seq), integer(at.0), agent, body])?;
        held.last = seq;
        Ok(Outcome::Done(seq))
    }

    fn end(&mut self, db: &Connection, run: RunId, at: Timestamp, status: &str) -> Applied {
        let held = match self.writable(run) {
            Ok(held) => held,
            Err(e) => return Ok(Outcome::Refused(e)),
        };
        db.prepare_cached("UPDATE runs SET ended_at = ?2, status = ?3 WHERE id = ?1")?
            .execute(params![held.id, integer(at.0), status])?;
        held.standing = Standing::Ended;
        Ok(Outcome::Done(0))
    }

    fn release(&self, db: &Connection, run: RunId) -> Applied {
        if let Some(owner) = &self.owner {
            db.prepare_cached(
                "DELETE FROM claims WHERE owner = ?1 AND run = (SELECT id FROM runs WHERE run = ?2)",
            )?
            .execute(params![owner.name(), key(run)])?;
        }
        Ok(Outcome::Done(0))
    }

    fn writable(&mut self, run: RunId) -> Result<&mut HeldRun, StoreError> {
        let held = self.runs.get_mut(&run).ok_or(StoreError::NotHeld { run })?;
        match &held.standing {
            Standing::Open | Standing::EndedBefore => Ok(held),
            Standing::Ended => Err(StoreError::Ended { run }),
            Standing::Broken(e) => Err(StoreError::Broken {
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

/// A run's id as the runs table has it: without dashes, so that people can look for either end of it.
pub(crate) fn key(run: RunId) -> String {
    run.0.simple().to_string()
}

/// SQLite's integers are signed; no time or place comes near their end.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
