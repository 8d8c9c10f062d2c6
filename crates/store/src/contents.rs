//! The SQL for recorded file contents. Each content is stored once, by its digest, with the calls that recorded it.

use dirigent_core::id::RunId;
use dirigent_core::tool::FileVersion;
use rusqlite::{Connection, OptionalExtension, params};

use crate::sql::{parsed, run_key};
use dirigent_runtime::run_log::Original;

/// Reads a recorded content; `None` if the digest is unknown.
pub(crate) fn load(db: &Connection, digest: &str) -> rusqlite::Result<Option<Vec<u8>>> {
    db.prepare_cached("SELECT bytes FROM contents WHERE digest = ?1")?
        .query_row([digest], |row| row.get(0))
        .optional()
}

pub(crate) fn exists(db: &Connection, digest: &str) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM contents WHERE digest = ?1")?
        .exists([digest])
}

/// Stores a content if the journal does not have it. Replaces a stored content whose bytes differ.
pub(crate) fn ensure(db: &Connection, digest: &str, bytes: &[u8]) -> rusqlite::Result<()> {
    if load(db, digest)?.as_deref() == Some(bytes) {
        return Ok(());
    }
    db.prepare_cached("INSERT OR REPLACE INTO contents (digest, bytes) VALUES (?1, ?2)")?
        .execute(params![digest, bytes])
        .map(drop)
}

/// Reads all originals that a run's calls recorded, oldest first.
pub(crate) fn originals(db: &Connection, run: RunId) -> rusqlite::Result<Vec<Original>> {
    db.prepare_cached(
        "SELECT effect, path, digest, mode FROM originals
         WHERE run = (SELECT id FROM runs WHERE run = ?1) ORDER BY originals.id",
    )?
    .query_map([run_key(run)], |row| {
        Ok(Original {
            run,
            effect: parsed(row, 0)?,
            path: row.get(1)?,
            version: FileVersion {
                digest: row.get(2)?,
                mode: row.get(3)?,
            },
        })
    })?
    .collect()
}

/// Writes a content, and the file state that refers to it, within a transaction. Writes only the content if the journal does not
/// contain the run.
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
        run_key(original.run),
        original.effect.to_string(),
        original.path,
        digest,
        original.version.mode
    ])?;
    Ok(())
}
