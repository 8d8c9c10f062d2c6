//! Copies of the whole journal.

use std::path::Path;

use super::new_file::NewFile;
use crate::error::StoreError;
use crate::journal::Journal;

impl Journal {
    /// Copies the journal to a new file, which is itself a journal, and returns the file's length in bytes.
    /// The copy is a consistent snapshot, even if runs are active. Only the current user can access the file.
    /// It appears under its name once it is complete.
    ///
    /// # Errors
    /// [`StoreError::FileExists`]; any failure to read the journal or to write the file.
    pub fn backup(&self, file: &Path) -> Result<u64, StoreError> {
        let copy = NewFile::create(file)?;
        let path = copy.path().to_string_lossy().into_owned();
        self.readers().with(|db| db.execute("VACUUM INTO ?1", [path]))?;
        copy.finish()
    }
}
