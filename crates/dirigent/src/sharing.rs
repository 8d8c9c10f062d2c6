//! Informs runs about other runs that work in the same folder.
//!
//! The journal records which runs are active and where they work; a run whose process has died is not active. A process looks for other
//! runs and starts its own run while it holds one lock. So if two runs start at the same time, the second run finds the first.

use std::path::{Path, PathBuf};

use dirigent_core::id::RunId;
use dirigent_core::steering::Steering;
use dirigent_runtime::{Orchestrator, WhenShared};
use dirigent_store::{Journal, RunFilter, RunRecord, RunState, StoreError};

use crate::start_queue::HeldStartLock;
use crate::worktree::worktrees_folder;
use crate::{Dirigent, DirigentError};

/// The maximum number of active runs that are informed when a run starts. The limit is for programs that start hundreds of runs in one
/// folder; each new run is still informed of all runs before it.
const MAX_TOLD: usize = 8;

/// The right to start a run in its workspace now.
pub(crate) struct StartPermit {
    /// Keeps other runs from starting until this one is active.
    pub(crate) lock: HeldStartLock,
    /// The active runs that share the workspace.
    pub(crate) others: Vec<RunId>,
}

impl Dirigent {
    /// Returns the active runs of the journal, in any process, that work in a folder or in a folder above or below it. A run in a git
    /// worktree shares the worktree only with its forks.
    ///
    /// # Errors
    /// [`DirigentError::Workspace`] if there is no such folder; an error of the journal.
    pub async fn active_runs_in(&self, folder: impl Into<PathBuf>) -> Result<Vec<RunRecord>, DirigentError> {
        let folder = folder.into();
        self.reading(move |journal| {
            let resolved = folder.canonicalize().map_err(|error| DirigentError::Workspace {
                path: folder,
                reason: error.to_string(),
            })?;
            Ok::<_, DirigentError>(active_runs(journal, &resolved)?)
        })
        .await
    }

    /// Cancels all pending and future starts, resumptions and forks of this orchestrator; call it when your program shuts down. A start is
    /// pending while it finds out how a model calls tools, waits for other runs in the folder, or waits for the start lock. A cancelled
    /// start fails with [`DirigentError::StartCancelled`], and starts nothing. A start that is past these waits completes and returns its
    /// run.
    pub fn cancel_starts(&self) {
        self.starts.cancel();
    }

    /// Waits until a run may start in a workspace. `run` is the run itself if it already exists.
    pub(crate) async fn acquire_start_permit(
        &self,
        workspace: &str,
        run: Option<RunId>,
        when: WhenShared,
    ) -> Result<StartPermit, DirigentError> {
        let permit = self.wait_for_permit(workspace, run, when);
        self.starts.unless_cancelled(permit).await
    }

    async fn wait_for_permit(
        &self,
        workspace: &str,
        run: Option<RunId>,
        when: WhenShared,
    ) -> Result<StartPermit, DirigentError> {
        loop {
            let lock = self.starts.lock().await?;
            let folder = PathBuf::from(workspace);
            let mut others = self.reading(move |journal| active_runs(journal, &folder)).await?;
            others.retain(|other| Some(other.run) != run);
            let ids: Vec<RunId> = others.iter().map(|other| other.run).collect();
            match when {
                WhenShared::Refuse if !ids.is_empty() => {
                    return Err(DirigentError::WorkspaceShared {
                        workspace: workspace.to_owned(),
                        runs: ids,
                    });
                }
                WhenShared::Wait if !ids.is_empty() => {
                    drop(lock);
                    self.wait_for(&others).await?;
                }
                WhenShared::Wait | WhenShared::GoOn | WhenShared::Refuse => {
                    return Ok(StartPermit { lock, others: ids });
                }
            }
        }
    }

    /// Waits until each run has ended or paused, or its process has died.
    async fn wait_for(&self, runs: &[RunRecord]) -> Result<(), DirigentError> {
        for run in runs {
            let mut entries = self.journal.follow(run.run, run.entries);
            while let Some(entry) = entries.next().await {
                entry?;
            }
        }
        Ok(())
    }
}

/// Informs the newest of the other runs, in the background, that this run has started.
pub(crate) fn announce(orchestrator: &Orchestrator, others: Vec<RunId>, started: RunId) {
    for other in others.into_iter().take(MAX_TOLD) {
        let orchestrator = orchestrator.clone();
        tokio::spawn(async move {
            let runs = vec![started];
            // Fails only if the other run ends at this moment.
            let _ = orchestrator.steer(other, Steering::ShareWorkspace { runs }).await;
        });
    }
}

/// Returns the active runs that share a folder. Blocks.
fn active_runs(journal: &Journal, folder: &Path) -> Result<Vec<RunRecord>, StoreError> {
    // A run of this process that has just ended is released only after its last entries are written, so they are flushed first. A
    // read-only journal has no writer.
    let _ = journal.flush();
    let worktrees = worktrees_folder(journal);
    let active = RunFilter::new().state(RunState::Running).limit(usize::MAX);
    let mut runs = journal.run_page(&active)?.runs;
    runs.retain(|run| is_shared(Path::new(&run.workspace), folder, &worktrees));
    Ok(runs)
}

/// Returns true if one of the folders is the other or contains it. A worktree is not shared with a run outside of it, even if the folder of the
/// worktrees is inside that run's workspace.
fn is_shared(a: &Path, b: &Path, worktrees: &Path) -> bool {
    let worktree = |folder: &Path| {
        let below = folder.strip_prefix(worktrees).ok()?;
        below.components().next().map(|name| name.as_os_str().to_owned())
    };
    worktree(a) == worktree(b) && (a.starts_with(b) || b.starts_with(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paor_10_nested_folders_of_the_same_worktree_count_as_shared() {
        let shared = |a: &str, b: &str| {
            let [a, b, worktrees] = [a, b, "/home/me/data/db-worktrees"].map(Path::new);
            let is_shared_either_way = [is_shared(a, b, worktrees), is_shared(b, a, worktrees)];
            assert_eq!(is_shared_either_way[0], is_shared_either_way[1]);
            is_shared_either_way[0]
        };
        assert!(shared("/home/me/shop", "/home/me/shop"));
        assert!(shared("/home/me/shop", "/home/me/shop/web"));
        assert!(!shared("/home/me/shop", "/home/me/shop2"));
        assert!(!shared("/home/me", "/home/me/data/db-worktrees/1"));
        assert!(!shared(
            "/home/me/data/db-worktrees/1",
            "/home/me/data/db-worktrees/2"
        ));
        assert!(shared(
            "/home/me/data/db-worktrees/1",
            "/home/me/data/db-worktrees/1/web"
        ));
    }
}
