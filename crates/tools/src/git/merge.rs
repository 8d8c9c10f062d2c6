//! Merges the changes of a worktree into the user's folder.
//!
//! The changes are all changes to the working tree, made by a tool, a command or the user. Git stores its index and new objects in a
//! temporary folder, so that nothing is written to the repository.
//!
//! The changes are always merged by git, with the commit of the worktree as the common ancestor of the user's
//! files and the run's files. So a change that the user's files already contain is not made again. A plain
//! patch could be applied a second time wherever its context repeats. Only a merge without conflicts is
//! applied, as a patch against exactly the user's files, so that either all files are changed or none.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::arguments::diff_options;
use super::error::GitRunError;
use super::process::Git;
use super::repository::{Repository, RepositoryError, io_error};

/// The changes of a worktree since its commit. Stored in a temporary folder, which is removed on drop.
#[derive(Clone, Debug)]
pub struct WorktreeChanges {
    folder: Arc<TempDir>,
    commit: String,
    tree: String,
    paths: Vec<String>,
}

impl WorktreeChanges {
    /// Returns the changed files, relative to the root of the repository.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Returns true if no file changed.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Reads the changes as a diff for `git apply`, with binary files. Blocks.
    ///
    /// # Errors
    /// If something else removed the temporary folder.
    pub fn diff(&self) -> io::Result<Vec<u8>> {
        fs::read(self.patch())
    }

    fn patch(&self) -> PathBuf {
        self.folder.path().join("changes.patch")
    }
}

impl Repository {
    /// Compares a worktree of the repository with its commit. Ignored files are left out, except those in `also`, which are relative to the
    /// worktree.
    ///
    /// # Errors
    /// [`RepositoryError::Io`] and [`RepositoryError::Git`].
    pub async fn worktree_changes(
        &self,
        worktree: &Path,
        commit: &str,
        also: &[String],
    ) -> Result<WorktreeChanges, RepositoryError> {
        let cancel = CancellationToken::new();
        let folder = temporary_folder()?;
        let git = self.with_own_objects(self.git(worktree, &cancel)?, folder.path());
        let git = git.variable("GIT_INDEX_FILE", folder.path().join("index"));
        let filters = git.filters().await?;
        git.words(&["read-tree", commit], &filters).await?;
        git.words(&["add", "--all"], &filters).await?;
        let is_file = |path: &&String| {
            fs::symlink_metadata(worktree.join(path)).is_ok_and(|metadata| metadata.is_file())
        };
        let also: Vec<&String> = also.iter().filter(is_file).collect();
        if !also.is_empty() {
            let list = path_list(folder.path(), "also", &also)?;
            git.words(&["add", "--force", &list, "--pathspec-file-nul"], &filters)
                .await?;
        }
        let tree = git.words(&["write-tree"], &filters).await?;
        let mut changes = WorktreeChanges {
            folder: Arc::new(folder),
            commit: commit.to_owned(),
            tree,
            paths: Vec::new(),
        };
        write_diff(&git, &filters, commit, &changes.tree, &changes.patch()).await?;
        let names = [
            "diff",
            "--name-only",
            "-z",
            "--no-renames",
            "--ignore-submodules=all",
        ];
        let names = [&names[..], &[commit, &changes.tree]].concat();
        changes.paths = split(&git.words(&names, &filters).await?);
        Ok(changes)
    }

    /// Applies the changes of a worktree to the repository's working tree, without committing them. Changes
    /// that the working tree already contains are skipped.
    ///
    /// # Errors
    /// [`RepositoryError::Conflicts`], [`RepositoryError::Io`] and [`RepositoryError::Git`]. In these cases, nothing is changed, unless git
    /// failed while it wrote the files.
    pub async fn apply(&self, changes: &WorktreeChanges) -> Result<(), RepositoryError> {
        let merged = changes.folder.path().join("merged.patch");
        self.merge(changes, &merged).await?;
        if fs::metadata(&merged)
            .map_err(|error| io_error(&merged, error))?
            .len()
            == 0
        {
            return Ok(());
        }
        let cancel = CancellationToken::new();
        let git = self.git(&self.root, &cancel)?.read(changes.folder.path());
        let filters = git.filters().await?;
        let patch = merged.to_string_lossy().into_owned();
        let check = ["apply", "--whitespace=nowarn", "--check", &patch];
        match git.words(&check, &filters).await {
            // The user's files changed after the merge.
            Err(GitRunError::Exited { code: Some(1), .. }) => {
                return Err(RepositoryError::Conflicts {
                    paths: changes.paths.clone(),
                });
            }
            checked => checked?,
        };
        let apply = ["apply", "--whitespace=nowarn", &patch];
        git.write(&self.root).words(&apply, &filters).await?;
        Ok(())
    }

