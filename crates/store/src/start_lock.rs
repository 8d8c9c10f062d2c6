//! A lock for starting runs, so that a process can look for other active runs and start its own before any other process starts one.

use std::fs::{File, OpenOptions, TryLockError};

use crate::error::StoreError;
use crate::files::create_private_folder;
use crate::journal::Journal;
use crate::owner;

/// The right to look for other runs of the journal and then to start or resume a run, as one atomic step.
/// Released on drop, or when the process ends.
#[derive(Debug)]
pub struct StartLock {
    _file: File,
}

impl Journal {
    /// Creates a [`StartLock`]; `None` if any process already has the lock of this journal. Starting a run
    /// does not require the lock, so it excludes only callers that also take it.
    ///
    /// # Errors
    /// The lock's file cannot be created or locked.
    pub fn try_lock_starts(&self) -> Result<Option<StartLock>, StoreError> {
        let folder = owner::folder(self.path());
        create_private_folder(&folder).map_err(|e| StoreError::io("create the folder", &folder, e))?;
        let path = folder.join("starts");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options
            .open(&path)
            .map_err(|e| StoreError::io("create the lock file", &path, e))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(StartLock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(StoreError::io("lock the file", &path, e)),
        }
    }
}
