//! Who carries out runs: a lock file for each process that does, locked for as long as it lives.
//!
//! The operating system frees the lock when the process ends, however it ends, so `kill -9` frees its runs at
//! once and a process id that was given out again deceives nobody. The files lie in `<journal>-owners/`; none
//! is made by a process that only reads.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::StoreError;

/// This journal's mark as an owner of runs; removed on drop.
pub(crate) struct Owner {
    name: String,
    path: PathBuf,
    _locked: File,
}

impl Owner {
    /// Makes and locks a file that no other owner has, had or will have.
    pub(crate) fn register(journal: &Path) -> Result<Owner, StoreError> {
        let folder = folder(journal);
        make_folder(&folder).map_err(|e| StoreError::io("create the folder", &folder, e))?;
        loop {
            let name = fresh_name();
            let path = folder.join(&name);
            let file = match private_file(&path) {
                Ok(file) => file,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(StoreError::io("create the lock file", &path, e)),
            };
            // Nobody else looks at the file before its name is in the claims table.
            file.try_lock()
                .map_err(|e| StoreError::io("lock the file", &path, e.into()))?;
            return Ok(Owner {
                name,
                path,
                _locked: file,
            });
        }
    }

    /// As it stands in the claims table.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // A file that stays behind is free to be locked, which says the same.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the process behind an owner's name still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    Alive,
    Dead,
}

/// Asks without disturbing the owner or others that ask at the same moment: the owner's lock is exclusive,
/// theirs are shared.
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

/// Removes what a dead owner left behind.
pub(crate) fn remove_dead(journal: &Path, name: &str) {
    let _ = fs::remove_file(folder(journal).join(name));
}

fn folder(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push("-owners");
    PathBuf::from(name)
}

/// Process ids come round again; with the time they don't.
fn fresh_name() -> String {
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos();
    format!("{}-{time}.lock", std::process::id())
}

/// Creates a folder that only its user may enter, and those above it; on disk when this returns.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent();
    if let Some(parent) = parent {
        make_folder(parent)?;
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(e) => Err(e),
        Ok(()) => sync_folder(parent),
    }
}

#[cfg(unix)]
fn sync_folder(folder: Option<&Path>) -> io::Result<()> {
    match folder {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn sync_folder(_folder: Option<&Path>) -> io::Result<()> {
    Ok(())
}

/// Creates a file that only its user may open; fails where there is one.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