    /// Merges the changes with the user's files, and writes the changes to be made to these files as a patch.
    async fn merge(&self, changes: &WorktreeChanges, patch: &Path) -> Result<(), RepositoryError> {
        let cancel = CancellationToken::new();
        let temporary = changes.folder.path();
        let git = self.with_own_objects(self.git(&self.root, &cancel)?, temporary);
        let git = git
            .variable("GIT_INDEX_FILE", temporary.join("index-of-user"))
            .variable("GIT_AUTHOR_NAME", "dirigent")
            .variable("GIT_AUTHOR_EMAIL", "dirigent")
            .variable("GIT_COMMITTER_NAME", "dirigent")
            .variable("GIT_COMMITTER_EMAIL", "dirigent");
        let filters = git.filters().await?;
        let of_user = self.tree_of_user(&git, &filters, changes).await?;
        let commit = async |tree: &str| {
            let words = ["commit-tree", tree, "-p", &changes.commit, "-m", "merge"];
            git.words(&words, &filters).await
        };
        let (ours, theirs) = (commit(&of_user).await?, commit(&changes.tree).await?);
        // An attribute can name a merge driver, which is a program, so the merge uses an empty tree of attributes.
        let empty = git
            .words(&["hash-object", "-w", "-t", "tree", "/dev/null"], &filters)
            .await?;
        let merging = git.clone().variable("GIT_ATTR_SOURCE", empty);
        let options = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z"];
        let merge = [&options[..], &[&ours, &theirs]].concat();
        let merged = match merging.words(&merge, &filters).await {
            Err(GitRunError::Exited {
                code: Some(1),
                output,
                ..
            }) => {
                // The first field is the id of a tree with conflict markers.
                let paths = split(&String::from_utf8_lossy(&output)).into_iter().skip(1);
                return Err(RepositoryError::Conflicts {
                    paths: paths.collect(),
                });
            }
            merged => merged?,
        };
        let merged = merged.trim_end_matches('\0');
        write_diff(&git, &filters, &of_user, merged, patch).await
    }

    /// Stores a tree that contains the user's versions of the changed files and, for all other files, the
    /// versions in the user's `HEAD`. Returns the tree's id.
    async fn tree_of_user(
        &self,
        git: &Git<'_>,
        filters: &[OsString],
        changes: &WorktreeChanges,
    ) -> Result<String, RepositoryError> {
        let temporary = changes.folder.path();
        git.words(&["read-tree", "HEAD"], filters).await?;
        let exists = |path: &&String| fs::symlink_metadata(self.root.join(path)).is_ok();
        let (existing, deleted): (Vec<&String>, Vec<&String>) = changes.paths.iter().partition(exists);
        if !existing.is_empty() {
            let list = path_list(temporary, "existing", &existing)?;
            git.words(&["add", "--force", &list, "--pathspec-file-nul"], filters)
                .await?;
        }
        if !deleted.is_empty() {
            let list = path_list(temporary, "deleted", &deleted)?;
            let remove = ["rm", "--quiet", "--cached", "-r", "--ignore-unmatch"];
            let remove = [&remove[..], &[&list, "--pathspec-file-nul"]].concat();
            git.words(&remove, filters).await?;
        }
        Ok(git.words(&["write-tree"], filters).await?)
    }

    /// Lets git write new objects to `temporary`, and read the repository's objects.
    fn with_own_objects<'a>(&self, git: Git<'a>, temporary: &Path) -> Git<'a> {
        let objects = self.common.join("objects").to_string_lossy().into_owned();
        let objects = objects.replace('\\', "\\\\").replace('"', "\\\"");
        git.read(&self.common)
            .write(temporary)
            .variable("GIT_OBJECT_DIRECTORY", temporary.join("objects"))
            .variable("GIT_ALTERNATE_OBJECT_DIRECTORIES", format!("\"{objects}\""))
    }
}

/// Writes the difference between two trees or commits to a file, in a form that `git apply` accepts.
async fn write_diff(
    git: &Git<'_>,
    filters: &[OsString],
    from: &str,
    to: &str,
    file: &Path,
) -> Result<(), RepositoryError> {
    let output = format!("--output={}", file.display());
    let mut words = vec!["diff".to_owned()];
    words.extend(diff_options());
    words.extend(["--binary", "--full-index", "--no-renames", &output, from, to].map(str::to_owned));
    git.run(words, filters).await?;
    Ok(())
}

/// Writes paths to a file, and returns the option that names it.
fn path_list(folder: &Path, name: &str, paths: &[&String]) -> Result<String, RepositoryError> {
    let file = folder.join(name);
    let text: Vec<u8> = paths
        .iter()
        .flat_map(|path| [path.as_bytes(), b"\0"].concat())
        .collect();
    fs::write(&file, text).map_err(|error| io_error(&file, error))?;
    Ok(format!("--pathspec-from-file={}", file.display()))
}

fn temporary_folder() -> Result<TempDir, RepositoryError> {
    let made = tempfile::Builder::new().prefix("dirigent-").tempdir();
    let folder = made.map_err(|error| io_error(&std::env::temp_dir(), error))?;
    let objects = folder.path().join("objects");
    fs::create_dir(&objects).map_err(|error| io_error(&objects, error))?;
    Ok(folder)
}

fn split(names: &str) -> Vec<String> {
    names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}
