//! The owners of runs. Each process that owns runs holds a locked file until it ends.
//!
//! The operating system releases the lock when the process ends, even by `kill -9`, so other processes can claim its runs at once. A reused
//! process id is not mistaken for the owner. The lock files are in `<journal>-owners/`. A process that only reads the journal creates none.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::StoreError;
use crate::files::{create_private_file, create_private_folder};

/// The lock file of this process, which identifies it as an owner of runs. Removed on drop.
pub(crate) struct Owner {
    name: String,
    path: PathBuf,
    _locked: File,
}

impl Owner {
    /// Creates and locks a file with a name that no other owner uses or has used.
    pub(crate) fn register(journal: &Path) -> Result<Owner, StoreError> {
        let folder = folder(journal);
        create_private_folder(&folder).map_err(|e| StoreError::io("create the folder", &folder, e))?;
        loop {
            let name = unique_name();
            let path = folder.join(&name);
            let file = match create_private_file(&path) {
                Ok(file) => file,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(StoreError::io("create the lock file", &path, e)),
            };
            // Other processes open the file only after its name is in the claims table, so the lock is free.
            file.try_lock()
                .map_err(|e| StoreError::io("lock the file", &path, e.into()))?;
            return Ok(Owner {
                name,
                path,
                _locked: file,
            });
        }
    }

    /// Returns the owner's name in the claims table.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // If the file cannot be removed, its owner still counts as dead, because the file is no longer locked.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether an owner's process is still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    Alive,
    Dead,
}

/// Tests whether an owner is alive. A living owner holds an exclusive lock on its file. This function tries to take a shared lock, so that
/// concurrent calls do not take each other for a living owner.
pub(crate) fn liveness(journal: &Path, name: &str) -> Result<Liveness, StoreError> {
    let path = folder(journal).join(name);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Liveness::Dead),
        Err(e) => return Err(StoreError::io("open the lock file", &path, e)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Liveness::Dead),
        Err(TryLockError::WouldBlock) => Ok(Liveness::Alive),
        Err(TryLockError::Error(e)) => Err(StoreError::io("lock the file", &path, e)),
    }
}

/// Removes the lock file of a dead owner.
pub(crate) fn remove_dead(journal: &Path, name: &str) {
    let _ = fs::remove_file(folder(journal).join(name));
}

fn folder(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push("-owners");
    PathBuf::from(name)
}

/// Creates a unique name from the process id and the time, because process ids are reused.
fn unique_name() -> String {
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    format!("{}-{time}.lock", std::process::id())
}
