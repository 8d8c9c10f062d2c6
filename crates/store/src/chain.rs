//! The checksums that chain the entries of a run: each covers its entry and the checksum before it. So a missing, swapped or changed entry is
//! noticed when it is read.

use dirigent_core::id::RunId;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use sha2::{Digest as _, Sha256};

/// Length of a checksum in bytes: the first half of a SHA-256.
const LENGTH: usize = 16;

/// The checksum of a run's entries, up to and including a particular entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain([u8; LENGTH]);

impl Chain {
    /// Returns the checksum of a run without entries.
    pub(crate) fn start(run: RunId) -> Self {
        Chain::from_hash(Sha256::new().chain_update(run.0.as_bytes()))
    }

    /// Returns the checksum after the next entry. `add` adds this entry to the hash.
    pub(crate) fn next(self, add: impl FnOnce(&mut Sha256)) -> Self {
        let mut hash = Sha256::new().chain_update(self.0);
        add(&mut hash);
        Chain::from_hash(hash)
    }

    fn from_hash(hash: Sha256) -> Self {
        let mut bytes = [0; LENGTH];
        bytes.copy_from_slice(&hash.finalize()[..LENGTH]);
        Chain(bytes)
    }
}

impl ToSql for Chain {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(&self.0)))
    }
}

impl FromSql for Chain {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes = value.as_blob()?;
        bytes
            .try_into()
            .map(Chain)
            .map_err(|_| FromSqlError::InvalidBlobSize {
                expected_size: LENGTH,
                blob_size: bytes.len(),
            })
    }
}
