//! Undoes a run: compares the file changes recorded in its journal with the workspace, and reverts them.
//!
//! [`dirigent_core::undo`] computes the plan; this module compares it with the workspace and executes it inside the workspace jail. All
//! paths are compared before the first change. If any path differs from its state after the run, nothing is changed, unless the caller
//! skips such paths.

mod commands;
mod comparison;
mod diff;
mod execution;
mod recorded;
mod refusal;
mod steps;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dirigent_core::id::RunId;
use dirigent_core::tool::StateChange;
use dirigent_core::undo::UndoPlan;
use dirigent_store::{Journal, StoreError};
use dirigent_tools::workspace::Workspace;

use crate::DirigentError;
use crate::blocking::blocking;

use commands::{command_files, refuse_mixed};
use comparison::{check_interrupted, compare};
use execution::execute;
use recorded::RecordedChanges;

pub use commands::{CommandFile, CommandFiles};
pub use diff::RunDiff;
pub use execution::Undone;
pub use recorded::UnfinishedCall;
pub use refusal::{RefusalReason, RefusedPath};
pub use steps::UndoStep;

/// The plan for undoing a run, from [`crate::Dirigent::undo`].
#[derive(Clone, Debug)]
pub struct Undo {
    journal: Journal,
    run: RunId,
    after: u64,
    workspace: PathBuf,
    plan: UndoPlan,
    refused: Vec<RefusedPath>,
    unfinished: Vec<UnfinishedCall>,
    scope: UndoScope,
    commands: Vec<CommandFiles>,
}

/// The changes that an undo reverts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UndoScope {
    FileTools,
    FileToolsAndCommands,
}

impl Undo {
    pub(crate) fn load(journal: &Journal, run: RunId, after: Option<u64>) -> Result<Undo, DirigentError> {
        Undo::load_scope(journal, run, after, UndoScope::FileTools)
    }

    fn load_scope(
        journal: &Journal,
        run: RunId,
        after: Option<u64>,
        scope: UndoScope,
    ) -> Result<Undo, DirigentError> {
        if let Some(pid) = journal.run(run)?.owner_pid {
            return Err(DirigentError::RunActive { run, pid });
        }
        let changes = RecordedChanges::load(journal, run, after)?;
        let workspace = open(&changes.workspace).map_err(|error| match &changes.origin {
            Some(origin) if !changes.workspace.exists() => removed_worktree(&changes.workspace, origin),
            Some(_) | None => error,
        })?;
        let commands = command_files(&changes.with_commands, &workspace);
        let mut plan = match scope {
            UndoScope::FileTools => changes.plan,
            UndoScope::FileToolsAndCommands => changes.with_commands.clone(),
        };
        let mut refused = compare(&mut plan, &workspace, journal)?;
        match scope {
            UndoScope::FileTools => refuse_mixed(&mut refused, &plan, &changes.with_commands, &workspace),
            UndoScope::FileToolsAndCommands => {}
        }
        for original in &changes.interrupted {
            check_interrupted(&mut refused, &workspace, original);
        }
        Ok(Undo {
            journal: journal.clone(),
            run,
            after: changes.after,
            workspace: changes.workspace,
            plan,
            refused,
            unfinished: changes.unfinished,
            scope,
            commands,
        })
    }

    /// Returns a plan that also undoes the changes made while commands were running, whether by the commands or by something else, if the
    /// content before and after is known.
    ///
    /// # Errors
    /// As for [`crate::Dirigent::undo`].
    pub async fn include_commands(&self) -> Result<Undo, DirigentError> {
        let undo = self.clone();
        let scope = UndoScope::FileToolsAndCommands;
        blocking(move || Undo::load_scope(&undo.journal, undo.run, Some(undo.after), scope)).await
    }

    /// Returns true if the plan also undoes the changes made while commands were running.
    pub fn includes_commands(&self) -> bool {
        self.scope == UndoScope::FileToolsAndCommands
    }

    /// Returns the changes made while commands were running that are still in effect. Only a plan from [`Undo::include_commands`] undoes
    /// them.
    pub fn during_commands(&self) -> &[CommandFiles] {
        &self.commands
    }

    /// Returns the id of the run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Returns the last journal entry whose changes are kept; 0 if all changes are undone.
    pub fn after(&self) -> u64 {
        self.after
    }

    /// Returns the workspace of the run.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns the steps in order. [`Undo::apply`] executes them only if [`Undo::refused`] is empty.
    pub fn steps(&self) -> Vec<UndoStep> {
        self.plan.steps.iter().map(UndoStep::from_step).collect()
    }

    /// Returns the paths that cannot be undone.
    pub fn refused(&self) -> &[RefusedPath] {
        &self.refused
    }

    /// Returns the changes that cannot be undone because they are not file changes: exited commands, database changes and sent requests.
    pub fn other_changes(&self) -> &[StateChange] {
        &self.plan.other_changes
    }

    /// Returns the calls that may have changed something without reporting it.
    pub fn unfinished(&self) -> &[UnfinishedCall] {
        &self.unfinished
    }

    /// Removes the steps of refused paths, and the steps that depend on them.
    #[must_use]
    pub fn skip_refused(mut self) -> Undo {
        let refused: BTreeSet<String> = self.refused.drain(..).map(|refused| refused.path).collect();
        self.plan = self.plan.without(&refused);
        self
    }

    /// Executes the steps. Content is recorded in the journal before it is replaced or deleted. A path that changed in the meantime or
    /// cannot be written is skipped, together with the steps that depend on it, and reported in [`Undone::failed`].
    ///
    /// # Errors
    /// [`DirigentError::UndoRefused`] if a path is refused, [`DirigentError::RunActive`] if a process owns the run. In both cases, nothing
    /// is changed.
    pub async fn apply(&self) -> Result<Undone, DirigentError> {
        let undo = self.clone();
        blocking(move || undo.apply_now()).await
    }

    fn apply_now(&self) -> Result<Undone, DirigentError> {
        if !self.refused.is_empty() {
            let refused = self.refused.clone();
            return Err(DirigentError::UndoRefused { refused });
        }
        // The claim keeps other processes from resuming the run during the undo.
        let _claim = self.journal.claim(self.run).map_err(|error| match error {
            StoreError::AlreadyClaimed { run, pid } => DirigentError::RunActive { run, pid },
            error => error.into(),
        })?;
        execute(&self.plan, open(&self.workspace)?, &self.journal)
    }
}

fn open(path: &Path) -> Result<Workspace, DirigentError> {
    Workspace::open(path).map_err(|_| DirigentError::Workspace {
        path: path.to_owned(),
        reason: "it no longer exists or cannot be read: restore it at this path".to_owned(),
    })
}

fn removed_worktree(path: &Path, origin: &str) -> DirigentError {
    DirigentError::Workspace {
        path: path.to_owned(),
        reason: format!(
            "the worktree of the run was removed. If its changes were applied to {origin}, revert them there: give the diff of the run to \
             `git apply -R`"
        ),
    }
}
