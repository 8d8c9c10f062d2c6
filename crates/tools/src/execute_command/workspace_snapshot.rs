//! Detects the files that a command changed by comparing names, sizes and times before and after the command.
//!
//! Ignored files, the files of git and Dirigent, and build output do not count. Build output is the content
//! of `node_modules`, `__pycache__` and folders with a `CACHEDIR.TAG`. Changes by other processes while the
//! command is running also count.
//!
//! The content before the command is known up to a total size: first for files that the agent has seen or the run has changed, then for
//! other small files. It is read from the files and never from git's index or objects, which a command can forge.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use dirigent_core::tool::{FileVersion, StateChange};
use dirigent_core::undo::PathState;

use super::content_cache::{ContentCache, ContentCaches, KnownContent};
use crate::content_store::ContentStore;
use crate::diff::unified_diff_of_bytes;
use crate::tool::ToolContext;
use crate::workspace::{Hidden, Workspace};

/// Maximum number of files to scan. Scanning more would take longer than most commands.
const MAX_FILES: usize = 20_000;
/// Maximum number of changes that are listed.
const MAX_CHANGES: usize = 200;
/// Maximum total size of the contents that are held in memory while a command runs, in bytes.
const MAX_HELD_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum size of a file that is held although the agent has not seen it, in bytes.
const MAX_UNSEEN_BYTES: u64 = 256 * 1024;
/// Maximum number of such files. Reading more would take longer than most commands.
const MAX_UNSEEN_FILES: usize = 2_000;
/// Maximum total size of the changed files whose versions after the command are determined, in bytes.
const MAX_READ_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum total size of the reported diffs, in bytes.
const MAX_DIFF_BYTES: usize = 256 * 1024;

/// The files of a workspace at one moment.
#[derive(Debug)]
pub(super) struct WorkspaceSnapshot {
    /// `None` if there are too many files, or the workspace cannot be read.
    files: Option<BTreeMap<String, Stamp>>,
    /// The versions and contents of the files that were read.
    contents: BTreeMap<String, KnownContent>,
}

/// Metadata that shows whether a file has changed, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    /// The time of the last change of content or metadata, in seconds and nanoseconds. No program can set it, so it also shows a change
    /// that kept length and modification time.
    pub(super) changed: (i64, i64),
}

impl Stamp {
    fn new(metadata: &Metadata) -> Self {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns true if the file has another content for sure or in all likelihood. A change of metadata alone, such as a new hard link, does
    /// not count.
    fn differs_in_content(&self, other: &Stamp) -> bool {
        let content = |stamp: &Stamp| (stamp.device, stamp.inode, stamp.length, stamp.modified);
        content(self) != content(other)
    }
}

/// The changes between two moments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WorkspaceChanges {
    /// The changes, sorted by path, with their versions and diffs where known.
    pub(super) changes: Vec<StateChange>,
    /// Number of changes that are not listed. `None` if the changes are unknown.
    pub(super) omitted: Option<usize>,
}

/// Returns the paths of the files that the calling agent has seen or the run has changed.
pub(super) fn known_paths(context: &ToolContext) -> BTreeSet<String> {
    let recorded = context
        .content_store
        .as_deref()
        .and_then(|store| store.recorded_paths().ok());
    let mut paths = recorded.unwrap_or_default();
    let seen = context.seen.iter().flat_map(|seen| seen.values());
    paths.extend(
        seen.filter(|file| file.digest.is_some())
            .map(|file| file.path.clone()),
    );
    paths
}

impl WorkspaceSnapshot {
    /// Scans the workspace, and reads the files whose paths are `known`, then other small files. Blocks.
    pub(super) fn take(root: &Path, known: &BTreeSet<String>, caches: &ContentCaches) -> Self {
        let files = scan(root, MAX_FILES, None);
        let contents = match (&files, Workspace::open(root)) {
            (Some(files), Ok(workspace)) => {
                caches.with_cache(root, |cache| read_contents(files, &workspace, known, cache))
            }
            (None, _) | (_, Err(_)) => BTreeMap::new(),
        };
        WorkspaceSnapshot { files, contents }
    }

    /// Compares the workspace with the snapshot, and records the earlier contents of changed files. The changes are unknown if the scan does
    /// not finish before `deadline`. Blocks.
    pub(super) fn compare(
        self,
        root: &Path,
        deadline: Option<Instant>,
        content_store: Option<&dyn ContentStore>,
    ) -> WorkspaceChanges {
        let (Some(before), Some(after)) = (&self.files, scan(root, MAX_FILES, deadline)) else {
            return WorkspaceChanges::default();
        };
        let is_known = |path: &str| self.contents.contains_key(path);
        let mut changed = compare(before, &after, root, is_known);
        if let Ok(workspace) = Workspace::open(root) {
            let mut reader = ChangeReader {
                workspace,
                contents: &self.contents,
                content_store,
                deadline,
                bytes_to_read: MAX_READ_BYTES,
                bytes_of_diffs: MAX_DIFF_BYTES,
            };
            changed
                .changes
                .retain_mut(|change| reader.complete(change, &after));
        }
        changed
    }
}

