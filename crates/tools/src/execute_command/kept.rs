//! Files, links and folders of a workspace that are kept in memory to be put back as they were.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, OpenOptions, OpenOptionsExt, PermissionsExt};

use super::removal::remove;

/// How much is kept of one place: far more than hooks and settings have.
const MAX_BYTES: u64 = 8 << 20;
const MAX_ENTRIES: usize = 5_000;
/// How many names a path may have to be looked at: no deeper than a thread's stack bears.
const MAX_DEPTH: usize = 64;

/// What was put back.
#[derive(Debug, Default)]
pub(super) struct PutBack {
    /// By their paths in the workspace.
    pub(super) paths: Vec<String>,
    /// What could not be, and why.
    pub(super) failed: Vec<String>,
    /// What was too much to be guarded as a whole.
    pub(super) partial: Vec<String>,
}

/// What was at a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Link(PathBuf),
    Folder(BTreeMap<OsString, Kept>),
    /// Too big, no file, or unreadable: it is left as it is where it was so before.
    Unknown,
}

/// How much more is kept of a place.
#[derive(Debug)]
pub(super) struct Room {
    bytes: u64,
    entries: usize,
    /// Whether there was more than it holds.
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

    /// Makes way for one more entry, if there is room for it.
    pub(super) fn takes_one(&mut self) -> bool {
        let has_room = self.entries > 0;
        self.was_short |= !has_room;
        self.entries = self.entries.saturating_sub(1);
        has_room
    }
}

/// What is at a path, without following a last link; none where nothing is.
pub(super) fn look(dir: &Dir, path: &Path, room: &mut Room) -> Option<Kept> {
    let metadata = dir.symlink_metadata(path).ok()?;
    if !room.takes_one() {
        return Some(Kept::Unknown);
    }
    let kind = metadata.file_type();
    let kept = if kind.is_symlink() {
        dir.read_link_contents(path).ok().map(Kept::Link)
    } else if kind.is_dir() {
        if path.components().count() > MAX_DEPTH {
            room.was_short = true;
            return Some(Kept::Unknown);
        }
        let names = dir.read_dir(path).ok().map(|entries| {
            entries
                .flatten()
                .map(|entry| entry.file_name())
                .collect::<Vec<_>>()
        });
        names.map(|names| {
            let entries = names.into_iter();
            Kept::Folder(
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
            .map(|bytes| Kept::File { bytes, mode })
    } else {
        room.was_short |= kind.is_file();
        None
    };
    Some(kept.unwrap_or(Kept::Unknown))
}

fn read(dir: &Dir, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = dir.open(path)?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes a path what it was before.
pub(super) fn restore(dir: &Dir, path: &Path, before: Option<&Kept>, now: Option<&Kept>, done: &mut PutBack) {
    match (before, now) {
        (None, None) | (Some(Kept::Unknown), _) => {}
        (Some(before), Some(now)) if before == now => {}
        (Some(Kept::Folder(before)), Some(Kept::Folder(now))) => {
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

fn replace(dir: &Dir, path: &Path, before: Option<&Kept>, now: Option<&Kept>) -> io::Result<()> {
    if now.is_some() {
        // It need not be known to go: a hook that is too big to look at is one all the same.
        remove(dir, path)?;
    }
    if let (Some(_), Some(parent)) = (before, path.parent())
        && parent != Path::new("")
    {
        dir.create_dir_all(parent)?;
    }
    before.map_or(Ok(()), |before| create(dir, path, before))
}

fn create(dir: &Dir, path: &Path, kept: &Kept) -> io::Result<()> {
    match kept {
        Kept::File { bytes, mode } => {
            let mut options = OpenOptions::new();
            let mut file = dir.open_with(path, options.write(true).create_new(true).mode(0o600))?;
            io::Write::write_all(&mut file, bytes)?;
            file.set_permissions(cap_std::fs::Permissions::from_mode(*mode))
        }
        Kept::Link(target) => dir.symlink_contents(target, path),
        Kept::Folder(entries) => {
            dir.create_dir_with(path, DirBuilder::new().mode(0o755))?;
            entries
                .iter()
                .try_for_each(|(name, kept)| create(dir, &path.join(name), kept))
        }
        Kept::Unknown => Ok(()),
    }
}
