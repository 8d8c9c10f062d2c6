//! Walking the workspace: which files there are for a tool that was not given their names.
//!
//! A walk never follows a link, not even one that takes a folder's place meanwhile, never enters `.git` or `.dirigent` unless told to, and
//! reads no ignore file from outside the workspace. It holds the names of the folders that it is in, no more. It yields names alone; their
//! content is read through the jail.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, FileType};

use super::ignore_rules::{IgnoreMatch, IgnoreRules, match_ignore};
use super::resolve::FinalLink;
use super::system::open_folder_nofollow;
use super::{FileError, Workspace};

/// How many names of one folder are looked at.
const MAX_NAMES: usize = 100_000;

/// How many lines of ignore files count in one walk: each is made into a pattern, which takes a while.
const MAX_IGNORE_LINES: usize = 50_000;

/// How many folders deep a walk goes, each of which it holds open.
const MAX_DEPTH: usize = 200;

/// What to do with files and folders whose names start with a dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// Leave them out.
    Skip,
    /// Walk them as others.
    Include,
}

/// How deep to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// To the bottom.
    All,
    /// So many levels below the folder: 1 is what is directly in it.
    Levels(usize),
}

/// What an entry of a walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, a pipe, a device or a socket.
    Other,
}

/// Something that a walk came by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path relative to the workspace, with `/`.
    pub path: String,
    /// What it is.
    pub kind: Kind,
}

impl Workspace {
    /// The regular files under the given folders (or the files themselves), in the whole workspace where none is
    /// given; each once, the entries of a folder in the order of their names. `.gitignore` and `.ignore` count even
    /// where there is no `.git`, except against what `under` names itself. Folders that cannot be read and names that
    /// are not Unicode are left out, as is what is in a folder after 100,000 others, or more than 200 folders deep. After 50,000 lines of
    /// ignore files those of further folders do not count.
    pub fn walk(
        &self,
        under: &[String],
        hidden: Hidden,
    ) -> Result<impl Iterator<Item = String> + Send + use<>, FileError> {
        Ok(self
            .entries(under, hidden, Depth::All)?
            .filter(|entry| entry.kind == Kind::File)
            .map(|entry| entry.path))
    }

    /// Like [`Workspace::walk`], with folders, links and others, and only so deep. The folders in `under` are not among
    /// the entries, what is in them is.
    pub fn entries(&self, under: &[String], hidden: Hidden, depth: Depth) -> Result<Walk, FileError> {
        let mut starts = BTreeSet::new();
        for path in under {
            let place = self.resolve(path, FinalLink::Follow)?;
            self.kind(path)?;
            starts.insert(place.relative());
        }
        if starts.is_empty() {
            starts.insert(PathBuf::new());
        }
        let root = self
            .dir
            .try_clone()
            .map_err(|error| self.file_error(".", error))?;
        Ok(Walk::new(Some(root), starts, hidden, depth))
    }
}

/// The iterator of [`Workspace::entries`].
#[derive(Debug)]
pub struct Walk {
    /// None where it could not be opened once more: nothing is come by.
    root: Option<Dir>,
    hidden: Hidden,
    depth: Depth,
    /// What was asked for and not come by yet.
    starts: BTreeSet<PathBuf>,
    /// The folders that it is in, each in the one before.
    folders: Vec<Folder>,
    /// How many names may still be read.
    room: usize,
    /// How many lines of ignore files may still be.
    ignore_lines: usize,
    left_out: usize,
}

/// A folder that a walk is in.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    opened: Dir,
    /// What its ignore files say.
    rules: IgnoreRules,
    /// How many levels below it are wanted.
    levels: usize,
    /// What is in it and not come by yet.
    names: std::vec::IntoIter<(OsString, Kind)>,
}

impl Iterator for Walk {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let Some(folder) = self.folders.last_mut() else {
                let start = self.starts.pop_first()?;
                if let Some(entry) = self.start(&start) {
                    return Some(entry);
                }
                continue;
            };
            let Some((name, kind)) = folder.names.next() else {
                // Folders on the way have no names, so that all of them go with the last.
                self.folders.pop();
                continue;
            };
            let path = folder.path.join(&name);
            if let Some(entry) = self.visit(&name, path, kind) {
                return Some(entry);
            }
        }
    }
}

impl Walk {
    fn new(root: Option<Dir>, starts: BTreeSet<PathBuf>, hidden: Hidden, depth: Depth) -> Self {
        Walk {
            root,
            hidden,
            depth,
            starts,
            folders: Vec::new(),
            room: usize::MAX,
            ignore_lines: MAX_IGNORE_LINES,
            left_out: 0,
        }
    }

    /// All there is, as far as the first so many names go, and but for what the first so many lines of ignore files leave out.
    pub(super) fn everywhere(
        workspace: &Workspace,
        hidden: Hidden,
        names: usize,
        ignore_lines: usize,
    ) -> Self {
        let root = workspace.dir.try_clone().ok();
        Walk {
            room: names,
            ignore_lines,
            ..Walk::new(root, BTreeSet::from([PathBuf::new()]), hidden, Depth::All)
        }
    }

