//! Deletes old runs, and the recorded contents to which no other run refers.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use dirigent_core::id::RunId;
use dirigent_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::export::digests_in;
use crate::error::StoreError;
use crate::job::{Job, JobOutcome};
use crate::journal::Journal;
use crate::options::JournalOptions;
use crate::owner::{self, Liveness};
use crate::schema::open_for_writing;
use crate::sql::{integer, parsed, run_key, unsigned};

/// Selects the runs to delete: runs that ended before a given time, are not owned by a live process and are
/// not turns of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneFilter {
    /// The runs must have ended before this time.
    pub ended_before: Timestamp,
    /// Whether to delete paused runs, which have ended but can be resumed.
    pub paused: PausedRuns,
}

/// Whether to delete paused runs, which have ended but can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PausedRuns {
    /// Paused runs are kept.
    Keep,
    /// Paused runs are deleted like finished runs.
    Delete,
}

/// A run that was deleted, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedRun {
    /// The run's id.
    pub run: RunId,
    /// The run's goal.
    pub goal: String,
    /// The time at which the run ended.
    pub ended_at: Timestamp,
    /// The number of the run's entries.
    pub entries: u64,
}

/// The result of [`Journal::prune`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// The deleted runs, oldest first.
    pub runs: Vec<PrunedRun>,
    /// The number of recorded contents that were deleted, because no other run refers to them.
    pub contents: u64,
    /// The number of lock files of ended processes that were removed.
    pub lock_files: u64,
    /// The effect of the deletion on the size of the journal's file.
    pub space: JournalSpace,
}

/// The effect of a deletion on the size of the journal's file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalSpace {
    /// The file shrank by this number of bytes.
    Freed(u64),
    /// The journal is in use, so its file keeps its size. This number of bytes in it will be reused for new
    /// entries.
    Reusable(u64),
}

/// The result of a search for unused contents.
#[derive(Clone)]
pub(crate) struct ContentReferences {
    /// The digests of the unused contents, to which nothing refers.
    unused: HashSet<String>,
    /// The number of entries of each run that were searched. Entries are only appended, so all other entries
    /// are newer.
    searched: HashMap<RunId, u64>,
}

