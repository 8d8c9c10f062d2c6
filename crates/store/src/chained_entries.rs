//! Reads the entries of a run, and checks them against their checksums.

use std::cmp::Ordering;

use dirigent_core::id::RunId;
use dirigent_core::journal::Entry;
use rusqlite::{Connection, OptionalExtension, params};

use crate::chain::Chain;
use crate::error::{EntryProblem, StoreError};
use crate::sql::{integer, run_key, unsigned};
use crate::stored_entry::{COLUMNS, StoredEntry};

/// The entries of one read.
#[derive(Default)]
pub(crate) struct EntryBatch {
    /// The entries in order, up to and including the first entry that cannot be used.
    pub(crate) entries: Vec<Result<Entry, StoreError>>,
    /// The number of the last entry in `entries`; `None` if there are none.
    pub(crate) last_seq: Option<u64>,
}

/// The columns of a run's row that describe its entries.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    /// The key of the run.
    pub(crate) id: i64,
    /// The number of entries.
    pub(crate) entries: u64,
    /// The checksum of the last entry.
    pub(crate) chain: Chain,
}

impl Head {
    /// Reads the row of a run; `None` if there is no such run.
    pub(crate) fn read(db: &Connection, run: RunId) -> rusqlite::Result<Option<Head>> {
        db.prepare_cached("SELECT id, entries, chain FROM runs WHERE run = ?1")?
            .query_row([run_key(run)], |row| {
                Ok(Head {
                    id: row.get(0)?,
                    entries: unsigned(row, 1)?,
                    chain: row.get(2)?,
                })
            })
            .optional()
    }
}

/// Reads up to `limit` entries of a run, starting after entry `after`, and checks them. The connection must
/// be in a transaction, so that the run's row and its entries are consistent. An unknown run has no entries.
pub(crate) fn read_entries(
    db: &Connection,
    run: RunId,
    after: u64,
    limit: usize,
) -> rusqlite::Result<EntryBatch> {
    let mut batch = EntryBatch::default();
    let Some(head) = Head::read(db, run)? else {
        return Ok(batch);
    };
    let read = walk(db, run, head, after, limit as u64, &mut |mut entry| {
        if let Err(problem) = entry.complete_body(db)? {
            return Ok(Err(StoreError::broken(run, entry.seq, problem)));
        }
        Ok(entry.parse(run).map(|entry| {
            batch.last_seq = Some(entry.seq);
            batch.entries.push(Ok(entry));
        }))
    })?;
    if let Err(error) = read {
        batch.entries.push(Err(error));
    }
    Ok(batch)
}

type Visit<'a> = dyn FnMut(StoredEntry<'static>) -> rusqlite::Result<Result<(), StoreError>> + 'a;

/// Passes up to `limit` entries of a run to `visit`, starting after entry `after`. Stops at the first entry
/// that is missing or changed.
pub(crate) fn walk(
    db: &Connection,
    run: RunId,
    head: Head,
    after: u64,
    limit: u64,
    visit: &mut Visit<'_>,
) -> rusqlite::Result<Result<(), StoreError>> {
    if after > head.entries {
        return Ok(Ok(()));
    }
    let broken = |seq, problem| Ok(Err(StoreError::broken(run, seq, problem)));
    let mut chain = match chain_at(db, run, head.id, after) {
        Ok(Some(chain)) => chain,
        Ok(None) => return broken(after, EntryProblem::Missing),
        Err(e) if is_unreadable(&e) => return broken(after, EntryProblem::Changed),
        Err(e) => return Err(e),
    };
    let mut last = after;
    let mut statement = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM journal WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
    ))?;
    let mut rows = statement.query(params![head.id, integer(after), integer(limit)])?;
    while let Some(row) = rows.next()? {
        last += 1;
        let (entry, stored) = match StoredEntry::read(row) {
            Err(e) if is_unreadable(&e) => return broken(last, EntryProblem::Changed),
            read => read?,
        };
        chain = entry.chain_after(chain);
        if entry.seq != last {
            return broken(last, EntryProblem::Missing);
        }
        if chain != stored {
            return broken(last, EntryProblem::Changed);
        }
        if let Err(error) = visit(entry)? {
            return Ok(Err(error));
        }
    }
    match last.cmp(&head.entries) {
        _ if last - after == limit => Ok(Ok(())),
        Ordering::Less => broken(last + 1, EntryProblem::Missing),
        Ordering::Equal if chain == head.chain => Ok(Ok(())),
        Ordering::Equal | Ordering::Greater => broken(last, EntryProblem::Changed),
    }
}

/// Returns true if a column's type or format differs from the type or format that was written.
pub(crate) fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

/// Checks that the last entry of a run is the one that the run's row expects.
pub(crate) fn check_end(db: &Connection, run: RunId, head: Head) -> rusqlite::Result<Result<(), StoreError>> {
    walk(db, run, head, head.entries, 1, &mut |entry| {
        // The journal has an entry that the run's row does not count.
        Ok(Err(StoreError::broken(run, entry.seq, EntryProblem::Changed)))
    })
}

/// Returns the checksum of a run up to and including entry `seq`; `None` if there is no such entry.
fn chain_at(db: &Connection, run: RunId, id: i64, seq: u64) -> rusqlite::Result<Option<Chain>> {
    if seq == 0 {
        return Ok(Some(Chain::start(run)));
    }
    db.prepare_cached("SELECT chain FROM journal WHERE run = ?1 AND seq = ?2")?
        .query_row(params![id, integer(seq)], |row| row.get(0))
        .optional()
}

/// Copies the first `last` entries of a run to another run without entries; returns the new run's head.
pub(crate) fn copy(
    db: &Connection,
    (source, head): (RunId, Head),
    last: u64,
    (run, id): (RunId, i64),
) -> rusqlite::Result<Result<Head, StoreError>> {
    let mut chain = Chain::start(run);
    let copied = walk(db, source, head, 0, last, &mut |entry| {
        chain = entry.chain_after(chain);
        entry.insert(db, id, chain).map(Ok)
    })?;
    Ok(copied.map(|()| Head {
        id,
        entries: last,
        chain,
    }))
}
