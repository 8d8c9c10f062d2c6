//! Which files of the workspace a command changed, as their names, sizes and times before and after tell.
//!
//! What is ignored there, and what git and Dirigent keep for themselves, does not count, nor what only builds make: folders that a
//! `CACHEDIR.TAG` marks as such, `node_modules` and `__pycache__`. What somebody else changes meanwhile does.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use dirigent_core::tool::StateChange;

use crate::workspace::{Hidden, Workspace};

/// In a larger workspace looking would take longer than most commands.
const MAX_FILES: usize = 20_000;
/// How many changes are told one by one.
const MAX_CHANGES: usize = 200;

/// The files of a workspace at a moment.
#[derive(Debug)]
pub(super) struct WorkspaceSnapshot {
    /// None where there are too many, or too many for the time.
    files: Option<BTreeMap<String, Stamp>>,
}

/// Changes with a file's content, as far as can be told without reading it.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    seconds: i64,
    nanoseconds: i64,
}

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WorkspaceChanges {
    /// By path. Content and versions are not known.
    pub(super) changes: Vec<StateChange>,
    /// How many more there were; none where nothing can be told.
    pub(super) omitted: Option<usize>,
}

impl WorkspaceSnapshot {
    /// Looks at the workspace. It blocks.
    pub(super) fn take(root: &Path) -> Self {
        WorkspaceSnapshot {
            files: scan(root, MAX_FILES, None),
        }
    }

    /// What is different now, if that can be found out until then. It blocks.
    pub(super) fn compare(self, root: &Path, deadline: Option<Instant>) -> WorkspaceChanges {
        match (self.files, scan(root, MAX_FILES, deadline)) {
            (Some(before), Some(after)) => compare(&before, &after, root),
            (None, _) | (_, None) => WorkspaceChanges::default(),
        }
    }
}

fn scan(root: &Path, max_files: usize, deadline: Option<Instant>) -> Option<BTreeMap<String, Stamp>> {
    let workspace = Workspace::open(root).ok()?;
    let mut files = BTreeMap::new();
    for path in workspace.walk(&[], Hidden::Include).ok()? {
        if files.len() == max_files || deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return None;
        }
        if let Ok(metadata) = workspace.root().join(&path).symlink_metadata() {
            let stamp = Stamp {
                inode: metadata.ino(),
                length: metadata.len(),
                seconds: metadata.mtime(),
                nanoseconds: metadata.mtime_nsec(),
            };
            files.insert(path, stamp);
        }
    }
    without_caches(&mut files);
    Some(files)
}

/// Takes away what only builds make.
fn without_caches(files: &mut BTreeMap<String, Stamp>) {
    let tags = files.keys().filter_map(|path| path.strip_suffix("CACHEDIR.TAG"));
    let caches: Vec<String> = tags
        .filter(|folder| folder.ends_with('/'))
        .map(str::to_owned)
        .collect();
    files.retain(|path, _| {
        let made = |folder: &str| matches!(folder, "node_modules" | "__pycache__");
        !caches.iter().any(|folder| path.starts_with(folder)) && !path.split('/').any(made)
    });
}

fn compare(
    before: &BTreeMap<String, Stamp>,
    after: &BTreeMap<String, Stamp>,
    root: &Path,
) -> WorkspaceChanges {
    // A file that is ignored from now on is still there.
    let is_gone = |path: &str| root.join(path).symlink_metadata().is_err();
    let mut changed: Vec<(&String, StateChange)> = Vec::new();
    for (path, stamp) in after {
        let change = match before.get(path) {
            None => created(path),
            Some(before) if before != stamp => edited(path),
            Some(_) => continue,
        };
        changed.push((path, change));
    }
    let gone = before
        .keys()
        .filter(|path| !after.contains_key(*path) && is_gone(path));
    changed.extend(gone.map(|path| (path, deleted(path))));
    changed.sort_by_key(|(path, _)| *path);
    let more = changed.len().saturating_sub(MAX_CHANGES);
    WorkspaceChanges {
        changes: changed
            .into_iter()
            .map(|(_, change)| change)
            .take(MAX_CHANGES)
            .collect(),
        omitted: Some(more),
    }
}

fn created(path: &str) -> StateChange {
    StateChange::FileCreated {
        path: path.to_owned(),
        diff: None,
        after: None,
    }
}

fn edited(path: &str) -> StateChange {
    StateChange::FileEdited {
        path: path.to_owned(),
        diff: None,
        before: None,
        after: None,
    }
}

fn deleted(path: &str) -> StateChange {
    StateChange::FileDeleted {
        path: path.to_owned(),
        diff: None,
        before: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn too_many_files_are_not_looked_at() {
        let root = TempDir::new().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        assert_eq!(scan(root.path(), 3, None).unwrap().len(), 3);
        assert!(scan(root.path(), 2, None).is_none());
        assert!(scan(root.path(), 3, Some(Instant::now())).is_none());
    }

    #[test]
    fn of_many_changes_the_first_are_told_and_the_rest_counted() {
        let root = TempDir::new().unwrap();
        let before = WorkspaceSnapshot::take(root.path());
        for number in 0..205 {
            std::fs::write(root.path().join(format!("{number:03}")), "").unwrap();
        }
        let changed = before.compare(root.path(), None);
        assert_eq!(changed.changes.len(), 200);
        assert_eq!(changed.changes.first(), Some(&created("000")));
        assert_eq!(changed.omitted, Some(5));
    }
}
