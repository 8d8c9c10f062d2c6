//! What was in files before a run changed them: each content once, by its digest, and which call kept it for which file.

use dirigent_core::id::{EffectId, RunId};
use dirigent_core::tool::FileVersion;
use rusqlite::{Connection, OptionalExtension, params};

use crate::claimed_runs::key;
use crate::error::StoreError;
use crate::journal::Journal;
use crate::writer::Job;

/// A file as a call found it, kept before the call changed it: the call may have died before it could say what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The run.
    pub run: RunId,
    /// The call.
    pub effect: EffectId,
    /// The file, relative to the run's workspace, with `/`.
    pub path: String,
    /// What it was; its content is kept by the digest.
    pub version: FileVersion,
}

impl Journal {
    /// Keeps what is in a file that a call is about to change. When it returns, that is on the disk and survives a power failure. A content
    /// that is there already is not written again. Waits for the writer: not to be called from a callback of [`Journal::append`].
    ///
    /// # Errors
    /// [`StoreError::Full`], or another failure to write: nothing is kept then, and no entry of a run fails with it.
    pub fn record_original(&self, original: Original, bytes: &[u8]) -> Result<(), StoreError> {
        let digest = original.version.digest.clone();
        self.store_content(digest, bytes, Some(original))
    }

    /// Keeps a content that no call is about to change, such as what is replaced when a run is undone. As [`Journal::record_original`].
    ///
    /// # Errors
    /// As those of [`Journal::record_original`].
    pub fn record_content(&self, digest: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.store_content(digest.to_owned(), bytes, None)
    }

    fn store_content(
        &self,
        digest: String,
        bytes: &[u8],
        original: Option<Original>,
    ) -> Result<(), StoreError> {
        let known = self.readers().has_content(&digest)?;
        if known && original.is_none() {
            return Ok(());
        }
        let bytes = (!known).then(|| bytes.to_vec());
        self.wait(|reply| Job::StoreContent {
            digest,
            bytes,
            original,
            reply,
        })
    }

    /// A kept content, by its SHA-256 in hexadecimal digits; none where it was never kept.
    ///
    /// # Errors
    /// A failure to read.
    pub fn content(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.readers().with(|db| {
            db.prepare_cached("SELECT bytes FROM contents WHERE digest = ?1")?
                .query_row([digest], |row| row.get(0))
                .optional()
        })
    }

    /// Whether a content is kept.
    ///
    /// # Errors
    /// A failure to read.
    pub fn has_content(&self, digest: &str) -> Result<bool, StoreError> {
        self.readers().has_content(digest)
    }

    /// Every file that calls of a run kept before they changed it, in that order.
    ///
    /// # Errors
    /// A failure to read.
    pub fn originals(&self, run: RunId) -> Result<Vec<Original>, StoreError> {
        self.readers().with(|db| {
            db.prepare_cached(
                "SELECT effect, path, digest, mode FROM originals
                 WHERE run = (SELECT id FROM runs WHERE run = ?1) ORDER BY originals.id",
            )?
            .query_map([key(run)], |row| {
                let effect: String = row.get(0)?;
                let effect = effect.parse().map_err(|e| {
                    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(e))
                })?;
                Ok(Original {
                    run,
                    effect,
                    path: row.get(1)?,
                    version: FileVersion {
                        digest: row.get(2)?,
                        mode: row.get(3)?,
                    },
                })
            })?
            .collect()
        })
    }
}

/// Writes both within a transaction. A run that is not in the journal keeps the content alone.
pub(crate) fn insert(
    db: &Connection,
    digest: &str,
    bytes: Option<&[u8]>,
    original: Option<&Original>,
) -> rusqlite::Result<()> {
    if let Some(bytes) = bytes {
        db.prepare_cached("INSERT INTO contents (digest, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(params![digest, bytes])?;
    }
    let Some(original) = original else {
        return Ok(());
    };
    db.prepare_cached(
        "INSERT INTO originals (run, effect, path, digest, mode)
         SELECT id, ?2, ?3, ?4, ?5 FROM runs WHERE run = ?1",
    )?
    .execute(params![
        key(original.run),
        original.effect.to_string(),
        original.path,
        digest,
        original.version.mode
    ])?;
    Ok(())
}