/// Reads the contents of known files, then of the smallest other ones, up to a total size. Files that have not changed since an earlier
/// command are taken from the cache.
fn read_contents(
    files: &BTreeMap<String, Stamp>,
    workspace: &Workspace,
    known: &BTreeSet<String>,
    cache: &mut ContentCache,
) -> BTreeMap<String, KnownContent> {
    let mut unseen: Vec<(u64, &String)> = files
        .iter()
        .filter(|(path, stamp)| stamp.length <= MAX_UNSEEN_BYTES && !known.contains(*path))
        .map(|(path, stamp)| (stamp.length, path))
        .collect();
    if unseen.len() > MAX_UNSEEN_FILES {
        unseen.select_nth_unstable(MAX_UNSEEN_FILES);
        unseen.truncate(MAX_UNSEEN_FILES);
    }
    unseen.sort_unstable();
    let mut room = MAX_HELD_BYTES;
    let mut contents = BTreeMap::new();
    for path in known.iter().chain(unseen.into_iter().map(|(_, path)| path)) {
        let Some(stamp) = files.get(path) else { continue };
        let Some(rest) = room.checked_sub(stamp.length) else {
            continue;
        };
        let read = || match workspace.path_state_and_content(path) {
            Ok((PathState::File(version), Some(bytes))) => Some((version, bytes)),
            Ok(_) | Err(_) => None,
        };
        if let Some(content) = cache.content(path, *stamp, read) {
            room = rest;
            contents.insert(path.clone(), content);
        }
    }
    cache.retain(&contents);
    contents
}

/// Adds versions and diffs to changes.
struct ChangeReader<'a> {
    workspace: Workspace,
    contents: &'a BTreeMap<String, KnownContent>,
    content_store: Option<&'a dyn ContentStore>,
    deadline: Option<Instant>,
    bytes_to_read: u64,
    bytes_of_diffs: usize,
}

