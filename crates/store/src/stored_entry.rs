//! The rows of entries. A part that many entries have in common, such as the setup of runs, is stored once, in `contents`.

use std::borrow::Cow;

use dirigent_core::digest::sha256_hex;
use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::journal::Entry;
use dirigent_core::time::Timestamp;
use rusqlite::{Connection, Row, params};
use sha2::Digest as _;

use crate::chain::Chain;
use crate::contents;
use crate::error::{EntryProblem, StoreError};
use crate::sql::{integer, unsigned};
use dirigent_runtime::run_log::NewEntry;

/// The columns that [`StoredEntry::read`] expects, in this order.
pub(crate) const COLUMNS: &str = "seq, at, scope, body, cut, part, chain";

/// A row of the `journal` table, without the run and the checksum.
pub(crate) struct StoredEntry<'a> {
    pub(crate) seq: u64,
    /// Milliseconds since 1970-01-01 UTC.
    pub(crate) at: u64,
    /// The agent's number; `None` for the run's machine.
    pub(crate) agent: Option<u32>,
    /// The JSON of the input, without the part.
    pub(crate) body: Cow<'a, str>,
    pub(crate) part: Option<SharedPart>,
}

/// The part of an entry's JSON that is stored in `contents`.
pub(crate) struct SharedPart {
    /// Where the part belongs, in bytes from the beginning of the row's body.
    pub(crate) offset: u64,
    pub(crate) digest: String,
}

impl<'a> StoredEntry<'a> {
    /// Prepares the row of a new entry, and stores its shared part if the journal does not have it.
    pub(crate) fn prepare(db: &Connection, seq: u64, entry: &'a NewEntry) -> rusqlite::Result<Self> {
        let (mut body, mut part) = (Cow::Borrowed(entry.body.as_str()), None);
        if let Some(shared) = &entry.shared
            && let Some(offset) = body.find(shared.json())
        {
            body.to_mut()
                .replace_range(offset..offset + shared.json().len(), "");
            contents::ensure(db, shared.digest(), shared.json().as_bytes())?;
            part = Some(SharedPart {
                offset: offset as u64,
                digest: shared.digest().to_owned(),
            });
        }
        let agent = match entry.scope {
            Scope::Run => None,
            Scope::Agent(AgentId(number)) => Some(number),
        };
        Ok(StoredEntry {
            seq,
            at: entry.at.0,
            agent,
            body,
            part,
        })
    }

    /// Returns the checksum of the entries up to this one, from that of the entries before it.
    pub(crate) fn chain_after(&self, before: Chain) -> Chain {
        before.next(|hash| {
            let agent = self.agent.map_or(0, |number| u64::from(number) + 1);
            hash.update(self.seq.to_le_bytes());
            hash.update(self.at.to_le_bytes());
            hash.update(agent.to_le_bytes());
            if let Some(part) = &self.part {
                hash.update(part.offset.to_le_bytes());
                hash.update(&part.digest);
            }
            hash.update(self.body.as_bytes());
        })
    }

    /// Inserts the row of the run with the key `id`.
    pub(crate) fn insert(&self, db: &Connection, id: i64, chain: Chain) -> rusqlite::Result<()> {
        db.prepare_cached(
            "INSERT INTO journal (run, seq, at, scope, body, cut, part, chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            id,
            integer(self.seq),
            integer(self.at),
            self.agent,
            self.body,
            self.part.as_ref().map(|part| integer(part.offset)),
            self.part.as_ref().map(|part| &part.digest),
            chain,
        ])
        .map(drop)
    }

    /// Reads a row with the columns [`COLUMNS`], and its checksum.
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<(Self, Chain)> {
        let part = match row.get::<_, Option<String>>(5)? {
            Some(digest) => Some(SharedPart {
                offset: unsigned(row, 4)?,
                digest,
            }),
            None => None,
        };
        let entry = StoredEntry {
            seq: unsigned(row, 0)?,
            at: unsigned(row, 1)?,
            agent: row.get(2)?,
            body: Cow::Owned(row.get(3)?),
            part,
        };
        Ok((entry, row.get(6)?))
    }

    /// Completes the body with the shared part.
    ///
    /// # Errors
    /// [`EntryProblem`] if the shared part is missing or was changed.
    pub(crate) fn complete_body(&mut self, db: &Connection) -> rusqlite::Result<Result<(), EntryProblem>> {
        let Some(part) = self.part.take() else {
            return Ok(Ok(()));
        };
        let Some(bytes) = contents::load(db, &part.digest)? else {
            return Ok(Err(EntryProblem::Changed));
        };
        let offset = usize::try_from(part.offset).unwrap_or(usize::MAX);
        let text = match String::from_utf8(bytes) {
            Ok(text) if sha256_hex(text.as_bytes()) == part.digest && self.body.is_char_boundary(offset) => {
                text
            }
            _ => return Ok(Err(EntryProblem::Changed)),
        };
        self.body.to_mut().insert_str(offset, &text);
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
