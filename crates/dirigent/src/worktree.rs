//! Git worktrees of runs: created when a run starts, merged into the user's folder, and removed.
//!
//! A worktree is a folder in `<journal>-worktrees`, named after the run for which it was made. The run's first journal entry contains the
//! worktree's path and the commit that was checked out. If no run of the journal works in a worktree, because its process was killed
//! before the run began or because the run was deleted, the worktree is removed when another one is created or the journal is pruned.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use dirigent_core::end_reason::EndReason;
use dirigent_core::id::RunId;
use dirigent_core::spec::Worktree;
use dirigent_runtime::{RuntimeError, read_run};
use dirigent_store::{Journal, RunClaim, RunFilter, RunRecord, RunState, StoreError};
use dirigent_tools::{Confinement, Repository, RepositoryError, WorktreeChanges};

use crate::blocking::blocking;
use crate::first_spec::first_spec;
use crate::start_queue::StartQueue;
use crate::{Dirigent, DirigentError};

/// A newly created worktree whose run has not begun.
pub(crate) struct MadeWorktree {
    pub(crate) worktree: Worktree,
    /// The folder in which the run will work.
    pub(crate) workspace: String,
    /// Keeps other processes from removing the worktree as unused before a run works in it.
    _lock: File,
}

/// The worktree of a run, from [`Dirigent::worktree`].
#[derive(Clone, Debug)]
pub struct RunWorktree {
    journal: Journal,
    starts: StartQueue,
    confinement: Confinement,
    run: RunId,
    worktree: Worktree,
    /// The files that the tools of its runs changed, relative to the worktree.
    changed: Vec<String>,
}

/// The result of [`RunWorktree::apply`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedWorktree {
    /// The files that the run changed, relative to the root of the repository.
    pub paths: Vec<String>,
    /// True if the worktree was removed, because no run continues in it.
    pub is_removed: bool,
}

impl MadeWorktree {
    /// Removes the worktree, because the run did not start.
    pub(crate) async fn discard(self) {
        discard(PathBuf::from(self.worktree.folder)).await;
    }
}

/// Removes the worktree of a run that did not start. If this fails, the next call of `remove_unused_worktrees` removes the rest.
async fn discard(folder: PathBuf) {
    let _ = blocking(move || Repository::remove_worktree(&folder)).await;
}

impl Dirigent {
    /// Creates a worktree for a new run, at the commit that is checked out in the repository of `origin`. If starts are cancelled, the
    /// worktree is removed again.
    pub(crate) async fn make_worktree(
        &self,
        run: RunId,
        origin: String,
    ) -> Result<MadeWorktree, DirigentError> {
        let folder = worktrees_folder(&self.journal).join(run.to_string());
        let making = self.check_out_worktree(folder.clone(), origin);
        let made = self.starts.unless_cancelled(making).await;
        if let Err(DirigentError::StartCancelled) = made {
            discard(folder).await;
        }
        made
    }

    async fn check_out_worktree(
        &self,
        folder: PathBuf,
        origin: String,
    ) -> Result<MadeWorktree, DirigentError> {
        if let Err(error) = self.remove_unused_worktrees().await {
            tracing::warn!(%error, "unused worktrees cannot be removed");
        }
        let (all, confinement, path) = (
            worktrees_folder(&self.journal),
            self.confinement,
            PathBuf::from(&origin),
        );
        let (repository, lock) = blocking(move || {
            let repository = Repository::find(&path, confinement)?;
            Ok::<_, RepositoryError>((repository, lock_for_making(&all)?))
        })
        .await?;
        let commit = repository.head().await?;
        let uncommitted = repository.uncommitted().await?;
        repository.add_worktree(&folder, &commit).await?;
        let below = Path::new(&origin)
            .strip_prefix(repository.root())
            .unwrap_or(Path::new(""));
        let workspace: PathBuf = folder.join(below).components().collect();
        let made = MadeWorktree {
            workspace: workspace.to_string_lossy().into_owned(),
            worktree: Worktree {
                origin: origin.clone(),
                folder: folder.to_string_lossy().into_owned(),
                commit,
                uncommitted,
            },
            _lock: lock,
        };
        if workspace.is_dir() {
            return Ok(made);
        }
        made.discard().await;
        Err(DirigentError::Workspace {
            path: origin.into(),
            reason: "it is not in the last commit, so a worktree would not contain it: commit it, or give a folder above it"
                .to_owned(),
        })
    }

