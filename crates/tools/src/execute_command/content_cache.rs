//! A cache of the contents that snapshots of workspaces hold, so that a command in an unchanged workspace reads no file.
//!
//! A content is valid as long as the file's metadata is the same, which includes the time of the last change of its inode. Like git's index, the
//! cache does not trust a file that changed shortly before it was read: such a file may have changed once more within the
//! resolution of the clock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dirigent_core::tool::FileVersion;

use super::workspace_snapshot::Stamp;

/// Maximum number of workspaces whose contents are cached. Each has at most as many contents as a snapshot holds.
const MAX_WORKSPACES: usize = 4;
/// How long before a read the last change of a file must have happened. The coarsest clocks of file systems have steps of 2 s.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

/// The version and the content of a file.
#[derive(Clone, Debug)]
pub(super) struct KnownContent {
    pub(super) version: FileVersion,
    pub(super) bytes: Arc<[u8]>,
}

/// The contents of the files of a workspace that its last snapshot held.
#[derive(Debug)]
pub(super) struct ContentCache {
    files: BTreeMap<String, (Stamp, KnownContent)>,
    /// How long before a read the last change of a file must have happened.
    settled_after: Duration,
    /// The number of files that were read.
    pub(super) files_read: usize,
}

impl Default for ContentCache {
    fn default() -> Self {
        ContentCache::new(SETTLED_AFTER)
    }
}

impl ContentCache {
    pub(super) fn new(settled_after: Duration) -> Self {
        ContentCache {
            files: BTreeMap::new(),
            settled_after,
            files_read: 0,
        }
    }

    /// Returns the content of a file with this metadata, and reads it if it is not in the cache. `None` if it cannot be read.
    pub(super) fn content(
        &mut self,
        path: &str,
        stamp: Stamp,
        read: impl FnOnce() -> Option<(FileVersion, Vec<u8>)>,
    ) -> Option<KnownContent> {
        if let Some((known, content)) = self.files.get(path)
            && *known == stamp
        {
            return Some(content.clone());
        }
        let is_settled = self.is_settled(stamp);
        self.files_read += 1;
        let content = read().map(|(version, bytes)| KnownContent {
            version,
            bytes: bytes.into(),
        });
        match &content {
            Some(content) if is_settled => {
                self.files.insert(path.to_owned(), (stamp, content.clone()));
            }
            Some(_) | None => {
                self.files.remove(path);
            }
        }
        content
    }

    /// Drops the contents of all other files.
    pub(super) fn retain(&mut self, contents: &BTreeMap<String, KnownContent>) {
        self.files.retain(|path, _| contents.contains_key(path));
    }

    fn is_settled(&self, stamp: Stamp) -> bool {
        let (seconds, nanoseconds) = stamp.changed;
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds)) else {
            return false;
        };
        let changed = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        SystemTime::now()
            .duration_since(changed)
            .is_ok_and(|ago| ago >= self.settled_after)
    }
}

/// The caches of workspaces, the last used one last. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ContentCaches(Arc<Mutex<Vec<SharedCache>>>);

/// The root of a workspace with its cache.
type SharedCache = (PathBuf, Arc<Mutex<ContentCache>>);

impl ContentCaches {
    /// Calls a function with the cache of a workspace. Snapshots of one workspace wait for each other.
    pub(super) fn with_cache<T>(&self, root: &Path, call: impl FnOnce(&mut ContentCache) -> T) -> T {
        let cache = {
            let mut caches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let known = caches.iter().position(|(path, _)| path == root);
            let cache = match known {
                Some(at) => caches.remove(at).1,
                None => Arc::default(),
            };
            let more = (caches.len() + 1).saturating_sub(MAX_WORKSPACES);
            caches.drain(..more);
            caches.push((root.to_owned(), cache.clone()));
            cache
        };
        let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        call(&mut cache)
    }
}
