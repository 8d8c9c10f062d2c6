//! Walking the workspace: which files there are for a tool that was not given their names.
//!
//! A walk never follows a link, never enters `.git` or `.dirigent` unless told to, and reads no ignore file from
//! outside the workspace. It yields names alone; their content is read through the jail.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ignore::{DirEntry, WalkBuilder};

use super::{FileFault, FinalLink, Workspace, is_protected_name};

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
    /// are not Unicode are left out.
    pub fn walk(
        &self,
        under: &[String],
        hidden: Hidden,
    ) -> Result<impl Iterator<Item = String> + Send + use<>, FileFault> {
        Ok(self
            .entries(under, hidden, Depth::All)?
            .filter(|entry| entry.kind == Kind::File)
            .map(|entry| entry.path))
    }

    /// Like [`Workspace::walk`], with folders, links and others, and only so deep. The folders in `under` are not among
    /// the entries, what is in them is.
    pub fn entries(&self, under: &[String], hidden: Hidden, depth: Depth) -> Result<Walk, FileFault> {
        let mut starts = Vec::new();
        for path in under {
            let place = self.place(path, FinalLink::Follow)?;
            self.kind(path)?;
            starts.push(place.relative());
        }
        if starts.iter().any(|start| start == Path::new("")) {
            starts.clear();
        }
        starts.sort();
        starts.dedup();
        let walker = builder(self.root(), self.root(), starts.clone(), hidden, depth).build();
        Ok(Walk {
            root: self.root().to_owned(),
            hidden,
            depth,
            walker,
            unreached: starts.clone(),
            starts,
        })
    }
}

/// The iterator of [`Workspace::entries`].
pub struct Walk {
    root: PathBuf,
    hidden: Hidden,
    depth: Depth,
    walker: ignore::Walk,
    /// What was asked for; all, if nothing is here.
    starts: Vec<PathBuf>,
    /// What was asked for by name and not come by yet: it may be ignored or hidden.
    unreached: Vec<PathBuf>,
}

impl Iterator for Walk {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            match self.walker.next() {
                Some(Ok(entry)) => {
                    if let Some(entry) = self.visit(&entry) {
                        return Some(entry);
                    }
                }
                Some(Err(_)) => {}
                None if self.unreached.is_empty() => return None,
                None => {
                    let start = self.unreached.remove(0);
                    let from = self.root.join(&start);
                    self.walker = builder(&self.root, &from, vec![start], self.hidden, self.depth).build();
                }
            }
        }
    }
}

impl Walk {
    fn visit(&mut self, entry: &DirEntry) -> Option<Entry> {
        let relative = entry.path().strip_prefix(&self.root).ok()?;
        self.unreached.retain(|start| start != relative);
        let file_type = entry.file_type()?;
        let kind = if file_type.is_file() {
            Kind::File
        } else if file_type.is_dir() {
            Kind::Folder
        } else {
            Kind::Other
        };
        let asked_for = |start: &PathBuf| {
            relative.starts_with(start) && (relative != start.as_path() || kind != Kind::Folder)
        };
        if relative == Path::new("") || !(self.starts.is_empty() || self.starts.iter().any(asked_for)) {
            return None;
        }
        Some(Entry {
            path: with_slashes(relative)?,
            kind,
        })
    }
}

/// The path with `/`; none where it is not Unicode.
pub(super) fn with_slashes(path: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> = path.iter().map(OsStr::to_str).collect();
    Some(parts?.join("/"))
}

/// A walk from `from` that visits only what is under `starts` (or on the way to them).
fn builder(root: &Path, from: &Path, starts: Vec<PathBuf>, hidden: Hidden, depth: Depth) -> WalkBuilder {
    let mut builder = WalkBuilder::new(from);
    builder
        .hidden(hidden == Hidden::Skip)
        // Files outside the workspace must not decide what is in it.
        .parents(false)
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_name(OsStr::cmp);
    let root = root.to_owned();
    builder.filter_entry(move |entry| {
        let Ok(relative) = entry.path().strip_prefix(&root) else {
            return false;
        };
        let asked_for = starts.iter().any(|start| relative.starts_with(start));
        let on_the_way = starts.iter().any(|start| start.starts_with(relative));
        let protected = is_protected_name(entry.file_name()) && !starts.iter().any(|start| start == relative);
        let deep_enough = starts.iter().any(|start| within(relative, start, depth))
            || (starts.is_empty() && within(relative, Path::new(""), depth));
        !protected && (starts.is_empty() || asked_for || on_the_way) && (deep_enough || on_the_way)
    });
    builder
}

fn within(path: &Path, start: &Path, depth: Depth) -> bool {
    match (path.strip_prefix(start), depth) {
        (Err(_), _) => false,
        (Ok(_), Depth::All) => true,
        (Ok(below), Depth::Levels(levels)) => below.iter().count() <= levels,
    }
}