    /// Returns the worktree of a run; `None` if the run has none, or it was removed.
    ///
    /// # Errors
    /// An unknown run, or an error of the journal.
    pub async fn worktree(&self, run: RunId) -> Result<Option<RunWorktree>, DirigentError> {
        let record = self.record(run).await?;
        if self.worktree_folder(&record).is_none() {
            return Ok(None);
        }
        let (view, _) = self.read(run).await?;
        let spec = view.run().spec();
        let Some(worktree) = spec.worktree.as_deref().cloned() else {
            return Ok(None);
        };
        let folder = worktree.folder.clone();
        let changed = self
            .reading(move |journal| changed_within(journal, Path::new(&folder)))
            .await?;
        Ok(Some(RunWorktree {
            journal: self.journal.clone(),
            starts: self.starts.clone(),
            confinement: self.confinement,
            run,
            worktree,
            changed,
        }))
    }

    /// Returns the worktree in which a run works, without reading the run's entries; `None` if it works in another folder, or the worktree was
    /// removed.
    pub fn worktree_folder(&self, record: &RunRecord) -> Option<PathBuf> {
        let all = worktrees_folder(&self.journal);
        let below = Path::new(&record.workspace).strip_prefix(&all).ok()?;
        let folder = all.join(below.components().next()?);
        folder.is_dir().then_some(folder)
    }

    /// Checks, before a run is resumed, that its worktree still exists. If the caller holds the start lock, no other process removes the
    /// worktree before the run is active.
    pub(crate) async fn check_worktree(&self, run: RunId, record: &RunRecord) -> Result<(), DirigentError> {
        if !Path::new(&record.workspace).starts_with(worktrees_folder(&self.journal)) {
            return Ok(());
        }
        let Err(is_gone) = self.check_workspace(record).await else {
            return Ok(());
        };
        // For a run that cannot continue, resuming fails with a better error.
        let can_continue = self
            .read(run)
            .await
            .is_ok_and(|(view, _)| view.run().end().is_none_or(EndReason::is_resumable));
        if can_continue { Err(is_gone) } else { Ok(()) }
    }

    /// Checks that the folder in which a run works still exists.
    pub(crate) async fn check_workspace(&self, record: &RunRecord) -> Result<(), DirigentError> {
        let (path, all) = (PathBuf::from(&record.workspace), worktrees_folder(&self.journal));
        blocking(move || {
            if path.is_dir() {
                return Ok(());
            }
            let reason = if path.starts_with(&all) {
                "the worktree of the run was removed: start a new run with its goal"
            } else {
                "there is no such folder: restore it at this path, or start a new run with the run's goal"
            };
            let reason = reason.to_owned();
            Err(DirigentError::Workspace { path, reason })
        })
        .await
    }

    /// Removes the worktrees in which no run of the journal works. Does nothing while any process creates a worktree.
    pub(crate) async fn remove_unused_worktrees(&self) -> Result<(), DirigentError> {
        self.reading(remove_unused).await
    }
}

impl RunWorktree {
    /// Returns the worktree's folder.
    pub fn folder(&self) -> &Path {
        Path::new(&self.worktree.folder)
    }

    /// Returns the folder that the user named as the workspace. The changes are applied to its repository.
    pub fn origin(&self) -> &Path {
        Path::new(&self.worktree.origin)
    }

    /// Returns the worktree's record: its folder, its origin and the commit that was checked out.
    pub fn worktree(&self) -> &Worktree {
        &self.worktree
    }

    /// Compares the worktree with its commit. The result includes changes made by tools, by commands and by the user. Files that git
    /// ignores are included only if a file tool of the run, or of its forks, changed them.
    ///
    /// # Errors
    /// [`DirigentError::Repository`].
    pub async fn changes(&self) -> Result<WorktreeChanges, DirigentError> {
        let repository = self.repository().await?;
        let (commit, changed) = (&self.worktree.commit, &self.changed);
        Ok(repository
            .worktree_changes(self.folder(), commit, changed)
            .await?)
    }