impl ChangeReader<'_> {
    /// Adds the versions and the diff to the change of a file. Returns false if the content did not change.
    fn complete(&mut self, change: &mut StateChange, files: &BTreeMap<String, Stamp>) -> bool {
        let Some(path) = change.path().map(str::to_owned) else {
            return true;
        };
        let new = files.get(&path).and_then(|stamp| self.read(&path, stamp));
        let old = self.contents.get(&path);
        if let (Some(old), Some((new, _))) = (old, &new)
            && old.version == *new
        {
            return false;
        }
        if let (Some(old), Some(store)) = (old, self.content_store) {
            // If this fails, the file cannot be restored, which an undo reports.
            let _ = store.record(&path, &old.version, &old.bytes);
        }
        let old_version = old.map(|old| old.version.clone());
        let new_version = new.as_ref().map(|(version, _)| version.clone());
        let new_bytes = new.as_ref().map(|(_, bytes)| bytes.as_slice());
        match change {
            StateChange::FileCreated { after, .. } => *after = new_version,
            StateChange::FileEdited {
                diff, before, after, ..
            } => {
                (*before, *after) = (old_version, new_version);
                if new_bytes.is_some() {
                    *diff = self.diff(&path, new_bytes);
                }
            }
            StateChange::FileDeleted { diff, before, .. } => {
                *before = old_version;
                *diff = self.diff(&path, None);
            }
            StateChange::FileMoved { .. }
            | StateChange::ProcessExited { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => {}
        }
        true
    }

    /// Reads a file after the command; `None` if it is too large, or if there is no time for it.
    fn read(&mut self, path: &str, stamp: &Stamp) -> Option<(FileVersion, Vec<u8>)> {
        let rest = self.bytes_to_read.checked_sub(stamp.length)?;
        if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return None;
        }
        match self.workspace.path_state_and_content(path) {
            Ok((PathState::File(version), Some(bytes))) => {
                self.bytes_to_read = rest;
                Some((version, bytes))
            }
            Ok(_) | Err(_) => None,
        }
    }

    /// Returns the diff from the content before the command, if that content is known and the size limit of
    /// the diffs is not reached.
    fn diff(&mut self, path: &str, after: Option<&[u8]>) -> Option<String> {
        let before = self.contents.get(path)?;
        let diff = unified_diff_of_bytes(path, Some(&before.bytes), after)?;
        self.bytes_of_diffs = self.bytes_of_diffs.checked_sub(diff.len())?;
        Some(diff)
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
            files.insert(path, Stamp::new(&metadata));
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
    is_known: impl Fn(&str) -> bool,
) -> WorkspaceChanges {
    // Where the content is known, a change of metadata is enough to compare the contents.
    let differs = |path: &str, before: &Stamp, after: &Stamp| {
        before.differs_in_content(after) || (before != after && is_known(path))
    };
    // A file for which the command has added an ignore rule is missing in `after` although it still exists.
    let is_gone = |path: &str| root.join(path).symlink_metadata().is_err();
    let mut changed: Vec<(&String, StateChange)> = Vec::new();
    for (path, stamp) in after {
        let change = match before.get(path) {
            None => created(path),
            Some(before) if differs(path, before, stamp) => edited(path),
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
    fn paor_10_seen_files_are_read_first_and_then_the_smallest_ones() {
        let root = TempDir::new().unwrap();
        let held = usize::try_from(MAX_HELD_BYTES).unwrap();
        let unseen = usize::try_from(MAX_UNSEEN_BYTES).unwrap();
        for (name, length) in [
            ("big", unseen + 1),
            ("large", unseen),
            ("seen", held - 5),
            ("small", 5),
        ] {
            std::fs::write(root.path().join(name), vec![b'a'; length]).unwrap();
        }
        let caches = ContentCaches::default();
        let read = |known: &BTreeSet<String>| {
            let snapshot = WorkspaceSnapshot::take(root.path(), known, &caches);
            snapshot.contents.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(read(&BTreeSet::new()), ["large", "small"]);
        assert_eq!(read(&BTreeSet::from(["seen".to_owned()])), ["seen", "small"]);
    }

    /// Waits until files that change have a later time than now: the clocks of file systems have steps.
    fn until_a_later_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let changed = || {
            std::fs::write(file.path(), "").unwrap();
            let metadata = std::fs::metadata(file.path()).unwrap();
            (metadata.ctime(), metadata.ctime_nsec())
        };
        let now = changed();
        while changed() == now {}
    }

    #[test]
    fn paor_10_a_change_that_keeps_length_and_modification_time_is_detected() {
        let root = TempDir::new().unwrap();
        let path = root.path().join("a");
        std::fs::write(&path, "one\n").unwrap();
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        for (content, edits) in [("two\n", 1), ("two\n", 0), ("one\n", 1)] {
            let before = WorkspaceSnapshot::take(root.path(), &BTreeSet::new(), &ContentCaches::default());
            until_a_later_time();
            std::fs::write(&path, content).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(modified).unwrap();
            let changed = before.compare(root.path(), None, None);
            assert_eq!(changed.changes.len(), edits, "{content:?}: {:?}", changed.changes);
        }
    }

    #[test]
    fn paor_10_only_changed_files_are_read_again_before_a_command() {
        let root = TempDir::new().unwrap();
        for number in 0..3 {
            std::fs::write(root.path().join(number.to_string()), "same\n").unwrap();
        }
        let files = scan(root.path(), MAX_FILES, None).unwrap();
        let workspace = Workspace::open(root.path()).unwrap();
        let mut cache = ContentCache::new(std::time::Duration::ZERO);
        let mut take = |files: &BTreeMap<String, Stamp>| {
            let contents = read_contents(files, &workspace, &BTreeSet::new(), &mut cache);
            assert_eq!(contents.len(), 3);
            std::mem::take(&mut cache.files_read)
        };
        assert_eq!(take(&files), 3);
        assert_eq!(take(&files), 0);
        std::fs::write(root.path().join("1"), "another\n").unwrap();
        let files = scan(root.path(), MAX_FILES, None).unwrap();
        assert_eq!(take(&files), 1);
    }

    /// Prints how long it takes to know the contents of a large workspace:
    /// `cargo test -p dirigent-tools contents_of_a_large_workspace -- --ignored --nocapture`.
    #[test]
    #[ignore = "measures time"]
    fn contents_of_a_large_workspace() {
        let root = TempDir::new().unwrap();
        for number in 0..MAX_FILES {
            let folder = root.path().join(format!("{}", number / 100));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(format!("{number}.txt")), "text\n".repeat(200)).unwrap();
        }
        let workspace = Workspace::open(root.path()).unwrap();
        let mut cache = ContentCache::new(std::time::Duration::ZERO);
        for _ in 0..5 {
            let begin = Instant::now();
            let files = scan(root.path(), MAX_FILES, None).unwrap();
            let scanned = begin.elapsed();
            let contents = read_contents(&files, &workspace, &BTreeSet::new(), &mut cache);
            let read = begin.elapsed() - scanned;
            let (of, files_read) = (contents.len(), std::mem::take(&mut cache.files_read));
            println!(
                "{} files: scan {scanned:?}; contents of {of} files {read:?}, {files_read} read",
                files.len()
            );
        }
    }

    #[test]
    fn lists_the_first_of_many_changes_and_counts_the_others() {
        let root = TempDir::new().unwrap();
        let before = WorkspaceSnapshot::take(root.path(), &BTreeSet::new(), &ContentCaches::default());
        for number in 0..205 {
            std::fs::write(root.path().join(format!("{number:03}")), "").unwrap();
        }
        let changed = before.compare(root.path(), None, None);
        assert_eq!(changed.changes.len(), 200);
        assert!(
            matches!(&changed.changes[0], StateChange::FileCreated { path, after: Some(_), .. } if path == "000")
        );
        assert_eq!(changed.omitted, Some(5));
    }
}
