//! Checks a journal for damage, without changing it.

use std::fmt;

use dirigent_core::id::RunId;
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::shared_text::piece_digest;
use rusqlite::{Connection, OptionalExtension, params};
use serde::de::IgnoredAny;

use crate::chained_entries::{Head, walk};
use crate::error::{EntryProblem, StoreError};
use crate::journal::Journal;
use crate::owner;
use crate::reader::Ownership;
use crate::sql::{integer, parsed, unsigned};

/// The result of [`Journal::check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalCheck {
    /// The number of runs.
    pub runs: u64,
    /// The number of entries of all runs.
    pub entries: u64,
    /// The size of the database in bytes.
    pub bytes: u64,
    /// All damage that was found.
    pub problems: Vec<JournalProblem>,
}

/// Damage in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalProblem {
    /// The affected run; `None` if the damage does not belong to a run.
    pub run: Option<RunId>,
    /// The number of the affected entry; `None` if the damage is not in an entry.
    pub entry: Option<u64>,
    /// The problem that was found.
    pub problem: String,
}

impl fmt::Display for JournalProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = &self.problem;
        match (self.run, self.entry) {
            (Some(run), Some(entry)) => write!(f, "run {run}: entry {entry} {problem}"),
            (Some(run), None) => write!(f, "run {run}: {problem}"),
            (None, _) => f.write_str(problem),
        }
    }
}

impl Journal {
    /// Checks the whole journal: the database, the entries of all runs against their checksums, and the
    /// recorded contents against their digests. Reads everything and writes nothing. Runs may be active. Each
    /// run is checked in one snapshot.
    ///
    /// # Errors
    /// A failure to read the journal that is not damage, such as [`StoreError::Locked`].
    pub fn check(&self) -> Result<JournalCheck, StoreError> {
        let mut check = JournalCheck::default();
        let problems = &mut check.problems;
        check.bytes = self.read_checked(None, problems, |db, problems| {
            check_database(db, problems)?;
            db.query_row(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                [],
                |row| unsigned(row, 0),
            )
        })?;
        let runs = self.read_checked(None, problems, |db, _| all_runs(db))?;
        for run in runs {
            let owned_before = self.is_owned(run)?;
            let head = self.read_checked(Some(run), problems, |db, problems| check_run(db, run, problems))?;
            let Some(head) = head else {
                // The run was deleted in the meantime, or was reported as damaged.
                continue;
            };
            check.runs += 1;
            check.entries += head.entries;
            if !owned_before
                && let Err(StoreError::EntriesLost { committed, found, .. }) =
                    owner::check_progress(self.path(), run, head.entries)
                // Otherwise, another process claimed the run in the meantime and appended to it.
                && !self.is_owned(run)?
            {
                let text = format!("{committed} entries were committed, but the journal has only {found}");
                problems.push(problem(run, None, text));
            }
        }
        self.read_checked(None, problems, check_contents)?;
        Ok(check)
    }

    fn is_owned(&self, run: RunId) -> Result<bool, StoreError> {
        Ok(self.readers().ownership(run)? != Ownership::Unowned)
    }

    /// Reads in one snapshot. Damage that makes the read fail is added to the problems.
    fn read_checked<T: Default>(
        &self,
        run: Option<RunId>,
        problems: &mut Vec<JournalProblem>,
        read: impl FnOnce(&Connection, &mut Vec<JournalProblem>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let result = self
            .readers()
            .with(|db| read(&*db.unchecked_transaction()?, problems));
        match result {
            Err(StoreError::Damaged { source, .. } | StoreError::Sqlite { source, .. }) => {
                problems.push(JournalProblem {
                    run,
                    entry: None,
                    problem: format!("cannot be read completely: {source}"),
                });
                Ok(T::default())
            }
            result => result,
        }
    }
}

fn problem(run: RunId, entry: Option<u64>, problem: impl Into<String>) -> JournalProblem {
    JournalProblem {
        run: Some(run),
        entry,
        problem: problem.into(),
    }
}

fn journal_problem(problem: String) -> JournalProblem {
    JournalProblem {
        run: None,
        entry: None,
        problem,
    }
}

fn all_runs(db: &Connection) -> rusqlite::Result<Vec<RunId>> {
    db.prepare("SELECT run FROM runs ORDER BY id")?
        .query_map([], |row| parsed(row, 0))?
        .collect()
}

/// Checks the structure of the database, and that all rows belong to a run.
fn check_database(db: &Connection, problems: &mut Vec<JournalProblem>) -> rusqlite::Result<()> {
    let mut statement = db.prepare("PRAGMA integrity_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            problems.push(journal_problem(format!("the database is damaged: {line}")));
        }
    }
    let mut statement = db.prepare("SELECT \"table\", count(*) FROM pragma_foreign_key_check GROUP BY 1")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, count): (String, i64) = (row.get(0)?, row.get(1)?);
        problems.push(journal_problem(format!(
            "the table `{table}` has {count} rows of runs that are missing from the journal"
        )));
    }
    check_facts(db, problems)
}

/// Checks that the word index contains all facts in the memory, and no others.
fn check_facts(db: &Connection, problems: &mut Vec<JournalProblem>) -> rusqlite::Result<()> {
    let differences: i64 = db.query_row(
        "SELECT (SELECT count(*) FROM facts WHERE id NOT IN (SELECT id FROM fact_words_docsize))
              + (SELECT count(*) FROM fact_words_docsize WHERE id NOT IN (SELECT id FROM facts))",
        [],
        |row| row.get(0),
    )?;
    if differences > 0 {
        problems.push(journal_problem(format!(
            "the memory's word index differs from the facts in {differences} places"
        )));
    }
    Ok(())
}