    /// Applies the changes to the user's repository, without committing them: all of them, or none if they conflict with other changes there.
    /// Then removes the worktree, unless a run can still continue in it.
    ///
    /// # Errors
    /// [`DirigentError::RunActive`] while a process owns the run, or a fork of it that works in the worktree.
    /// [`DirigentError::Repository`], with [`RepositoryError::Conflicts`](crate::RepositoryError::Conflicts) for changes that cannot be
    /// merged. [`DirigentError::StartsBlocked`].
    pub async fn apply(&self) -> Result<AppliedWorktree, DirigentError> {
        let claim = self.claim().await?;
        let changes = self.changes().await?;
        let repository = self.repository().await?;
        repository.apply(&changes).await?;
        Ok(AppliedWorktree {
            paths: changes.paths().to_vec(),
            is_removed: self.release_and_remove_unneeded(Some(claim)).await?,
        })
    }

    /// Claims the run, so that no other process resumes it, and checks that no fork of it works in the worktree.
    async fn claim(&self) -> Result<RunClaim, DirigentError> {
        let lock = self.starts.lock().await?;
        let (journal, folder, run) = (self.journal.clone(), self.folder().to_owned(), self.run);
        blocking(move || {
            let claim = journal.claim(run).map_err(|error| match error {
                StoreError::AlreadyClaimed { run, pid } => DirigentError::RunActive { run, pid },
                error => error.into(),
            })?;
            let mut others = runs_within(&journal, &folder)?;
            others.retain(|other| other.run != run);
            check_inactive(&others)?;
            drop(lock);
            Ok::<_, DirigentError>(claim)
        })
        .await
    }

    /// Removes the worktree, unless a run works in it or can continue there. Returns true if it was removed.
    ///
    /// # Errors
    /// [`DirigentError::Repository`] if it cannot be removed; [`DirigentError::StartsBlocked`]; an error of the journal.
    pub async fn remove_unneeded(&self) -> Result<bool, DirigentError> {
        self.release_and_remove_unneeded(None).await
    }

    async fn release_and_remove_unneeded(&self, claim: Option<RunClaim>) -> Result<bool, DirigentError> {
        // The lock prevents runs from starting in the worktree between the check and the removal.
        let lock = self.starts.lock().await?;
        let (journal, folder) = (self.journal.clone(), self.folder().to_owned());
        blocking(move || {
            drop(claim);
            let runs = runs_within(&journal, &folder)?;
            if runs.iter().any(can_continue) {
                return Ok(false);
            }
            Repository::remove_worktree(&folder)?;
            drop(lock);
            Ok::<_, DirigentError>(true)
        })
        .await
    }

    /// Removes the worktree with its changes, even if its run could continue.
    ///
    /// # Errors
    /// [`DirigentError::RunActive`] while a process owns a run that works in it; [`DirigentError::Repository`] if it cannot be removed;
    /// [`DirigentError::StartsBlocked`].
    pub async fn discard(&self) -> Result<(), DirigentError> {
        // The lock prevents runs from starting in the worktree between the check and the removal.
        let lock = self.starts.lock().await?;
        let (journal, folder) = (self.journal.clone(), self.folder().to_owned());
        blocking(move || {
            check_inactive(&runs_within(&journal, &folder)?)?;
            Repository::remove_worktree(&folder)?;
            drop(lock);
            Ok::<_, DirigentError>(())
        })
        .await
    }

    async fn repository(&self) -> Result<Repository, DirigentError> {
        let (origin, confinement) = (self.origin().to_owned(), self.confinement);
        blocking(move || Ok::<_, DirigentError>(Repository::find(&origin, confinement)?)).await
    }
}

/// Returns the folder that the user named as a run's workspace. For a run in a worktree, this is the folder for which the worktree was
/// created. Blocks.
pub(crate) fn users_folder(journal: &Journal, record: &RunRecord) -> Result<String, StoreError> {
    if Path::new(&record.workspace).starts_with(worktrees_folder(journal))
        && let Some(spec) = first_spec(journal, record.run)?
        && let Some(worktree) = &spec.worktree
    {
        return Ok(worktree.origin.clone());
    }
    Ok(record.workspace.clone())
}

