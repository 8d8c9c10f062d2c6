//! Protects files that commands must not change in a workspace in which they can write: git's hooks and
//! settings, and the project's files that configure Dirigent and its agents. Hooks and settings are protected
//! because the user's own git runs the programs in them outside of any sandbox.
//!
//! Landlock cannot make a folder read-only within a writable folder. So the guard takes a snapshot of these
//! files in memory, and restores them once the command and all its processes have ended. Git's content
//! (commits, branches and the index) is not protected. Changes that other programs make to protected files
//! while a command is running are also reverted.
//!
//! Commands that run in the same workspace at the same time share the snapshot that was taken before the first of them, so a file that
//! one command planted is never part of another command's snapshot. This applies only to the commands of one process.
//!
//! Repositories deeper in the workspace are found by their `.git`. The search begins with the outer folders,
//! and covers at most [`MAX_FOLDERS`] folders. A repository that a command creates remains, but without hooks
//! and settings. A bare repository has no `.git`, so it is not recognised.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::file_snapshot::{FileSnapshot, Restored, Room, look, restore};
use crate::workspace::PROTECTED;

const GIT: &str = ".git";
/// The protected entries of a repository's folder: programs and settings. Of `.git` itself, only the kind
/// (folder, file or link) and the content of a file or link are protected.
const GUARDED: [&str; 5] = ["config", "config.worktree", "commondir", "gitdir", "hooks"];
/// Maximum number of folders that are searched for repositories, and of names read in them.
const MAX_FOLDERS: usize = 5_000;
const MAX_NAMES: usize = 100_000;

/// For each workspace in which commands run: the number of these commands, and their shared snapshot.
static SNAPSHOTS: Mutex<BTreeMap<PathBuf, (usize, Shared)>> = Mutex::new(BTreeMap::new());

/// `None` until the first command has taken the snapshot.
type Shared = Arc<Mutex<Option<Snapshot>>>;

/// A command's use of the guard of its workspace. Restores the protected files on drop, unless [`Guard::finish`] has already done so.
#[derive(Debug)]
pub(super) struct Guard {
    root: PathBuf,
    snapshot: Shared,
    is_finished: bool,
}

/// The protected files of a workspace before its commands.
#[derive(Debug)]
struct Snapshot {
    /// The repository of the workspace itself.
    own: Repository,
    /// The repositories deeper in the workspace, by the paths of their `.git`.
    repositories: BTreeMap<PathBuf, Repository>,
    /// The other protected files and folders, by path; `None` if the path did not exist.
    others: BTreeMap<&'static str, Option<FileSnapshot>>,
    /// The paths that are too large for a complete snapshot.
    partial: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Repository {
    /// The `.git`. A folder is represented by an empty folder.
    git: Option<FileSnapshot>,
    /// The protected entries, by their paths in `.git`.
    parts: BTreeMap<PathBuf, FileSnapshot>,
}

impl Guard {
    /// Takes the snapshot of a workspace, unless another command has already taken it. Blocks. Fails if the programs and settings of the
    /// workspace's own repository are too large for a snapshot.
    pub(super) fn take(root: &Path) -> io::Result<Self> {
        let root = root.canonicalize()?;
        let snapshot = {
            let mut snapshots = lock(&SNAPSHOTS);
            let (commands, snapshot) = snapshots.entry(root.clone()).or_default();
            *commands += 1;
            snapshot.clone()
        };
        let mut guard = Guard {
            root,
            snapshot,
            is_finished: true,
        };
        let snapshot = guard.snapshot.clone();
        let mut snapshot = lock(&snapshot);
        if snapshot.is_none() {
            *snapshot = Some(Snapshot::take(&guard.root)?);
        }
        guard.is_finished = false;
        Ok(guard)
    }

    /// Restores the protected files that have changed. Blocks.
    pub(super) fn finish(mut self) -> Restored {
        self.restore()
    }

    fn restore(&mut self) -> Restored {
        self.is_finished = true;
        match lock(&self.snapshot).as_ref() {
            Some(snapshot) => snapshot.restore(&self.root),
            None => Restored::default(),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_finished {
            // The drop handler cannot report the result.
            let _ = self.restore();
        }
        let mut snapshots = lock(&SNAPSHOTS);
        if let Some((commands, _)) = snapshots.get_mut(&self.root) {
            *commands -= 1;
            if *commands == 0 {
                snapshots.remove(&self.root);
            }
        }
    }
}

impl Snapshot {
    fn take(root: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())?;
        let mut room = Room::new();
        let own = Repository::look(&dir, Path::new(GIT), &mut room);
        if room.was_short {
            return Err(io::Error::other(
                "`.git/config`, `.git/hooks`, `.git/modules` and `.git/worktrees` are too large to be protected from the command",
            ));
        }
        let mut partial = Vec::new();
        let mut others = BTreeMap::new();
        for name in PROTECTED.into_iter().filter(|name| *name != GIT) {
            let mut room = Room::new();
            others.insert(name, look(&dir, Path::new(name), &mut room));
            if room.was_short {
                partial.push(name.to_owned());
            }
        }
        let mut room = Room::new();
        let (found, is_short) = repositories_in(&dir);
        let repositories = found.into_iter().map(|git| {
            let repository = Repository::look(&dir, &git, &mut room);
            (git, repository)
        });
        let repositories = repositories.collect();
        if is_short || room.was_short {
            partial.push("repositories deeper in the workspace".to_owned());
        }
        Ok(Snapshot {
            own,
            repositories,
            others,
            partial,
        })
    }

