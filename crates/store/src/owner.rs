//! The owners of runs. Each process that owns runs holds a locked file until it ends.
//!
//! The operating system releases the lock when the process ends, even by `kill -9`, so other processes can
//! claim its runs at once. A reused process id is not mistaken for the owner. The lock files are in
//! `<journal>-owners/`. A process that only reads the journal creates no lock file.
//!
//! Each lock file also records how many entries of each owned run are committed. SQLite silently ignores the
//! rest of a write-ahead log after a damaged frame. With this record, a process that claims a run of a killed
//! process notices that committed entries are missing. A power failure can lose the last entries even though
//! nothing is damaged ([`crate::Durability::Normal`]), so the record is ignored after a reboot.
//!
//! The file consists of slots of 24 bytes: the id of the current boot of the machine, then for each run its id and its number of entries as a
//! little-endian integer. Free slots are zero.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use dirigent_core::id::RunId;
use uuid::Uuid;

use crate::error::StoreError;
use crate::files::{create_private_file, create_private_folder};

/// The lock file of this process, which identifies it as an owner of runs. Removed on drop.
pub(crate) struct Owner {
    name: String,
    path: PathBuf,
    locked: File,
    /// The slot of each owned run, from 1.
    slots: HashMap<RunId, u64>,
    /// The free slots between used ones.
    free: Vec<u64>,
}

/// Length of a slot in bytes.
const SLOT: usize = 24;

impl Owner {
    /// Creates and locks a file with a name that no other owner uses or has used.
    pub(crate) fn register(journal: &Path) -> Result<Owner, StoreError> {
        let folder = folder(journal);
        create_private_folder(&folder).map_err(|e| StoreError::io("create the folder", &folder, e))?;
        remove_outdated(&folder);
        loop {
            let name = unique_name();
            let path = folder.join(&name);
            let file = match create_private_file(&path) {
                Ok(file) => file,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(StoreError::io("create the lock file", &path, e)),
            };
            // A process that removes unclaimed lock files may have taken this one for a dead owner's before it was locked.
            match file.try_lock() {
                Ok(()) if path.exists() => {}
                Ok(()) | Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(e)) => return Err(StoreError::io("lock the file", &path, e)),
            }
            let mut owner = Owner {
                name,
                path,
                locked: file,
                slots: HashMap::new(),
                free: Vec::new(),
            };
            owner.write_slot(0, boot_id(), 0);
            return Ok(owner);
        }
    }

    /// Records that this many entries of a run are committed.
    pub(crate) fn record_progress(&mut self, run: RunId, entries: u64) {
        let next = (self.slots.len() + self.free.len() + 1) as u64;
        let free = &mut self.free;
        let slot = *self
            .slots
            .entry(run)
            .or_insert_with(|| free.pop().unwrap_or(next));
        self.write_slot(slot, run.0, entries);
    }

    /// Removes the record of a run that this process has released.
    pub(crate) fn forget(&mut self, run: RunId) {
        if let Some(slot) = self.slots.remove(&run) {
            self.free.push(slot);
            self.write_slot(slot, Uuid::nil(), 0);
        }
    }

    fn write_slot(&mut self, slot: u64, id: Uuid, entries: u64) {
        let mut bytes = [0; SLOT];
        bytes[..16].copy_from_slice(id.as_bytes());
        bytes[16..].copy_from_slice(&entries.to_le_bytes());
        let offset = SeekFrom::Start(slot * SLOT as u64);
        // Without the record, lost entries are not noticed, but nothing else depends on it.
        let _ = self
            .locked
            .seek(offset)
            .and_then(|_| self.locked.write_all(&bytes));
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

/// Whether the process of an owner is still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    Alive,
    Dead,
}

/// Tests whether an owner is alive. A living owner holds an exclusive lock on its file. This function tries
/// to take a shared lock, so that concurrent calls do not mistake each other for a living owner.
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