/// Checks the entries of a run; `None` if there is no such run.
fn check_run(
    db: &Connection,
    run: RunId,
    problems: &mut Vec<JournalProblem>,
) -> rusqlite::Result<Option<Head>> {
    let Some(head) = Head::read(db, run)? else {
        return Ok(None);
    };
    check_status(db, run, head.id, problems)?;
    let mut after = 0;
    loop {
        let walked = walk(db, run, head, after, u64::MAX, &mut |mut entry| {
            let seq = entry.seq;
            match entry.complete_body(db)? {
                Err(EntryProblem::Missing | EntryProblem::Changed) => {
                    let text = "refers to content that is stored once for several entries, and this content is missing or damaged";
                    problems.push(problem(run, Some(seq), text));
                }
                Ok(()) => match entry.parse(run) {
                    Ok(first) if seq == 1 => check_goal(db, head.id, &first, problems)?,
                    Err(StoreError::Entry { source, .. }) => {
                        let text = format!("cannot be read by this version of Dirigent: {source}");
                        problems.push(problem(run, Some(seq), text));
                    }
                    _ => {}
                },
            }
            Ok(Ok(()))
        })?;
        let Err(StoreError::BrokenEntry {
            seq, problem: found, ..
        }) = walked
        else {
            return Ok(Some(head));
        };
        if seq == after {
            // The remaining mismatch is with the run's own checksum, and has already been reported for the
            // last entry.
            return Ok(Some(head));
        }
        problems.push(problem(run, Some(seq), found.to_string()));
        // The entries after a broken entry are checked against the stored checksum of the broken entry.
        after = match found {
            EntryProblem::Changed => seq,
            EntryProblem::Missing => match next_entry(db, head.id, seq)? {
                Some(next) => next,
                None => return Ok(Some(head)),
            },
        };
    }
}

/// Checks that the goal and the workspace in the record of a run are those of its first entry.
fn check_goal(
    db: &Connection,
    id: i64,
    first: &Entry,
    problems: &mut Vec<JournalProblem>,
) -> rusqlite::Result<()> {
    let Input::Run(RunInput::Started { spec }) = &first.input else {
        return Ok(());
    };
    let same = db
        .prepare_cached("SELECT goal = ?2, workspace = ?3 FROM runs WHERE id = ?1")?
        .query_row(params![id, spec.goal, spec.workspace], |row| {
            Ok([("goal", row.get(0)?), ("workspace", row.get(1)?)])
        })?;
    for (name, _) in same.into_iter().filter(|(_, same): &(_, bool)| !same) {
        let text = format!("its {name} in the list of runs differs from its first entry");
        problems.push(problem(first.run, None, text));
    }
    Ok(())
}

/// Checks that a run has a readable reason for its end if, and only if, it has ended.
fn check_status(
    db: &Connection,
    run: RunId,
    id: i64,
    problems: &mut Vec<JournalProblem>,
) -> rusqlite::Result<()> {
    let (has_ended, status): (bool, Option<String>) = db
        .prepare_cached("SELECT ended_at IS NOT NULL, status FROM runs WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let is_readable = |status: &String| serde_json::from_str::<IgnoredAny>(status).is_ok();
    if has_ended != status.is_some() || !status.as_ref().is_none_or(is_readable) {
        let text = "the recorded end reason is missing or has been altered";
        problems.push(problem(run, None, text));
    }
    Ok(())
}

fn next_entry(db: &Connection, id: i64, seq: u64) -> rusqlite::Result<Option<u64>> {
    db.prepare_cached("SELECT seq FROM journal WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT 1")?
        .query_row(params![id, integer(seq)], |row| unsigned(row, 0))
        .optional()
}

/// Checks the recorded file contents against their digests, and that the content of each original (a file before a call changed it) is
/// recorded.
fn check_contents(db: &Connection, problems: &mut Vec<JournalProblem>) -> rusqlite::Result<()> {
    let mut statement = db.prepare("SELECT digest, bytes, before FROM contents")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let digest: String = row.get(0)?;
        let before = row.get_ref(2)?.as_str_or_null()?;
        if piece_digest(before, row.get_ref(1)?.as_blob()?) == digest {
            continue;
        }
        let before = problems.len();
        originals_with(db, &digest, |run, original| {
            let text =
                format!("the recorded content of {original} was changed or damaged after it was written");
            problems.push(problem(run, None, text));
        })?;
        if problems.len() == before {
            let text = format!("the recorded content {digest} was changed or damaged after it was written");
            problems.push(journal_problem(text));
        }
    }
    let mut statement = db
        .prepare("SELECT DISTINCT digest FROM originals WHERE digest NOT IN (SELECT digest FROM contents)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let digest: String = row.get(0)?;
        originals_with(db, &digest, |run, original| {
            let text = format!("the recorded content of {original} is missing from the journal");
            problems.push(problem(run, None, text));
        })?;
    }
    Ok(())
}

/// Passes each original with this content, as its path and call, to `found`.
fn originals_with(
    db: &Connection,
    digest: &str,
    mut found: impl FnMut(RunId, String),
) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(
        "SELECT runs.run, path, effect FROM originals JOIN runs ON runs.id = originals.run WHERE digest = ?1",
    )?;
    let mut rows = statement.query([digest])?;
    while let Some(row) = rows.next()? {
        let (path, effect): (String, String) = (row.get(1)?, row.get(2)?);
        found(parsed(row, 0)?, format!("{path} (call {effect})"));
    }
    Ok(())
}
