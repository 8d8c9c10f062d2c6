//! What commands may not change in a workspace that they can write: git's hooks and settings, which are programs that the user's own git
//! runs outside of any sandbox, and what a project says to Dirigent.
//!
//! Landlock cannot take a folder out of a writable one. So it is kept in memory, and put back when the command is over and nothing of it
//! runs any more. Commits, branches and the index are git's content and stay as they are.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, OpenOptions, OpenOptionsExt, PermissionsExt};

/// Of git's folder only what it runs or is told by; of `.git` itself, that it is a folder or where it leads.
const GUARDED: [&str; 6] = [
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/hooks",
    ".dirigent",
    ".claude/agents",
];
const GIT: &str = ".git";
/// How much is kept: far more than hooks and settings have.
const MAX_BYTES: u64 = 8 << 20;
const MAX_ENTRIES: usize = 5_000;

/// The guarded files as they were before a command. Dropped, it puts them back.
#[derive(Debug)]
pub(super) struct Guard {
    root: PathBuf,
    /// By path; none where there was nothing.
    before: BTreeMap<&'static str, Option<Kept>>,
    git: Option<Kept>,
    /// There was more than can be kept.
    is_partial: bool,
    is_over: bool,
}

/// What was put back.
#[derive(Debug, Default)]
pub(super) struct PutBack {
    /// By their paths in the workspace.
    pub(super) paths: Vec<String>,
    /// What could not be, and why.
    pub(super) failed: Vec<String>,
    /// Whether some of what is there was too much to be guarded.
    pub(super) is_partial: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Kept {
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Link(PathBuf),
    Folder(BTreeMap<OsString, Kept>),
    /// Too big, no file, or unreadable: it is left as it is where it was so before.
    Unknown,
}

struct Room {
    bytes: u64,
    entries: usize,
    was_short: bool,
}

impl Guard {
    /// Looks at the workspace. It blocks.
    pub(super) fn take(root: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())?;
        let mut room = Room::new();
        let before = GUARDED
            .iter()
            .map(|path| (*path, look(&dir, Path::new(path), &mut room)))
            .collect();
        Ok(Guard {
            root: root.to_owned(),
            before,
            git: look_at_git(&dir, &mut room),
            is_partial: room.was_short,
            is_over: false,
        })
    }

    /// Puts back what is other than it was. It blocks.
    pub(super) fn put_back(mut self) -> PutBack {
        self.restore()
    }

    fn restore(&mut self) -> PutBack {
        self.is_over = true;
        let mut done = PutBack {
            is_partial: self.is_partial,
            ..PutBack::default()
        };
        let dir = match Dir::open_ambient_dir(&self.root, ambient_authority()) {
            Ok(dir) => dir,
            Err(error) => {
                done.failed.push(format!("the workspace: {error}"));
                return done;
            }
        };
        let mut room = Room::new();
        let git = look_at_git(&dir, &mut room);
        // A repository that the command made is its to make, without hooks and settings.
        if !(self.git.is_none() && matches!(git, Some(Kept::Folder(_)))) {
            restore(&dir, Path::new(GIT), self.git.as_ref(), git.as_ref(), &mut done);
        }
        for (path, before) in &self.before {
            let path = Path::new(path);
            let now = look(&dir, path, &mut room);
            restore(&dir, path, before.as_ref(), now.as_ref(), &mut done);
        }
        done
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_over {
            // Nobody waits for what there is to say.
            let _ = self.restore();
        }
    }
}

impl Room {
    fn new() -> Self {
        Room {
            bytes: MAX_BYTES,
            entries: MAX_ENTRIES,
            was_short: false,
        }
    }
}

/// What is at a path, without following a last link; none where nothing is.
fn look(dir: &Dir, path: &Path, room: &mut Room) -> Option<Kept> {
    let metadata = dir.symlink_metadata(path).ok()?;
    if room.entries == 0 {
        room.was_short = true;
        return Some(Kept::Unknown);
    }
    room.entries -= 1;
    let kind = metadata.file_type();
    let kept = if kind.is_symlink() {
        dir.read_link_contents(path).ok().map(Kept::Link)
    } else if kind.is_dir() {
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

/// Like [`look`], without what is in git's folder.
fn look_at_git(dir: &Dir, room: &mut Room) -> Option<Kept> {
    let metadata = dir.symlink_metadata(GIT).ok()?;
    if metadata.is_dir() {
        return Some(Kept::Folder(BTreeMap::new()));
    }
    look(dir, Path::new(GIT), room)
}

fn read(dir: &Dir, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = dir.open(path)?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn restore(dir: &Dir, path: &Path, before: Option<&Kept>, now: Option<&Kept>, done: &mut PutBack) {
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
    match now {
        // What is there now need not be known to go: a hook that is too big to look at is one all the same.
        Some(Kept::Unknown) if dir.symlink_metadata(path)?.is_dir() => dir.remove_dir_all(path)?,
        Some(Kept::Folder(_)) => dir.remove_dir_all(path)?,
        Some(Kept::File { .. } | Kept::Link(_) | Kept::Unknown) => dir.remove_file(path)?,
        None => {}
    }
    if let (Some(_), Some(parent)) = (before, path.parent()) {
        if parent != Path::new("") {
            dir.create_dir_all(parent)?;
        }
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
