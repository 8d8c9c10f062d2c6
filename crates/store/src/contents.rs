//! The SQL for recorded file contents. Each content is stored once, under its digest, with the calls that
//! recorded it.

use dirigent_core::id::RunId;
use dirigent_core::shared_text::{SharedText, piece_digest};
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

/// Stores the pieces of a shared text that the journal does not have. Replaces a stored piece whose bytes differ.
pub(crate) fn ensure(db: &Connection, shared: &SharedText) -> rusqlite::Result<()> {
    for piece in shared.pieces_from_last() {
        if load(db, piece.digest)?.as_deref() == Some(piece.text.as_bytes()) {
            // All earlier pieces were stored together with this piece.
            break;
        }
        db.prepare_cached("INSERT OR REPLACE INTO contents (digest, bytes, before) VALUES (?1, ?2, ?3)")?
            .execute(params![piece.digest, piece.text.as_bytes(), piece.before])?;
    }
    Ok(())
}

/// Reads a shared text with all its pieces; `None` if a piece is missing or was changed.
pub(crate) fn load_shared(db: &Connection, digest: &str) -> rusqlite::Result<Option<String>> {
    let mut statement = db.prepare_cached(
        "WITH RECURSIVE pieces (digest, bytes, before, depth) AS (
             SELECT digest, bytes, before, 0 FROM contents WHERE digest = ?1
             UNION ALL
             SELECT contents.digest, contents.bytes, contents.before, depth + 1
             FROM contents JOIN pieces ON contents.digest = pieces.before
         ) SELECT digest, bytes, before FROM pieces ORDER BY depth DESC",
    )?;
    let mut rows = statement.query([digest])?;
    let (mut text, mut last) = (String::new(), None);
    while let Some(row) = rows.next()? {
        let (stored, before): (String, Option<String>) = (row.get(0)?, row.get(2)?);
        let Ok(piece) = std::str::from_utf8(row.get_ref(1)?.as_blob()?) else {
            return Ok(None);
        };
        if before != last || piece_digest(before.as_deref(), piece.as_bytes()) != stored {
            return Ok(None);
        }
        text.push_str(piece);
        last = Some(stored);
    }
    Ok((last.as_deref() == Some(digest)).then_some(text))
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