    /// How much was come by and left out so far, as its name is not Unicode or there is too much in a folder.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    fn levels(&self) -> usize {
        match self.depth {
            Depth::All => usize::MAX,
            Depth::Levels(levels) => levels,
        }
    }

    /// Goes where it was told to begin; that itself, where it is no folder.
    fn start(&mut self, start: &Path) -> Option<Entry> {
        let root = self.root.as_ref()?.try_clone().ok()?;
        let mut way: Vec<Folder> = Vec::new();
        let mut opened = root;
        let mut path = PathBuf::new();
        let mut ignored = false;
        for name in start {
            let rules = IgnoreRules::read(&opened, &path, &mut self.ignore_lines);
            let next = open_folder_nofollow(&opened, name);
            way.push(Folder::ancestor(path.clone(), opened, rules));
            path.push(name);
            ignored = ignored || self.is_left_out(&way, name, &path, next.is_ok());
            opened = match next {
                Ok(next) => next,
                // What is no folder was named itself.
                Err(_) if path == start => {
                    let metadata = way.last()?.opened.symlink_metadata(name).ok()?;
                    let kind = super::kind(&metadata);
                    return self.entry(&path, kind);
                }
                Err(_) => return None,
            };
        }
        if ignored {
            // It was asked for all the same, so that only what is said in it counts.
            way.clear();
        }
        self.folders = way;
        let levels = self.levels();
        self.enter(path, opened, levels);
        None
    }

    fn visit(&mut self, name: &OsStr, path: PathBuf, kind: Kind) -> Option<Entry> {
        let folder = self.folders.last()?;
        if self.is_left_out(&self.folders, name, &path, kind == Kind::Folder) {
            return None;
        }
        let was_asked_for = self.starts.remove(&path);
        if kind == Kind::Folder {
            let levels = if was_asked_for {
                self.levels()
            } else {
                folder.levels.saturating_sub(1)
            };
            if self.folders.len() == MAX_DEPTH {
                self.left_out += 1;
            } else if levels > 0
                && let Ok(opened) = open_folder_nofollow(&folder.opened, name)
            {
                self.enter(path.clone(), opened, levels);
            }
            if was_asked_for {
                return None;
            }
        }
        self.entry(&path, kind)
    }

    fn entry(&mut self, path: &Path, kind: Kind) -> Option<Entry> {
        let Some(path) = with_slashes(path) else {
            self.left_out += 1;
            return None;
        };
        Some(Entry { path, kind })
    }

    fn is_left_out(&self, above: &[Folder], name: &OsStr, path: &Path, is_folder: bool) -> bool {
        if is_internal(name) {
            return true;
        }
        match match_ignore(above.iter().map(|folder| &folder.rules), path, is_folder) {
            IgnoreMatch::Ignored => true,
            IgnoreMatch::Whitelisted => false,
            IgnoreMatch::None => self.hidden == Hidden::Skip && name.as_encoded_bytes().starts_with(b"."),
        }
    }

    fn enter(&mut self, path: PathBuf, opened: Dir, levels: usize) {
        let names = self.names(&opened);
        let rules = IgnoreRules::read(&opened, &path, &mut self.ignore_lines);
        self.folders.push(Folder {
            path,
            opened,
            rules,
            levels,
            names: names.into_iter(),
        });
    }

    /// What is in a folder, by name.
    fn names(&mut self, opened: &Dir) -> Vec<(OsString, Kind)> {
        let Ok(mut entries) = opened.entries() else {
            return Vec::new();
        };
        let most = MAX_NAMES.min(self.room);
        let mut names: Vec<(OsString, Kind)> = entries
            .by_ref()
            .take(most)
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let kind = entry.file_type().map_or(Kind::Other, kind);
                Some((entry.file_name(), kind))
            })
            .collect();
        self.left_out += usize::from(entries.next().is_some());
        self.room -= names.len();
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        names
    }
}

impl Folder {
    /// One on the way to where a walk begins: only what its ignore files say counts.
    fn ancestor(path: PathBuf, opened: Dir, rules: IgnoreRules) -> Self {
        Folder {
            path,
            opened,
            rules,
            levels: 0,
            names: Vec::new().into_iter(),
        }
    }
}

fn kind(file_type: FileType) -> Kind {
    if file_type.is_file() {
        Kind::File
    } else if file_type.is_dir() {
        Kind::Folder
    } else {
        Kind::Other
    }
}

/// What git and Dirigent keep for themselves.
fn is_internal(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git") || name.eq_ignore_ascii_case(".dirigent")
}

/// The path with `/`; none where it is not Unicode.
pub(super) fn with_slashes(path: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> = path.iter().map(OsStr::to_str).collect();
    Some(parts?.join("/"))
}