/// The folder of all worktrees of a journal's runs.
pub(crate) fn worktrees_folder(journal: &Journal) -> PathBuf {
    let mut name = journal.path().as_os_str().to_owned();
    name.push("-worktrees");
    PathBuf::from(name)
}

/// Returns the runs that work in a worktree, with their forks.
fn runs_within(journal: &Journal, folder: &Path) -> Result<Vec<RunRecord>, StoreError> {
    // A run of this process that has just ended is released only after its last entries are written, so they are flushed first. A
    // read-only journal has no writer.
    let _ = journal.flush();
    let filter = RunFilter::new()
        .workspace_within(folder.to_string_lossy())
        .limit(usize::MAX);
    Ok(journal.run_page(&filter)?.runs)
}

/// Returns the files that the tools of all runs in a worktree changed: of the run for which it was made, and of its forks.
fn changed_within(journal: &Journal, folder: &Path) -> Result<Vec<String>, DirigentError> {
    let mut changed = BTreeSet::new();
    for record in runs_within(journal, folder)? {
        let view = match read_run(journal, record.run) {
            Ok((view, _)) => view,
            Err(RuntimeError::NeverBegan { .. }) => continue,
            // A damaged fork must not prevent the worktree's changes from being applied.
            Err(error) => {
                tracing::warn!(run = %record.run, %error, "cannot read the run, so git-ignored files that it changed in the worktree cannot be determined");
                continue;
            }
        };
        let below = Path::new(&view.run().spec().workspace).strip_prefix(folder);
        let below = below.unwrap_or(Path::new("")).to_owned();
        let files = view.report().changed.into_iter();
        changed.extend(files.map(|file| below.join(file.path).to_string_lossy().into_owned()));
    }
    Ok(changed.into_iter().collect())
}

/// Returns an error if a process owns one of the runs.
fn check_inactive(runs: &[RunRecord]) -> Result<(), DirigentError> {
    match runs.iter().find_map(|run| Some((run.run, run.owner_pid?))) {
        Some((run, pid)) => Err(DirigentError::RunActive { run, pid }),
        None => Ok(()),
    }
}

fn can_continue(run: &RunRecord) -> bool {
    match RunState::from_record(run) {
        RunState::Running | RunState::Interrupted => true,
        RunState::NeverBegan => false,
        _ => {
            let end = run.status.as_deref().map(serde_json::from_str::<EndReason>);
            end.is_some_and(|end| end.is_ok_and(|end| end.is_resumable()))
        }
    }
}

fn remove_unused(journal: &Journal) -> Result<(), DirigentError> {
    let all = worktrees_folder(journal);
    if !all.is_dir() {
        return Ok(());
    }
    let lock = open_lock(&all)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(io_error(&all, error).into()),
    }
    let entries = fs::read_dir(&all).map_err(|error| io_error(&all, error))?;
    for folder in entries.flatten().map(|entry| entry.path()) {
        let is_worktree = folder
            .file_name()
            .is_some_and(|name| name.to_string_lossy().parse::<RunId>().is_ok());
        if !is_worktree {
            continue;
        }
        let is_used = |run: &RunRecord| RunState::from_record(run) != RunState::NeverBegan;
        if !runs_within(journal, &folder)?.iter().any(is_used) {
            Repository::remove_worktree(&folder)?;
        }
    }
    Ok(())
}

/// Creates the folder of all worktrees, and locks it against the removal of unused worktrees until the returned file is dropped.
fn lock_for_making(all: &Path) -> Result<File, RepositoryError> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(all) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io_error(all, error)),
        Ok(()) | Err(_) => {}
    }
    let lock = open_lock(all)?;
    lock.lock_shared().map_err(|error| io_error(all, error))?;
    Ok(lock)
}

fn open_lock(all: &Path) -> Result<File, RepositoryError> {
    let path = all.join("lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    options.open(&path).map_err(|error| io_error(&path, error))
}

fn io_error(path: &Path, error: io::Error) -> RepositoryError {
    RepositoryError::Io {
        path: path.to_owned(),
        error,
    }
}
