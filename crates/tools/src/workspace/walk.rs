//! Walking the workspace: lists files and folders without reading them.
//!
//! A walk never follows a link, even if a link replaces a folder during the walk. It never enters `.git` or `.dirigent`, unless the caller
//! requests these paths, and reads no ignore file from outside the workspace. It holds only the entries of the folders on its current path
//! in memory.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, FileType};

use super::ignore_rules::{IgnoreMatch, IgnoreRules, match_ignore};
use super::resolve::{FinalLink, with_slashes};
use super::system::open_folder_nofollow;
use super::{FileError, Workspace};

/// Maximum number of entries read from one folder.
const MAX_NAMES: usize = 100_000;

/// Maximum number of lines of ignore files in one walk. Compiling each line into a pattern takes time.
const MAX_IGNORE_LINES: usize = 50_000;

/// Maximum depth of nested folders. The walk keeps each folder on its current path open.
const MAX_DEPTH: usize = 200;

/// The treatment of files and folders whose names start with a dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// Leave these entries out.
    Skip,
    /// Treat these entries like all others.
    Include,
}

/// The depth of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// All levels.
    All,
    /// The entries up to this number of levels below the start; 1 for the direct entries of a folder.
    Levels(usize),
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, a pipe, a device or a socket.
    Other,
}

impl EntryKind {
    pub(super) fn from_file_type(file_type: FileType) -> Self {
        if file_type.is_file() {
            EntryKind::File
        } else if file_type.is_dir() {
            EntryKind::Folder
        } else {
            EntryKind::Other
        }
    }
}

/// A file or folder in the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The path relative to the workspace, with `/`.
    pub path: String,
    /// The kind of the entry.
    pub kind: EntryKind,
}

impl Workspace {
    /// Lists the regular files in the given folders, and given files themselves; all files of the workspace if `under` is empty. Each file
    /// is listed once, and the entries of a folder are ordered by name.
    ///
    /// `.gitignore` and `.ignore` apply even without a `.git`, but not to the paths in `under` themselves. The walk leaves out unreadable
    /// folders, names that are not Unicode, entries of a folder beyond the first 100,000, and entries more than 200 folders deep. After
    /// 50,000 lines of ignore files, the ignore files of further folders are not read.
    pub fn walk(
        &self,
        under: &[String],
        hidden: Hidden,
    ) -> Result<impl Iterator<Item = String> + Send + use<>, FileError> {
        Ok(self
            .entries(under, hidden, Depth::All)?
            .filter(|entry| entry.kind == EntryKind::File)
            .map(|entry| entry.path))
    }

