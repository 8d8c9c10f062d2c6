//! The user's repository: creates and removes its worktrees for runs. [`merge`](super::merge) merges their changes into the user's folder.
//!
//! As in the `git` tool, git runs none of the programs that a repository can name: no hook, filter or driver.
//! So a worktree contains the files that a filter would convert, such as Git LFS files, exactly as the
//! repository stores them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tokio_util::sync::CancellationToken;

use super::error::{GitError, GitRunError};
use super::linked::{LinkedRepository, is_repository};
use super::process::Git;
use crate::removal::remove;
use crate::sandbox::Confinement;

/// The time after which git is killed when it checks out, compares or applies a whole working tree.
pub(super) const LONG_TIMEOUT: Duration = Duration::from_secs(600);

/// A git repository with a working tree.
#[derive(Clone, Debug)]
pub struct Repository {
    /// The root of the working tree.
    pub(super) root: PathBuf,
    /// The repository's folder, such as `.git` of the root.
    pub(super) common: PathBuf,
    confinement: Confinement,
}

/// Why a repository, or a worktree of it, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepositoryError {
    /// The folder is not in a git repository.
    #[error("{} is not in a git repository, so it cannot have a worktree: run `git init` and commit", .0.display())]
    NoRepository(PathBuf),
    /// The folder is in a bare repository.
    #[error("{} is a bare git repository, which has no working tree: give a folder of a clone", .0.display())]
    Bare(PathBuf),
    /// The `.git` of the folder points to a repository that does not know this worktree.
    #[error(
        "{} is a file or link to a repository without this worktree, such as that of a submodule: give a folder of the repository itself",
        .0.display()
    )]
    Unlinked(PathBuf),
    /// The repository has no commit.
    #[error("the git repository {} has no commit yet, so it cannot have a worktree: commit first", .0.display())]
    NoCommit(PathBuf),
    /// The run's changes conflict with changes in the user's folder. Nothing was changed in this folder.
    #[error("nothing was applied: {} changed in conflicting ways since the run started", .paths.join(", "))]
    Conflicts {
        /// The files with conflicts, relative to the root of the repository.
        paths: Vec<String>,
    },
    /// A file or folder cannot be read or written.
    #[error("cannot access {}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Git is not installed, cannot be confined, or failed.
    #[error("{0}")]
    Git(String),
}

impl From<GitError> for RepositoryError {
    fn from(error: GitError) -> Self {
        RepositoryError::Git(error.to_string())
    }
}

impl From<GitRunError> for RepositoryError {
    fn from(error: GitRunError) -> Self {
        RepositoryError::Git(error.to_string())
    }
}

impl Repository {
    /// Finds the repository of a folder. Links in the folder's path must be resolved. Blocks.
    ///
    /// # Errors
    /// [`RepositoryError::NoRepository`], [`RepositoryError::Bare`] and [`RepositoryError::Unlinked`].
    pub fn find(folder: &Path, confinement: Confinement) -> Result<Repository, RepositoryError> {
        for root in folder.ancestors() {
            let git = root.join(".git");
            let Ok(metadata) = fs::symlink_metadata(&git) else {
                if is_repository(root) {
                    return Err(RepositoryError::Bare(root.to_owned()));
                }
                continue;
            };
            let common = if metadata.is_dir() {
                git
            } else {
                let linked = LinkedRepository::find(root);
                linked.ok_or(RepositoryError::Unlinked(git))?.common
            };
            return Ok(Repository {
                root: root.to_owned(),
                common,
                confinement,
            });
        }
        Err(RepositoryError::NoRepository(folder.to_owned()))
    }

    /// Returns the root of the working tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the id of the commit that is checked out.
    ///
    /// # Errors
    /// [`RepositoryError::NoCommit`] and [`RepositoryError::Git`].
    pub async fn head(&self) -> Result<String, RepositoryError> {
        let cancel = CancellationToken::new();
        let words = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        match self.git(&self.root, &cancel)?.words(&words, &[]).await {
            Err(GitRunError::Exited { code: Some(1), .. }) => {
                Err(RepositoryError::NoCommit(self.root.clone()))
            }
            head => Ok(head?),
        }
    }

    /// Returns the number of files that differ from the commit that is checked out. Counts a new folder as one file.
    ///
    /// # Errors
    /// [`RepositoryError::Git`].
    pub async fn uncommitted(&self) -> Result<u64, RepositoryError> {
        let cancel = CancellationToken::new();
        let git = self.git(&self.root, &cancel)?;
        let filters = git.filters().await?;
        let words = [
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--untracked-files=normal",
            "--ignore-submodules=all",
        ];
        let output = git.run(words.map(str::to_owned).into(), &filters).await?;
        Ok(output.bytes.iter().filter(|byte| **byte == 0).count() as u64)
    }

    /// Creates a worktree without a branch in a new folder, whose parent must exist, and checks out a commit.
    ///
    /// # Errors
    /// [`RepositoryError::Io`] and [`RepositoryError::Git`]. In these cases, no worktree remains.
    pub async fn add_worktree(&self, folder: &Path, commit: &str) -> Result<(), RepositoryError> {
        let made = match fs::create_dir(folder) {
            Ok(()) => self.check_out(folder, commit).await,
            Err(error) => return Err(io_error(folder, error)),
        };
        if made.is_err() {
            let _ = Self::remove_worktree(folder);
        }
        made
    }

    async fn check_out(&self, folder: &Path, commit: &str) -> Result<(), RepositoryError> {
        let cancel = CancellationToken::new();
        let name = folder
            .to_str()
            .ok_or_else(|| RepositoryError::Git("the worktree's path is not Unicode".to_owned()))?;
        let adding = self.git(&self.root, &cancel)?;
        let filters = adding.filters().await?;
        // The checkout is a separate command, to ensure that the settings that disable filters apply to it.
        let add = [
            "worktree",
            "add",
            "--quiet",
            "--detach",
            "--no-checkout",
            name,
            commit,
        ];
        let adding = adding.write(&self.common).write(folder);
        adding.words(&add, &filters).await?;
        let reset = ["reset", "--quiet", "--hard", "--no-recurse-submodules", commit];
        let checking_out = self.git(folder, &cancel)?.write(&self.common).write(folder);
        checking_out.words(&reset, &filters).await?;
        Ok(())
    }

    /// Removes a worktree with everything in it, and the repository's data about it. Also works if the repository no longer exists, or if the
    /// worktree was only partly created or removed. Blocks.
    ///
    /// # Errors
    /// [`RepositoryError::Io`].
    pub fn remove_worktree(folder: &Path) -> Result<(), RepositoryError> {
        // The repository's data is removed first, so that an interrupted removal leaves only the folder.
        if let Some(LinkedRepository { administration, .. }) = LinkedRepository::find(folder) {
            remove_folder(&administration)?;
        }
        remove_folder(folder)
    }

    pub(super) fn git<'a>(
        &self,
        folder: &Path,
        cancel: &'a CancellationToken,
    ) -> Result<Git<'a>, GitRunError> {
        let git = Git::new(folder.to_owned(), self.confinement, cancel)?;
        // The repository's settings can include files of the user's working tree.
        Ok(git.read(&self.root).timeout(LONG_TIMEOUT))
    }
}

fn remove_folder(folder: &Path) -> Result<(), RepositoryError> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Ok(());
    };
    let removed = Dir::open_ambient_dir(parent, ambient_authority())
        .and_then(|parent| remove(&parent, Path::new(name)));
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(folder, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(super) fn io_error(path: &Path, error: io::Error) -> RepositoryError {
    RepositoryError::Io {
        path: path.to_owned(),
        error,
    }
}
