//! Recording of file contents before a run changes them.

use dirigent_core::id::RunId;

use crate::contents;
use crate::error::StoreError;
use crate::job::Job;
use crate::journal::Journal;
use dirigent_runtime::run_log::Original;

impl Journal {
    /// Records a file that a call is about to change. When this function returns, the content is on disk and survives a power failure.
    /// Content that is already stored is not written again. Blocks on the writer thread, so it must not be called from a callback of
    /// [`Journal::append`].
    ///
    /// # Errors
    /// [`StoreError::Full`] or another write failure. Nothing is recorded in this case, and no run's entries fail.
    pub fn record_original(&self, original: Original, bytes: &[u8]) -> Result<(), StoreError> {
        let digest = original.version.digest.clone();
        self.store_content(digest, bytes, Some(original))
    }

    /// Records content that does not belong to a call, such as the content of a file before the undo of a run replaces it. Has the same
    /// durability as [`Journal::record_original`], and blocks in the same way.
    ///
    /// # Errors
    /// The errors of [`Journal::record_original`].
    pub fn record_content(&self, digest: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.store_content(digest.to_owned(), bytes, None)
    }

    fn store_content(
        &self,
        digest: String,
        bytes: &[u8],
        original: Option<Original>,
    ) -> Result<(), StoreError> {
        if original.is_none() && self.has_content(&digest)? {
            return Ok(());
        }
        // The bytes are sent even if the journal has them, because another process may delete them before the original is stored.
        let bytes = bytes.to_vec();
        self.wait(|reply| Job::StoreContent {
            digest,
            bytes,
            original,
            reply,
        })
    }

    /// Reads recorded content by its SHA-256 in hexadecimal digits; `None` if it was never recorded.
    ///
    /// # Errors
    /// Any failure to read the journal.
    pub fn content(&self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.readers().with(|db| contents::load(db, digest))
    }

    /// Returns true if the content with this digest is recorded.
    ///
    /// # Errors
    /// Any failure to read the journal.
    pub fn has_content(&self, digest: &str) -> Result<bool, StoreError> {
        self.readers().with(|db| contents::exists(db, digest))
    }

    /// Reads the originals of all files that a run's calls recorded, oldest first.
    ///
    /// # Errors
    /// Any failure to read the journal.
    pub fn originals(&self, run: RunId) -> Result<Vec<Original>, StoreError> {
        self.readers().with(|db| contents::originals(db, run))
    }
}