    /// Like [`Workspace::walk`], but also lists folders, links and other entries, down to `depth`. The folders in `under` themselves are
    /// not listed.
    pub fn entries(&self, under: &[String], hidden: Hidden, depth: Depth) -> Result<Walk, FileError> {
        let mut starts = BTreeSet::new();
        for path in under {
            let resolved = self.resolve(path, FinalLink::Follow)?;
            self.kind(path)?;
            starts.insert(resolved.relative());
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
    /// The workspace's folder. `None` if it could not be opened again; in this case, the walk is empty.
    root: Option<Dir>,
    hidden: Hidden,
    depth: Depth,
    /// The requested paths that the walk has not reached yet.
    starts: BTreeSet<PathBuf>,
    /// The folders on the current path, from the outermost to the innermost.
    folders: Vec<Folder>,
    /// The number of names that may still be read.
    remaining_names: usize,
    /// The number of lines of ignore files that may still be read.
    remaining_ignore_lines: usize,
    left_out: usize,
}

/// A folder on the current path.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    opened: Dir,
    rules: IgnoreRules,
    /// The number of levels to walk below the folder.
    levels: usize,
    /// The entries that the walk has not reached yet.
    names: std::vec::IntoIter<(OsString, EntryKind)>,
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
                // The folders above a start have no names to visit, so the walk leaves them as soon as it has
                // visited the start.
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
            remaining_names: usize::MAX,
            remaining_ignore_lines: MAX_IGNORE_LINES,
            left_out: 0,
        }
    }

    /// Walks the whole workspace, but reads at most `names` names and `ignore_lines` lines of ignore files.
    pub(super) fn everywhere(
        workspace: &Workspace,
        hidden: Hidden,
        names: usize,
        ignore_lines: usize,
    ) -> Self {
        let root = workspace.dir.try_clone().ok();
        Walk {
            remaining_names: names,
            remaining_ignore_lines: ignore_lines,
            ..Walk::new(root, BTreeSet::from([PathBuf::new()]), hidden, Depth::All)
        }
    }

    /// Returns the number of omissions so far: names that are not Unicode, folders with too many entries, and folders that are nested too
    /// deeply.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    fn levels(&self) -> usize {
        match self.depth {
            Depth::All => usize::MAX,
            Depth::Levels(levels) => levels,
        }
    }

    /// Enters the folder at `start`, or returns the entry if it is not a folder.
    fn start(&mut self, start: &Path) -> Option<Entry> {
        let root = self.root.as_ref()?.try_clone().ok()?;
        let mut ancestors: Vec<Folder> = Vec::new();
        let mut opened = root;
        let mut path = PathBuf::new();
        let mut ignored = false;
        for name in start {
            let rules = IgnoreRules::read(&opened, &path, &mut self.remaining_ignore_lines);
            let next = open_folder_nofollow(&opened, name);
            ancestors.push(Folder::ancestor(path.clone(), opened, rules));
            path.push(name);
            ignored = ignored || self.is_left_out(&ancestors, name, &path, next.is_ok());
            opened = match next {
                Ok(next) => next,
                // The start is not a folder.
                Err(_) if path == start => {
                    let metadata = ancestors.last()?.opened.symlink_metadata(name).ok()?;
                    let kind = EntryKind::from_file_type(metadata.file_type());
                    return self.entry(&path, kind);
                }
                Err(_) => return None,
            };
        }
        if ignored {
            // The caller requested an ignored path, so drop the ignore rules above it to list its content.
            ancestors.clear();
        }
        self.folders = ancestors;
        let levels = self.levels();
        self.enter(path, opened, levels);
        None
    }

    fn visit(&mut self, name: &OsStr, path: PathBuf, kind: EntryKind) -> Option<Entry> {
        let folder = self.folders.last()?;
        if self.is_left_out(&self.folders, name, &path, kind == EntryKind::Folder) {
            return None;
        }
        let is_start = self.starts.remove(&path);
        if kind == EntryKind::Folder {
            let levels = if is_start {
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
            if is_start {
                return None;
            }
        }
        self.entry(&path, kind)
    }

    fn entry(&mut self, path: &Path, kind: EntryKind) -> Option<Entry> {
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
        let rules = IgnoreRules::read(&opened, &path, &mut self.remaining_ignore_lines);
        self.folders.push(Folder {
            path,
            opened,
            rules,
            levels,
            names: names.into_iter(),
        });
    }

    /// Reads the entries of a folder, ordered by name.
    fn names(&mut self, opened: &Dir) -> Vec<(OsString, EntryKind)> {
        let Ok(mut entries) = opened.entries() else {
            return Vec::new();
        };
        let max_names = MAX_NAMES.min(self.remaining_names);
        let mut names: Vec<(OsString, EntryKind)> = entries
            .by_ref()
            .take(max_names)
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let kind = entry
                    .file_type()
                    .map_or(EntryKind::Other, EntryKind::from_file_type);
                Some((entry.file_name(), kind))
            })
            .collect();
        self.left_out += usize::from(entries.next().is_some());
        self.remaining_names -= names.len();
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        names
    }
}

impl Folder {
    /// Creates the value for a folder above the start of a walk. The walk uses only its ignore rules.
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

/// Returns true for the folders of git and Dirigent.
fn is_internal(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git") || name.eq_ignore_ascii_case(".dirigent")
}
