//! What commands may not change in a workspace that they can write: git's hooks and settings, which are programs that the user's own git
//! runs outside of any sandbox, and what a project says to Dirigent.
//!
//! Landlock cannot take a folder out of a writable one. So it is kept in memory, and put back when the command is over and nothing of it
//! runs any more. Commits, branches and the index are git's content and stay as they are. What anybody else changes there meanwhile is put
//! back as well.
//!
//! Commands that run in the same workspace at the same time share what was kept before the first of them: what one of them planted
//! is never taken for what was there before another. That holds for the commands of one process.
//!
//! Repositories deeper in the workspace are found by their `.git`, the shallow ones first, and not beyond [`MAX_FOLDERS`]. One that is new
//! stays, without hooks and settings. A bare repository, which has no `.git`, is not recognised.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::kept::{Kept, PutBack, Room, look, restore};
use crate::workspace::PROTECTED;

const GIT: &str = ".git";
/// Of a repository's folder only what git runs or is told by; of `.git` itself, that it is a folder or where it leads.
const GUARDED: [&str; 5] = ["config", "config.worktree", "commondir", "gitdir", "hooks"];
/// How many folders are looked into for repositories, and how many names in them.
const MAX_FOLDERS: usize = 5_000;
const MAX_NAMES: usize = 100_000;

/// What is kept of each workspace that commands run in, with how many they are.
static HELD: Mutex<BTreeMap<PathBuf, (usize, Shared)>> = Mutex::new(BTreeMap::new());

/// None until the first command has looked.
type Shared = Arc<Mutex<Option<Snapshot>>>;

/// One command's part in the guard of its workspace. Dropped, it puts back what the guard has kept.
#[derive(Debug)]
pub(super) struct Guard {
    root: PathBuf,
    snapshot: Shared,
    is_over: bool,
}

/// The guarded files as they were.
#[derive(Debug)]
struct Snapshot {
    /// The workspace's own.
    own: Repository,
    /// Those deeper in it, by the paths of their `.git`.
    repositories: BTreeMap<PathBuf, Repository>,
    /// By path; none where there was nothing.
    others: BTreeMap<&'static str, Option<Kept>>,
    /// What is more than can be kept.
    partial: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Repository {
    /// An empty folder stands for any.
    git: Option<Kept>,
    /// By their paths in it.
    parts: BTreeMap<PathBuf, Kept>,
}

impl Guard {
    /// Looks at the workspace, unless another command runs there. It blocks. It fails where what git runs cannot be kept.
    pub(super) fn take(root: &Path) -> io::Result<Self> {
        let root = root.canonicalize()?;
        let snapshot = {
            let mut held = lock(&HELD);
            let (commands, snapshot) = held.entry(root.clone()).or_default();
            *commands += 1;
            snapshot.clone()
        };
        let mut guard = Guard {
            root,
            snapshot,
            is_over: true,
        };
        let snapshot = guard.snapshot.clone();
        let mut snapshot = lock(&snapshot);
        if snapshot.is_none() {
            *snapshot = Some(Snapshot::take(&guard.root)?);
        }
        guard.is_over = false;
        Ok(guard)
    }

    /// Puts back what is other than it was. It blocks.
    pub(super) fn put_back(mut self) -> PutBack {
        self.restore()
    }

    fn restore(&mut self) -> PutBack {
        self.is_over = true;
        match lock(&self.snapshot).as_ref() {
            Some(snapshot) => snapshot.put_back(&self.root),
            None => PutBack::default(),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_over {
            // Nobody waits for what there is to say.
            let _ = self.restore();
        }
        let mut held = lock(&HELD);
        if let Some((commands, _)) = held.get_mut(&self.root) {
            *commands -= 1;
            if *commands == 0 {
                held.remove(&self.root);
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
                "there is too much in `.git/config`, `.git/hooks`, `.git/modules` and `.git/worktrees` to be kept from the command",
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

    fn put_back(&self, root: &Path) -> PutBack {
        let mut done = PutBack {
            partial: self.partial.clone(),
            ..PutBack::default()
        };
        let dir = match Dir::open_ambient_dir(root, ambient_authority()) {
            Ok(dir) => dir,
            Err(error) => {
                done.failed.push(format!("the workspace: {error}"));
                return done;
            }
        };
        self.own.put_back(&dir, Path::new(GIT), &mut done);
        for (path, before) in &self.others {
            let path = Path::new(path);
            let now = look(&dir, path, &mut Room::new());
            restore(&dir, path, before.as_ref(), now.as_ref(), &mut done);
        }
        for git in repositories_in(&dir).0 {
            match self.repositories.get(&git) {
                Some(before) => before.put_back(&dir, &git, &mut done),
                None => self.strip(&dir, &git, &mut done),
            }
        }
        done
    }

    /// Takes hooks and settings from a repository that is new, unless it is one that was there and was moved.
    fn strip(&self, dir: &Dir, git: &Path, done: &mut PutBack) {
        let now = Repository::look(dir, git, &mut Room::new());
        let was_moved = now.is_folder() && self.repositories.values().any(|before| before == &now);
        if !was_moved {
            let nothing = Repository {
                git: None,
                parts: BTreeMap::new(),
            };
            nothing.put_back(dir, git, done);
        }
    }
}

impl Repository {
    fn look(dir: &Dir, git: &Path, room: &mut Room) -> Self {
        match dir.symlink_metadata(git) {
            Ok(metadata) if metadata.is_dir() => Repository {
                git: Some(Kept::Folder(BTreeMap::new())),
                parts: parts(dir, git, room),
            },
            _ => Repository {
                git: look(dir, git, room),
                parts: BTreeMap::new(),
            },
        }
    }

    fn is_folder(&self) -> bool {
        matches!(self.git, Some(Kept::Folder(_)))
    }

    fn put_back(&self, dir: &Dir, git: &Path, done: &mut PutBack) {
        let now = Repository::look(dir, git, &mut Room::new());
        // A repository that the command made is its to make, without hooks and settings.
        if !(self.git.is_none() && now.is_folder()) {
            restore(dir, git, self.git.as_ref(), now.git.as_ref(), done);
        }
        let paths: BTreeSet<&PathBuf> = self.parts.keys().chain(now.parts.keys()).collect();
        for path in paths {
            let place = git.join(path);
            // Of a submodule or a work tree that is gone nothing comes back.
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

/// What a folder within a repository's is.
#[derive(Clone, Copy)]
enum Role {
    /// The repository's own, or that of a submodule or a work tree of it.
    Repository,
    /// One of submodules, whose names may have several parts.
    Modules,
    /// One of work trees.
    Worktrees,
}

/// What is guarded in a repository's folder, those of its submodules and work trees included, and links that stand for any of them.
fn parts(dir: &Dir, git: &Path, room: &mut Room) -> BTreeMap<PathBuf, Kept> {
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

/// The entries of a folder of a repository's folder.
fn inner(dir: &Dir, git: &Path, folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = dir.read_dir(git.join(folder)).into_iter().flatten().flatten();
    entries.map(move |entry| folder.join(entry.file_name()))
}

/// The `.git` of every repository beneath the workspace but its own, whatever is ignored, and whether there may be more.
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
    // What is in it is whole at any moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