    fn restore(&self, root: &Path) -> Restored {
        let mut done = Restored {
            partial: self.partial.clone(),
            ..Restored::default()
        };
        let dir = match Dir::open_ambient_dir(root, ambient_authority()) {
            Ok(dir) => dir,
            Err(error) => {
                done.failed.push(format!("the workspace: {error}"));
                return done;
            }
        };
        self.own.restore(&dir, Path::new(GIT), &mut done);
        for (path, before) in &self.others {
            let path = Path::new(path);
            let now = look(&dir, path, &mut Room::new());
            restore(&dir, path, before.as_ref(), now.as_ref(), &mut done);
        }
        for git in repositories_in(&dir).0 {
            match self.repositories.get(&git) {
                Some(before) => before.restore(&dir, &git, &mut done),
                None => self.strip(&dir, &git, &mut done),
            }
        }
        done
    }

    /// Removes the hooks and settings of a new repository, unless the repository already existed and was only
    /// moved.
    fn strip(&self, dir: &Dir, git: &Path, done: &mut Restored) {
        let now = Repository::look(dir, git, &mut Room::new());
        let was_moved = now.is_folder() && self.repositories.values().any(|before| before == &now);
        if !was_moved {
            let nothing = Repository {
                git: None,
                parts: BTreeMap::new(),
            };
            nothing.restore(dir, git, done);
        }
    }
}

impl Repository {
    fn look(dir: &Dir, git: &Path, room: &mut Room) -> Self {
        match dir.symlink_metadata(git) {
            Ok(metadata) if metadata.is_dir() => Repository {
                git: Some(FileSnapshot::Folder(BTreeMap::new())),
                parts: parts(dir, git, room),
            },
            _ => Repository {
                git: look(dir, git, room),
                parts: BTreeMap::new(),
            },
        }
    }

    fn is_folder(&self) -> bool {
        matches!(self.git, Some(FileSnapshot::Folder(_)))
    }

    fn restore(&self, dir: &Dir, git: &Path, done: &mut Restored) {
        let now = Repository::look(dir, git, &mut Room::new());
        // A repository that the command created remains, but without hooks and settings.
        if !(self.git.is_none() && now.is_folder()) {
            restore(dir, git, self.git.as_ref(), now.git.as_ref(), done);
        }
        let paths: BTreeSet<&PathBuf> = self.parts.keys().chain(now.parts.keys()).collect();
        for path in paths {
            let place = git.join(path);
            // If a submodule or worktree was deleted, nothing of it is restored.
            if place
                .parent()
                .is_none_or(|folder| dir.symlink_metadata(folder).is_ok())
            {
                let now = look(dir, &place, &mut Room::new());
                restore(dir, &place, self.parts.get(path), now.as_ref(), done);
            }
        }
    }
}

/// The role of a folder within a repository's folder.
#[derive(Clone, Copy)]
enum Role {
    /// The folder of the repository itself, of a submodule or of a worktree.
    Repository,
    /// A folder that contains submodules. The name of a submodule can have several parts.
    Modules,
    /// The folder that contains the worktrees.
    Worktrees,
}

/// Takes a snapshot of the protected entries in a repository's folder and in the folders of its submodules
/// and worktrees. If one of these folders is a link, takes a snapshot of the link.
fn parts(dir: &Dir, git: &Path, room: &mut Room) -> BTreeMap<PathBuf, FileSnapshot> {
    let mut parts = BTreeMap::new();
    let mut folders = vec![(PathBuf::new(), Role::Repository)];
    while let Some((folder, role)) = folders.pop() {
        let place = git.join(&folder);
        let Ok(metadata) = dir.symlink_metadata(&place) else {
            continue;
        };
        if !room.takes_one() {
            break;
        }
        if metadata.is_symlink() {
            parts.extend(look(dir, &place, room).map(|link| (folder, link)));
            continue;
        }
        match role {
            Role::Repository => {
                let guarded = GUARDED.map(|name| folder.join(name)).into_iter();
                parts.extend(
                    guarded.filter_map(|path| Some((path.clone(), look(dir, &git.join(&path), room)?))),
                );
                folders.push((folder.join("modules"), Role::Modules));
                folders.push((folder.join("worktrees"), Role::Worktrees));
            }
            Role::Modules => folders.extend(inner(dir, git, &folder).map(|module| {
                let is_one = dir.symlink_metadata(git.join(&module).join("HEAD")).is_ok();
                (module, if is_one { Role::Repository } else { Role::Modules })
            })),
            Role::Worktrees => folders.extend(inner(dir, git, &folder).map(|tree| (tree, Role::Repository))),
        }
    }
    parts
}

/// Returns the entries of a folder within a repository's folder.
fn inner(dir: &Dir, git: &Path, folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = dir.read_dir(git.join(folder)).into_iter().flatten().flatten();
    entries.map(move |entry| folder.join(entry.file_name()))
}

/// Returns the `.git` of every repository below the workspace, ignored ones included, except the workspace's
/// own. The flag is true if the search was cut short.
fn repositories_in(dir: &Dir) -> (Vec<PathBuf>, bool) {
    let mut found = Vec::new();
    let mut folders = VecDeque::from([PathBuf::new()]);
    let (mut seen, mut names) = (1, 0);
    while let Some(folder) = folders.pop_front() {
        let path = if seen == 1 { Path::new(".") } else { &folder };
        for entry in dir.read_dir(path).into_iter().flatten().flatten() {
            names += 1;
            if names > MAX_NAMES {
                return (found, true);
            }
            let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
            if name == GIT {
                found.extend((path != Path::new(GIT)).then_some(path));
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push_back(path);
            }
        }
        seen += 1;
        if seen > MAX_FOLDERS {
            return (found, !folders.is_empty());
        }
    }
    (found, false)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data is consistent at any moment, so a panic of another thread does no harm.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
