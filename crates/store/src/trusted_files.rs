//! The files that the user trusts, identified by path and a digest of their content. They are not tied to a
//! run.

use dirigent_core::time::Timestamp;
use rusqlite::{Connection, params};

use crate::error::StoreError;
use crate::journal::Journal;
use crate::sql::{integer, unsigned};

/// A file that the user trusts as long as it has this content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedFile {
    /// The absolute path.
    pub path: String,
    /// The SHA-256 of the content in hexadecimal digits.
    pub digest: String,
    /// The time at which the user trusted the file.
    pub at: Timestamp,
}

impl Journal {
    /// Reads the files that the user trusts, sorted by path.
    ///
    /// # Errors
    /// Any failure to read the journal.
    pub fn trusted_files(&self) -> Result<Vec<TrustedFile>, StoreError> {
        self.readers().with(load)
    }

    /// Records that the user trusts a file with this content. Replaces an earlier record for the same path.
    /// Blocks on the writer thread, so it must not be called from a callback of [`Journal::append`].
    ///
    /// # Errors
    /// A write failure.
    pub fn trust_file(&self, file: TrustedFile) -> Result<(), StoreError> {
        self.write(Box::new(move |db| store(db, &file).map(|()| Ok(0))))
    }

    /// Forgets that the user trusts a file, and returns true if the user trusted it with any content. Blocks on the writer thread.
    ///
    /// # Errors
    /// A write failure.
    pub fn withdraw_trust(&self, path: &str) -> Result<bool, StoreError> {
        let path = path.to_owned();
        let write = move |db: &Connection| {
            let deleted = db
                .prepare_cached("DELETE FROM trusted_files WHERE path = ?1")?
                .execute([&path])?;
            Ok(Ok(deleted as u64))
        };
        Ok(self.wait_for_write(Box::new(write))? > 0)
    }
}

fn load(db: &Connection) -> rusqlite::Result<Vec<TrustedFile>> {
    db.prepare_cached("SELECT path, digest, at FROM trusted_files ORDER BY path")?
        .query_map([], |row| {
            Ok(TrustedFile {
                path: row.get(0)?,
                digest: row.get(1)?,
                at: Timestamp(unsigned(row, 2)?),
            })
        })?
        .collect()
}

/// Stores a trusted file within a transaction.
fn store(db: &Connection, file: &TrustedFile) -> rusqlite::Result<()> {
    let TrustedFile { path, digest, at } = file;
    db.prepare_cached("INSERT OR REPLACE INTO trusted_files (path, digest, at) VALUES (?1, ?2, ?3)")?
        .execute(params![path, digest, integer(at.0)])
        .map(drop)
}
