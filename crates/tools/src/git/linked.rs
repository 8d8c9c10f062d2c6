//! Linked git worktrees: folders whose `.git` is a file that points to the repository.
//!
//! The content of a workspace is not trusted, because its `.git` file could point to any folder, such as the
//! folder of the user's keys, and the sandbox would make that folder readable. So the repository must also
//! name the worktree: `<repository>/worktrees/NAME/gitdir` contains the path of the worktree's `.git`, and
//! only a process that can write to the repository can have written it.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository of a linked worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkedRepository {
    /// The repository's folder, such as `/home/me/project/.git`, with links resolved.
    pub(crate) common: PathBuf,
    /// The repository's own data about this worktree: a folder in `worktrees/` of `common`.
    pub(crate) administration: PathBuf,
}

impl LinkedRepository {
    /// Returns the repository of the worktree with this root; `None` if the folder is not a linked worktree, or the repository does not
    /// know it. Blocks.
    pub(crate) fn find(root: &Path) -> Option<LinkedRepository> {
        let root = root.canonicalize().ok()?;
        let link = root.join(".git");
        if !fs::symlink_metadata(&link).ok()?.is_file() {
            return None;
        }
        let text = fs::read_to_string(&link).ok()?;
        let target = text.strip_prefix("gitdir:")?.trim();
        let administration = root.join(target).canonicalize().ok()?;
        let worktrees = administration.parent()?;
        if worktrees.file_name()? != "worktrees" || administration.starts_with(&root) {
            return None;
        }
        let back = fs::read_to_string(administration.join("gitdir")).ok()?;
        let back = administration.join(back.trim_end_matches('\n'));
        if back.parent()?.canonicalize().ok()? != root || back.file_name()? != ".git" {
            return None;
        }
        let common = worktrees.parent()?.to_owned();
        is_repository(&common).then_some(LinkedRepository {
            common,
            administration,
        })
    }
}

/// Returns true if a folder looks like a repository, such as `.git` or a bare one.
pub(super) fn is_repository(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}
