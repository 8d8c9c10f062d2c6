//! The rows of entries. Parts that many entries have in common, such as the setup of runs, are stored only
//! once, in `contents`.

use std::borrow::Cow;

use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::journal::Entry;
use dirigent_core::time::Timestamp;
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::chain::Chain;
use crate::contents;
use crate::error::{EntryProblem, StoreError};
use crate::sql::{integer, unsigned};
use dirigent_runtime::run_log::NewEntry;

/// The columns that [`StoredEntry::read`] expects, in this order.
pub(crate) const COLUMNS: &str = "seq, at, scope, body, parts, chain";

/// A row of the `journal` table, without the run and the checksum.
pub(crate) struct StoredEntry<'a> {
    pub(crate) seq: u64,
    /// Milliseconds since 1970-01-01 UTC.
    pub(crate) at: u64,
    /// The agent's number; `None` for the run's machine.
    pub(crate) agent: Option<u32>,
    /// The JSON of the input, without the shared parts.
    pub(crate) body: Cow<'a, str>,
    /// JSON: the [`SharedPart`]s, in the order in which they were removed from the body; `None` if there are none.
    parts: Option<String>,
}

/// A part of an entry's JSON that is stored in `contents`. JSON: an array of its fields.
#[derive(Serialize, Deserialize)]
struct SharedPart(
    /// The byte offset in the body from which the part was removed.
    u64,
    /// The digest of the part.
    String,
);

impl<'a> StoredEntry<'a> {
    /// Prepares the row of a new entry, and stores its shared parts if the journal does not have them.
    pub(crate) fn prepare(db: &Connection, seq: u64, entry: &'a NewEntry) -> rusqlite::Result<Self> {
        let (mut body, mut parts) = (Cow::Borrowed(entry.body.as_str()), Vec::new());
        for shared in &entry.shared {
            if let Some(offset) = body.find(shared.as_str()) {
                let end = offset + shared.as_str().len();
                body.to_mut().replace_range(offset..end, "");
                contents::ensure(db, shared)?;
                parts.push(SharedPart(offset as u64, shared.digest().to_owned()));
            }
        }
        let parts = match &parts[..] {
            [] => None,
            parts => {
                let to_sql = |e| rusqlite::Error::ToSqlConversionFailure(Box::new(e));
                Some(serde_json::to_string(parts).map_err(to_sql)?)
            }
        };
        let agent = match entry.scope {
            Scope::Run => None,
            Scope::Agent(AgentId(number)) => Some(number),
        };
        Ok(StoredEntry {
            seq,
            at: entry.at.0,
            agent,
            body,
            parts,
        })
    }

    /// Returns the checksum of the entries up to this one, given the checksum of the entries before it.
    pub(crate) fn chain_after(&self, before: Chain) -> Chain {
        before.next(|hash| {
            let agent = self.agent.map_or(0, |number| u64::from(number) + 1);
            hash.update(self.seq.to_le_bytes());
            hash.update(self.at.to_le_bytes());
            hash.update(agent.to_le_bytes());
            if let Some(parts) = &self.parts {
                hash.update(parts);
            }
            hash.update(self.body.as_bytes());
        })
    }

    /// Inserts the row of the run with the key `id`.
    pub(crate) fn insert(&self, db: &Connection, id: i64, chain: Chain) -> rusqlite::Result<()> {
        db.prepare_cached(
            "INSERT INTO journal (run, seq, at, scope, body, parts, chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            id,
            integer(self.seq),
            integer(self.at),
            self.agent,
            self.body,
            self.parts,
            chain,
        ])
        .map(drop)
    }

    /// Reads a row with the columns [`COLUMNS`], and its checksum.
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<(Self, Chain)> {
        let entry = StoredEntry {
            seq: unsigned(row, 0)?,
            at: unsigned(row, 1)?,
            agent: row.get(2)?,
            body: Cow::Owned(row.get(3)?),
            parts: row.get(4)?,
        };
        Ok((entry, row.get(5)?))
    }

    /// Completes the body with the shared parts.
    ///
    /// # Errors
    /// [`EntryProblem`] if a shared part is missing or was changed.
    pub(crate) fn complete_body(&mut self, db: &Connection) -> rusqlite::Result<Result<(), EntryProblem>> {
        let Some(parts) = self.parts.take() else {
            return Ok(Ok(()));
        };
        let Ok(parts) = serde_json::from_str::<Vec<SharedPart>>(&parts) else {
            return Ok(Err(EntryProblem::Changed));
        };
        // The parts were removed one after the other, so the part that was removed last is inserted first.
        for SharedPart(offset, digest) in parts.into_iter().rev() {
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            match contents::load_shared(db, &digest)? {
                Some(text) if self.body.is_char_boundary(offset) => {
                    self.body.to_mut().insert_str(offset, &text)
                }
                Some(_) | None => return Ok(Err(EntryProblem::Changed)),
            }
        }
        Ok(Ok(()))
    }

    /// Parses an entry with its complete body.
    pub(crate) fn parse(self, run: RunId) -> Result<Entry, StoreError> {
        let seq = self.seq;
        let input = serde_json::from_str(&self.body).map_err(|source| StoreError::Entry {
            run,
            seq,
            source: source.into(),
        })?;
        Ok(Entry {
            run,
            seq,
            at: Timestamp(self.at),
            scope: self
                .agent
                .map_or(Scope::Run, |number| Scope::Agent(AgentId(number))),
            input,
        })
    }
}