/// Checks that a run has all entries that its owners have committed since the machine was started.
pub(crate) fn check_progress(journal: &Path, run: RunId, entries: u64) -> Result<(), StoreError> {
    let boot = boot_id();
    let files = fs::read_dir(folder(journal)).into_iter().flatten().flatten();
    let lost = files.map(|file| file.path()).find_map(|path| {
        let slots = fs::read(&path).ok()?;
        if boot.is_nil() || !slots.starts_with(boot.as_bytes()) {
            return None;
        }
        let mut slots = slots.chunks_exact(SLOT).skip(1);
        let slot = slots.find(|slot| slot.starts_with(run.0.as_bytes()))?;
        let committed = u64::from_le_bytes(slot[16..].try_into().ok()?);
        (committed > entries).then_some((committed, path))
    });
    match lost {
        Some((committed, record)) => Err(StoreError::EntriesLost {
            run,
            committed,
            found: entries,
            record,
        }),
        None => Ok(()),
    }
}

/// Removes the files of dead owners whose records are obsolete, because all their runs are released or the
/// machine was restarted.
fn remove_outdated(folder: &Path) {
    let boot = boot_id();
    for path in fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|file| file.path())
    {
        let Ok(slots) = fs::read(&path) else { continue };
        let mut runs = slots.chunks_exact(SLOT).skip(1);
        let is_outdated =
            !slots.starts_with(boot.as_bytes()) || runs.all(|slot| slot.iter().all(|byte| *byte == 0));
        let is_dead = || File::open(&path).is_ok_and(|file| file.try_lock_shared().is_ok());
        // A process that has just created its file may not have locked it yet; then the file is still empty.
        if slots.len() >= SLOT && is_outdated && is_dead() {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Returns the id of the machine's current boot; nil if the system does not provide it.
fn boot_id() -> Uuid {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or_default()
}

/// Removes the lock file of a dead owner.
pub(crate) fn remove_dead(journal: &Path, name: &str) {
    let _ = fs::remove_file(folder(journal).join(name));
}

/// Removes the lock files of dead owners that are not in `claims`; returns their number. Keeps, as evidence
/// of the loss, any file that records more committed entries of a run than `entries` contains.
pub(crate) fn remove_unclaimed(
    journal: &Path,
    claims: &HashSet<String>,
    entries: &HashMap<RunId, u64>,
) -> Result<u64, StoreError> {
    let mut removed = 0;
    for path in lock_files(journal)? {
        let claimed = path
            .file_name()
            .is_some_and(|name| claims.contains(name.to_string_lossy().as_ref()));
        // The exclusive lock prevents a new owner from using the file.
        let Ok(file) = File::open(&path) else { continue };
        if claimed || file.try_lock().is_err() || records_lost_entries(&path, entries) {
            continue;
        }
        if fs::remove_file(&path).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

fn records_lost_entries(path: &Path, entries: &HashMap<RunId, u64>) -> bool {
    let slots = fs::read(path).unwrap_or_default();
    slots.starts_with(boot_id().as_bytes())
        && slots.chunks_exact(SLOT).skip(1).any(|slot| {
            let (run, committed) = slot.split_at(16);
            let run = Uuid::from_slice(run).ok().map(RunId);
            let committed = committed.try_into().map_or(0, u64::from_le_bytes);
            run.and_then(|run| entries.get(&run))
                .is_some_and(|entries| committed > *entries)
        })
}

/// Returns true if a living process owns runs or has owned some.
pub(crate) fn any_alive(journal: &Path) -> Result<bool, StoreError> {
    for path in lock_files(journal)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if liveness(journal, &name)? == Liveness::Alive {
            return Ok(true);
        }
    }
    Ok(false)
}

fn lock_files(journal: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let folder = folder(journal);
    let files = match fs::read_dir(&folder) {
        Ok(files) => files,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("read the folder", &folder, e)),
    };
    let paths = files.flatten().map(|file| file.path());
    Ok(paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "lock"))
        .collect())
}

pub(crate) fn folder(journal: &Path) -> PathBuf {
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
