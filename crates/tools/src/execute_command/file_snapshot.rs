//! Snapshots of files, links and folders in memory, from which they can be restored.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, OpenOptions, OpenOptionsExt, PermissionsExt};

use crate::removal::remove;

/// Maximum size of a snapshot, in bytes and in entries. Hooks and settings are far smaller.
const MAX_BYTES: u64 = 8 << 20;
const MAX_ENTRIES: usize = 5_000;
/// Maximum depth of a path in a snapshot. Limited because the functions here are recursive.
const MAX_DEPTH: usize = 64;

/// The result of restoring files.
#[derive(Debug, Default)]
pub(super) struct Restored {
    /// The restored paths, relative to the workspace.
    pub(super) paths: Vec<String>,
    /// The paths that could not be restored, each with the reason.
    pub(super) failed: Vec<String>,
    /// The paths that were too large for a complete snapshot.
    pub(super) partial: Vec<String>,
}

/// The content of a path. A path at which nothing exists has no snapshot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileSnapshot {
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Link(PathBuf),
    Folder(BTreeMap<OsString, FileSnapshot>),
    /// A path that is too large, unreadable or of another kind. It is never restored.
    Unknown,
}

/// The remaining capacity of a snapshot.
#[derive(Debug)]
pub(super) struct Room {
    bytes: u64,
    entries: usize,
    /// Set if something did not fit.
    pub(super) was_short: bool,
}

impl Room {
    pub(super) fn new() -> Self {
        Room {
            bytes: MAX_BYTES,
            entries: MAX_ENTRIES,
            was_short: false,
        }
    }

    /// Takes capacity for one entry. Returns false if none is left.
    pub(super) fn takes_one(&mut self) -> bool {
        let has_room = self.entries > 0;
        self.was_short |= !has_room;
        self.entries = self.entries.saturating_sub(1);
        has_room
    }
}

/// Takes a snapshot of a path; `None` if nothing exists there. Does not follow a link at the path itself.
pub(super) fn look(dir: &Dir, path: &Path, room: &mut Room) -> Option<FileSnapshot> {
    let metadata = dir.symlink_metadata(path).ok()?;
    if !room.takes_one() {
        return Some(FileSnapshot::Unknown);
    }
    let kind = metadata.file_type();
    let snapshot = if kind.is_symlink() {
        dir.read_link_contents(path).ok().map(FileSnapshot::Link)
    } else if kind.is_dir() {
        if path.components().count() > MAX_DEPTH {
            room.was_short = true;
            return Some(FileSnapshot::Unknown);
        }
        let names = dir.read_dir(path).ok().map(|entries| {
            entries
                .flatten()
                .map(|entry| entry.file_name())
                .collect::<Vec<_>>()
        });
        names.map(|names| {
            let entries = names.into_iter();
            FileSnapshot::Folder(
                entries
                    .filter_map(|name| Some((name.clone(), look(dir, &path.join(name), room)?)))
                    .collect(),
            )
        })
    } else if kind.is_file() && metadata.len() <= room.bytes {
        room.bytes -= metadata.len();
        let mode = metadata.permissions().mode() & 0o7777;
        read(dir, path, metadata.len())
            .ok()
            .map(|bytes| FileSnapshot::File { bytes, mode })
    } else {
        room.was_short |= kind.is_file();
        None
    };
    Some(snapshot.unwrap_or(FileSnapshot::Unknown))
}

fn read(dir: &Dir, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = dir.open(path)?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Restores a path to `before`; `now` is its current content.
pub(super) fn restore(
    dir: &Dir,
    path: &Path,
    before: Option<&FileSnapshot>,
    now: Option<&FileSnapshot>,
    done: &mut Restored,
) {
    match (before, now) {
        (None, None) | (Some(FileSnapshot::Unknown), _) => {}
        (Some(before), Some(now)) if before == now => {}
        (Some(FileSnapshot::Folder(before)), Some(FileSnapshot::Folder(now))) => {
            let mut names: Vec<&OsStr> = before.keys().chain(now.keys()).map(OsString::as_os_str).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                restore(dir, &path.join(name), before.get(name), now.get(name), done);
            }
        }
        (before, now) => {
            let shown = path.display().to_string();
            match replace(dir, path, before, now) {
                Ok(()) => done.paths.push(shown),
                Err(error) => done.failed.push(format!("{shown}: {error}")),
            }
        }
    }
}

fn replace(
    dir: &Dir,
    path: &Path,
    before: Option<&FileSnapshot>,
    now: Option<&FileSnapshot>,
) -> io::Result<()> {
    if now.is_some() {
        // Unknown content is removed as well, because a hook can be too large for a snapshot.
        remove(dir, path)?;
    }
    if let (Some(_), Some(parent)) = (before, path.parent())
        && parent != Path::new("")
    {
        dir.create_dir_all(parent)?;
    }
    before.map_or(Ok(()), |before| create(dir, path, before))
}

fn create(dir: &Dir, path: &Path, snapshot: &FileSnapshot) -> io::Result<()> {
    match snapshot {
        FileSnapshot::File { bytes, mode } => {
            let mut options = OpenOptions::new();
            let mut file = dir.open_with(path, options.write(true).create_new(true).mode(0o600))?;
            io::Write::write_all(&mut file, bytes)?;
            file.set_permissions(cap_std::fs::Permissions::from_mode(*mode))
        }
        FileSnapshot::Link(target) => dir.symlink_contents(target, path),
        FileSnapshot::Folder(entries) => {
            dir.create_dir_with(path, DirBuilder::new().mode(0o755))?;
            entries
                .iter()
                .try_for_each(|(name, entry)| create(dir, &path.join(name), entry))
        }
        FileSnapshot::Unknown => Ok(()),
    }
}