impl Journal {
    /// Returns the runs that [`Journal::prune`] would delete, oldest first.
    ///
    /// # Errors
    /// Any failure to read the journal.
    pub fn prunable(&self, filter: PruneFilter) -> Result<Vec<PrunedRun>, StoreError> {
        let found = self.readers().with(|db| {
            db.prepare(
                "SELECT run, goal, ended_at, entries, (SELECT owner FROM claims WHERE claims.run = runs.id) FROM runs
                 WHERE ended_at < ?1 AND (NOT paused OR ?2) AND conversation IS NULL ORDER BY ended_at, id",
            )?
            .query_map(params![integer(filter.ended_before.0), filter.paused == PausedRuns::Delete], |row| {
                let run = PrunedRun {
                    run: parsed(row, 0)?,
                    goal: row.get(1)?,
                    ended_at: Timestamp(unsigned(row, 2)?),
                    entries: unsigned(row, 3)?,
                };
                Ok((run, row.get::<_, Option<String>>(4)?))
            })?
            .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        let mut prunable = Vec::new();
        for (run, owner) in found {
            if is_free(self.path(), owner.as_deref())? {
                prunable.push(run);
            }
        }
        Ok(prunable)
    }

    /// Deletes the selected runs with their entries and messages, the recorded contents that no other run
    /// refers to, and the lock files of ended processes. Then shrinks the journal's file, if no process owns
    /// a run. Forks of a deleted run are not affected. Each run is deleted in its own transaction, so other
    /// processes can write in between. Blocks on the writer thread, so it must not be called from a callback
    /// of [`Journal::append`].
    ///
    /// # Errors
    /// A failure to read or write the journal. The runs that were deleted before it stay deleted.
    pub fn prune(&self, filter: PruneFilter) -> Result<Pruned, StoreError> {
        let mut runs = Vec::new();
        for run in self.prunable(filter)? {
            let id = run.run;
            let deleted = self.wait(|reply| Job::DeleteRun {
                run: id,
                filter,
                reply,
            })?;
            if deleted > 0 {
                runs.push(run);
            }
        }
        let contents = self.delete_unused_contents()?;
        let lock_files = self.remove_lock_files()?;
        Ok(Pruned {
            runs,
            contents,
            lock_files,
            space: self.release_space()?,
        })
    }

    /// Deletes the contents to which nothing refers, and returns the number deleted.
    pub(crate) fn delete_unused_contents(&self) -> Result<u64, StoreError> {
        let references = self
            .readers()
            .with(|db| find_references(&*db.unchecked_transaction()?))?;
        if references.unused.is_empty() {
            return Ok(0);
        }
        self.wait(|reply| Job::DeleteContents {
            references: Box::new(references),
            reply,
        })
    }

    fn remove_lock_files(&self) -> Result<u64, StoreError> {
        let (claims, entries) = self.readers().with(|db| {
            let db = db.unchecked_transaction()?;
            let claims = db
                .prepare("SELECT DISTINCT owner FROM claims")?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<HashSet<String>>>()?;
            Ok((claims, entry_counts(&db)?))
        })?;
        owner::remove_unclaimed(self.path(), &claims, &entries)
    }

    fn release_space(&self) -> Result<JournalSpace, StoreError> {
        let path = self.path();
        let reusable = self.readers().with(unused_bytes)?;
        if reusable == 0 {
            return Ok(JournalSpace::Freed(0));
        }
        if owner::any_alive(path)? {
            return Ok(JournalSpace::Reusable(reusable));
        }
        // Waits only briefly for readers, because the space can be reused even if it cannot be freed.
        let options = JournalOptions::default()
            .existing()
            .busy_timeout(Duration::from_secs(1));
        let (connection, _) = open_for_writing(path, &options)?;
        let vacuumed = connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
        match vacuumed.map_err(|e| StoreError::sqlite(path, e)) {
            Ok(()) => Ok(JournalSpace::Freed(reusable)),
            Err(StoreError::Locked { .. } | StoreError::Full { .. }) => Ok(JournalSpace::Reusable(reusable)),
            Err(error) => Err(error),
        }
    }
}

/// Returns true if no live process owns the run.
pub(crate) fn is_free(journal: &Path, owner: Option<&str>) -> Result<bool, StoreError> {
    match owner {
        Some(owner) => Ok(owner::liveness(journal, owner)? == Liveness::Dead),
        None => Ok(true),
    }
}

fn unused_bytes(db: &Connection) -> rusqlite::Result<u64> {
    db.query_row(
        "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size",
        [],
        |row| unsigned(row, 0),
    )
}

/// Deletes a run within a transaction, if the filter still selects it; the outcome is the number of deleted runs.
pub(crate) fn delete_run(
    db: &Connection,
    journal: &Path,
    run: RunId,
    filter: PruneFilter,
) -> rusqlite::Result<JobOutcome> {
    let found: Option<(i64, Option<String>)> = db
        .prepare_cached(
            "SELECT id, (SELECT owner FROM claims WHERE claims.run = runs.id) FROM runs
             WHERE run = ?1 AND ended_at < ?2 AND (NOT paused OR ?3) AND conversation IS NULL",
        )?
        .query_row(
            params![
                run_key(run),
                integer(filter.ended_before.0),
                filter.paused == PausedRuns::Delete
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((id, owner)) = found else {
        return Ok(JobOutcome::Done(0));
    };
    match is_free(journal, owner.as_deref()) {
        Ok(true) => {}
        Ok(false) => return Ok(JobOutcome::Done(0)),
        Err(error) => return Ok(JobOutcome::Refused(error)),
    }
    delete_rows(db, id)?;
    Ok(JobOutcome::Done(1))
}

/// Deletes everything of the run with the key `id`, except contents.
pub(crate) fn delete_rows(db: &Connection, id: i64) -> rusqlite::Result<()> {
    for table in ["claims", "messages", "originals", "journal"] {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?
            .execute([id])?;
    }
    db.prepare_cached(
        "DELETE FROM approval_rules WHERE scope = 'run' AND subject = (SELECT run FROM runs WHERE id = ?1)",
    )?
    .execute([id])?;
    db.prepare_cached("DELETE FROM runs WHERE id = ?1")?
        .execute([id])?;
    Ok(())
}

/// Searches all entries for references to contents.
fn find_references(db: &Connection) -> rusqlite::Result<ContentReferences> {
    let mut references = ContentReferences {
        unused: db
            .prepare("SELECT digest FROM contents")?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?,
        searched: HashMap::new(),
    };
    references.search(db)?;
    Ok(references)
}

/// Deletes stored contents within a transaction. Keeps those that became referenced by an original or an
/// entry after the search for unused contents. The outcome is the number deleted.
pub(crate) fn delete_contents(
    db: &Connection,
    references: &ContentReferences,
) -> rusqlite::Result<JobOutcome> {
    let mut references = references.clone();
    references.search(db)?;
    let mut deleted = 0;
    let mut statement = db.prepare_cached("DELETE FROM contents WHERE digest = ?1")?;
    for digest in &references.unused {
        deleted += statement.execute([digest])? as u64;
    }
    Ok(JobOutcome::Done(deleted))
}

impl ContentReferences {
    /// From the unused contents, removes those to which originals or entries refer. Searches only entries
    /// that have not been searched before.
    fn search(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let mut statement = db.prepare("SELECT DISTINCT digest FROM originals")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.unused.remove(row.get_ref(0)?.as_str()?);
        }
        let mut statement = db.prepare(
            "SELECT parts, body FROM journal WHERE run = (SELECT id FROM runs WHERE run = ?1) AND seq > ?2",
        )?;
        for (run, entries) in entry_counts(db)? {
            let searched = self.searched.insert(run, entries).unwrap_or(0);
            if searched == entries {
                continue;
            }
            let mut rows = statement.query(params![run_key(run), integer(searched)])?;
            while let Some(row) = rows.next()? {
                if let Some(parts) = row.get_ref(0)?.as_str_or_null()? {
                    for digest in digests_in(parts) {
                        self.unused.remove(digest);
                    }
                }
                for digest in digests_in(row.get_ref(1)?.as_str()?) {
                    self.unused.remove(digest);
                }
            }
        }
        self.keep_extended(db)
    }

    /// From the unused texts, removes those that a used text extends.
    fn keep_extended(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let extended: HashMap<String, String> = db
            .prepare("SELECT digest, before FROM contents WHERE before IS NOT NULL")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let used = extended.keys().filter(|digest| !self.unused.contains(*digest));
        let used: Vec<&String> = used.collect();
        for mut digest in used {
            while let Some(before) = extended.get(digest)
                && self.unused.remove(before)
            {
                digest = before;
            }
        }
        Ok(())
    }
}

/// Returns the number of entries of each run.
fn entry_counts(db: &Connection) -> rusqlite::Result<HashMap<RunId, u64>> {
    db.prepare("SELECT run, entries FROM runs")?
        .query_map([], |row| Ok((parsed(row, 0)?, unsigned(row, 1)?)))?
        .collect()
}
