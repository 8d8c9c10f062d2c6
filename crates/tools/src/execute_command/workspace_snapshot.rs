//! Detects the files that a command changed by comparing names, sizes and times before and after the command.
//!
//! Ignored files, the files of git and Dirigent, and build output do not count. Build output is the content of `node_modules`,
//! `__pycache__` and folders with a `CACHEDIR.TAG`. Changes by other processes during the command count, too.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use dirigent_core::tool::StateChange;

use crate::workspace::{Hidden, Workspace};

/// Maximum number of files to scan. Scanning more would take longer than most commands.
const MAX_FILES: usize = 20_000;
/// Maximum number of changes that are listed.
const MAX_CHANGES: usize = 200;

/// The files of a workspace at one moment.
#[derive(Debug)]
pub(super) struct WorkspaceSnapshot {
    /// `None` if there are too many files, or the workspace cannot be read.
    files: Option<BTreeMap<String, Stamp>>,
}

/// Metadata that shows whether a file's content has changed, without reading it.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    seconds: i64,
    nanoseconds: i64,
}

/// The changes between two moments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WorkspaceChanges {
    /// Sorted by path; without content and versions, which are unknown.
    pub(super) changes: Vec<StateChange>,
    /// Number of changes that are not listed. `None` if the changes are unknown.
    pub(super) omitted: Option<usize>,
}

impl WorkspaceSnapshot {
    /// Scans the workspace. Blocks.
    pub(super) fn take(root: &Path) -> Self {
        WorkspaceSnapshot {
            files: scan(root, MAX_FILES, None),
        }
    }

    /// Compares the workspace with the snapshot. The changes are unknown if the scan does not finish before `deadline`. Blocks.
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
    remove_build_output(&mut files);
    Some(files)
}

fn remove_build_output(files: &mut BTreeMap<String, Stamp>) {
    let tags = files.keys().filter_map(|path| path.strip_suffix("CACHEDIR.TAG"));
    let caches: Vec<String> = tags
        .filter(|folder| folder.ends_with('/'))
        .map(str::to_owned)
        .collect();
    files.retain(|path, _| {
        let is_build_folder = |folder: &str| matches!(folder, "node_modules" | "__pycache__");
        !caches.iter().any(|folder| path.starts_with(folder)) && !path.split('/').any(is_build_folder)
    });
}

fn compare(
    before: &BTreeMap<String, Stamp>,
    after: &BTreeMap<String, Stamp>,
    root: &Path,
) -> WorkspaceChanges {
    // If the command has added an ignore rule for a file, the file is not in `after` although it still exists.
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
    fn too_many_files_are_not_scanned() {
        let root = TempDir::new().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        assert_eq!(scan(root.path(), 3, None).unwrap().len(), 3);
        assert!(scan(root.path(), 2, None).is_none());
        assert!(scan(root.path(), 3, Some(Instant::now())).is_none());
    }

    #[test]
    fn lists_the_first_of_many_changes_and_counts_the_others() {
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
