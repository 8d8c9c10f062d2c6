//! Undoing a run: what its journal says that it changed, compared with what there is, and put back.
//!
//! What to do is computed by [`dirigent_core::undo`]; here it is compared with the workspace and carried out through the jail. Everything
//! is looked at first: where anything is not what the run left, nothing is done unless that is left out.

mod diff;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::digest::sha256_hex;
use dirigent_core::id::{EffectId, RunId};
use dirigent_core::tool::{Access, FileVersion, StateChange};
use dirigent_core::undo::{MoveBack, PathState, RestorePath, RestoreStep, UndoPlan};
use dirigent_core::view::EventKind;
use dirigent_runtime::read_run;
use dirigent_store::{Journal, Original, StoreError};
use dirigent_tools::workspace::{FileError, PreviousState, Workspace};
use dirigent_tools::{ContentStore, RunChanges};
use serde::Serialize;
use serde_json::Value;

use crate::DirigentError;

pub use diff::{FileDiff, RunDiff};

/// What undoing a run would do; [`crate::Dirigent::undo`] makes it.
#[derive(Debug)]
pub struct Undo {
    journal: Journal,
    run: RunId,
    to: u64,
    workspace: PathBuf,
    undoing: UndoPlan,
    refused: Vec<RefusedPath>,
    unfinished: Vec<UnfinishedCall>,
}

/// A call that may have changed something and could not say what: it was interrupted, broke down or was given up. As JSON
/// `{"call": "a1.3", "tool": "execute_command"}`; as text for people `a1.3 (execute_command)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnfinishedCall {
    /// The call.
    pub call: EffectId,
    /// The tool that it called.
    pub tool: String,
}

impl fmt::Display for UnfinishedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.call, self.tool)
    }
}

/// One thing that undoing does. As JSON `{"action": "restore", "path": "src/a.rs"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum UndoStep {
    /// A file gets the content and the permissions that it had.
    Restore {
        /// Which.
        path: String,
        /// Whether somebody else, such as a command of the run, changed it between two changes of the run: that goes, too.
        changed_by_others: bool,
    },
    /// A file or an empty folder that is gone is there again.
    Recreate {
        /// Which.
        path: String,
    },
    /// A file that was not there goes.
    Delete {
        /// Which.
        path: String,
    },
    /// Something that was moved gets its name back.
    Move {
        /// Where it is.
        from: String,
        /// Where it was.
        to: String,
    },
}

/// A path that is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedPath {
    /// Which.
    pub path: String,
    /// Why.
    #[serde(flatten)]
    pub reason: RefusalReason,
}

/// Why a path cannot be put back. As JSON `{"reason": "changed"}`; as text for people, after the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum RefusalReason {
    /// Its content is not what the run left.
    #[error("has changed since the run")]
    Changed,
    /// Its permissions are not.
    #[error("has other permissions than the run left it with")]
    Mode,
    /// It is no more there.
    #[error("is gone since the run")]
    Gone,
    /// Something is where the run left nothing.
    #[error("is there again since the run")]
    Exists,
    /// No version was journaled.
    #[error(
        "was changed by a command, or was too big or no regular file, or its run is of an older Dirigent: what was in it is not known"
    )]
    Unknown,
    /// What was in it is not in this journal.
    #[error("cannot be put back: what was in it is not in this journal")]
    NoSnapshot,
    /// A call that was interrupted, or failed, may have changed it and did not report it; what was in it before the call is kept.
    #[error("is other than before the call {call}, which was cut off")]
    Interrupted {
        /// The call.
        call: EffectId,
    },
    /// It can only be put back with something that could not be: the other name of a moved file, or a folder around it.
    #[error("hangs together with {with}, which could not be put back")]
    DependsOn {
        /// With what.
        with: String,
    },
    /// The file system said no.
    #[error("cannot be used: {error}")]
    Failed {
        /// What it said.
        error: String,
    },
}

/// What was undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undone {
    /// What was done.
    pub done: Vec<UndoStep>,
    /// What was not done after all, as it changed meanwhile or could not be written.
    pub failed: Vec<RefusedPath>,
}

/// A run's past, as far as undoing it goes.
struct RecordedChanges {
    to: u64,
    workspace: PathBuf,
    undoing: UndoPlan,
    /// What calls kept that never told what became of it.
    interrupted: Vec<Original>,
    unfinished: Vec<UnfinishedCall>,
}

impl RecordedChanges {
    fn load(journal: &Journal, run: RunId, to: Option<u64>) -> Result<RecordedChanges, DirigentError> {
        let record = journal.run(run)?;
        let to = to
            .or(record.forked_from.map(|point| point.seq))
            .unwrap_or_default();
        if to > record.entries {
            let last = record.entries;
            return Err(StoreError::NoSuchEntry { run, at: to, last }.into());
        }
        let entries = journal.entries(run, 0, usize::MAX)?;
        let undoing = UndoPlan::from_entries(&entries, to);
        let mut interrupted = journal.originals(run)?;
        interrupted
            .retain(|original| undoing.is_unreported(original.effect, &original.path, &original.version));
        let unfinished = match undoing.unfinished.is_empty() {
            true => Vec::new(),
            false => unfinished(journal, run, &undoing.unfinished)?,
        };
        Ok(RecordedChanges {
            to,
            workspace: PathBuf::from(record.workspace),
            undoing,
            interrupted,
            unfinished,
        })
    }
}

impl Undo {
    pub(crate) fn load(journal: &Journal, run: RunId, to: Option<u64>) -> Result<Undo, DirigentError> {
        if let Some(pid) = journal.run(run)?.owner_pid {
            return Err(DirigentError::RunActive { run, pid });
        }
        let changes = RecordedChanges::load(journal, run, to)?;
        let workspace = open(&changes.workspace)?;
        let mut undo = Undo {
            journal: journal.clone(),
            run,
            to: changes.to,
            workspace: changes.workspace,
            undoing: changes.undoing,
            refused: Vec::new(),
            unfinished: changes.unfinished,
        };
        undo.compare(&workspace)?;
        for original in changes.interrupted {
            undo.check_interrupted(&workspace, &original);
        }
        Ok(undo)
    }

    /// Which run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The last entry whose changes stay.
    pub fn to(&self) -> u64 {
        self.to
    }

    /// The folder in which the run worked.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// What would be done, in that order; with [`Undo::refused`] nothing unless these are left out.
    pub fn steps(&self) -> Vec<UndoStep> {
        self.undoing.steps.iter().map(UndoStep::from_step).collect()
    }

    /// What cannot be undone, and why.
    pub fn refused(&self) -> &[RefusedPath] {
        &self.refused
    }

    /// What the run changed elsewhere than in files, which is not undone: with commands, in databases, by requests.
    pub fn other_changes(&self) -> &[StateChange] {
        &self.undoing.other_changes
    }

    /// Calls of the run that may have changed something and could not say what.
    pub fn unfinished(&self) -> &[UnfinishedCall] {
        &self.unfinished
    }

    /// The same without what cannot be undone, and what hangs together with it.
    #[must_use]
    pub fn skip_refused(mut self) -> Undo {
        let refused: BTreeSet<String> = self.refused.drain(..).map(|refused| refused.path).collect();
        self.undoing = self.undoing.without(&refused);
        self
    }

    /// Does it. What is replaced or deleted is kept in the journal first. A path that changed meanwhile, or cannot be written, is left as it
    /// is and named, and so is what hangs together with it; the others are done. Blocks on the disk.
    ///
    /// # Errors
    /// [`DirigentError::UndoRefused`] where something is refused; [`DirigentError::RunActive`] where the run goes on by now. Nothing was
    /// done then.
    pub fn apply(&self) -> Result<Undone, DirigentError> {
        if !self.refused.is_empty() {
            let refused = self.refused.len();
            return Err(DirigentError::UndoRefused { refused });
        }
        // Nobody may go on with the run meanwhile.
        let _claim = self.journal.claim(self.run).map_err(|error| match error {
            StoreError::AlreadyClaimed { run, pid } => DirigentError::RunActive { run, pid },
            error => error.into(),
        })?;
        let snapshots = Arc::new(UndoSnapshots(self.journal.clone()));
        let workspace = open(&self.workspace)?.with_content_store(snapshots);
        let mut undone = Undone {
            done: Vec::new(),
            failed: Vec::new(),
        };
        self.save_moved_contents(&workspace)?;
        let mut rest = self.undoing.clone();
        rest.steps.reverse();
        while let Some(step) = rest.steps.pop() {
            let result = match &step {
                RestoreStep::Restore(restoration) => self.restore(&workspace, restoration),
                RestoreStep::Move(MoveBack { from, to, .. }) => {
                    workspace.move_back(from, to).map_err(Into::into)
                }
            };
            let Err(reason) = result else {
                undone.done.push(UndoStep::from_step(&step));
                continue;
            };
            let (path, touched) = match step {
                RestoreStep::Restore(RestorePath { path, .. }) => (path.clone(), BTreeSet::from([path])),
                RestoreStep::Move(MoveBack { from, to, .. }) => (from.clone(), BTreeSet::from([from, to])),
            };
            let left = rest.clone().without(&touched);
            let with = &path;
            let hang_together = rest.steps.iter().rev().filter(|step| !left.steps.contains(step));
            let hang_together: Vec<_> = hang_together
                .map(|step| RefusedPath {
                    path: step_path(step).to_owned(),
                    reason: RefusalReason::DependsOn { with: with.clone() },
                })
                .collect();
            undone.failed.push(RefusedPath { path, reason });
            undone.failed.extend(hang_together);
            rest = left;
        }
        Ok(undone)
    }

    /// What is to be put back under another name may be in the workspace alone as yet.
    fn save_moved_contents(&self, workspace: &Workspace) -> Result<(), DirigentError> {
        let steps = &self.undoing.steps;
        let needed: BTreeSet<&str> = steps
            .iter()
            .filter_map(|step| match step {
                RestoreStep::Restore(RestorePath {
                    original: PathState::File(version),
                    ..
                }) => Some(version.digest.as_str()),
                RestoreStep::Restore(_) | RestoreStep::Move(_) => None,
            })
            .collect();
        for (path, digest) in contents_before_moves(steps) {
            if !needed.contains(digest) || self.journal.has_content(digest)? {
                continue;
            }
            // A link is its target. Whatever is read counts only as what it must be.
            let bytes = match std::fs::read_link(self.workspace.join(path)) {
                Ok(target) => Some(target.into_os_string().into_encoded_bytes()),
                Err(_) => workspace.read(path).ok(),
            };
            if let Some(bytes) = bytes.filter(|bytes| sha256_hex(bytes) == digest) {
                self.journal.record_content(digest, &bytes)?;
            }
        }
        Ok(())
    }

    fn restore(&self, workspace: &Workspace, restoration: &RestorePath) -> Result<(), RefusalReason> {
        let RestorePath {
            path,
            expected,
            original,
            ..
        } = restoration;
        let content;
        let past = match original {
            PathState::Nothing => PreviousState::Nothing,
            PathState::Folder => PreviousState::Folder,
            PathState::Unknown => return Err(RefusalReason::Unknown),
            PathState::File(FileVersion { digest, mode }) => {
                content = self
                    .journal
                    .content(digest)
                    .map_err(|error| RefusalReason::Failed {
                        error: error.to_string(),
                    })?
                    .ok_or(RefusalReason::NoSnapshot)?;
                PreviousState::File(&content, *mode)
            }
        };
        Ok(workspace.restore(path, expected, past)?)
    }

    /// Leaves out what is as it was already, and refuses what is not what the run left.
    fn compare(&mut self, workspace: &Workspace) -> Result<(), DirigentError> {
        let freed = self.restored_paths();
        let steps = std::mem::take(&mut self.undoing.steps);
        let mut moved = false;
        let moves_on: BTreeSet<String> = contents_before_moves(&steps)
            .map(|(_, digest)| digest.to_owned())
            .collect();
        for step in steps {
            let refused = match &step {
                // What is not at its place yet is compared when it is.
                RestoreStep::Restore(restoration) if moved => self.content_refusal(restoration, &moves_on)?,
                RestoreStep::Restore(restoration) => {
                    let there = path_state(workspace, &restoration.path, &restoration.expected);
                    match there {
                        Ok(there) if there == restoration.original && there != PathState::Unknown => continue,
                        Ok(there) => match state_mismatch(&there, &restoration.expected) {
                            Some(reason) => Some(reason),
                            None => self.content_refusal(restoration, &moves_on)?,
                        },
                        Err(fault) => Some(fault.into()),
                    }
                }
                RestoreStep::Move(back) => {
                    moved = true;
                    move_refusal(workspace, back, &freed)
                }
            };
            if let Some(reason) = refused {
                let path = step_path(&step).to_owned();
                self.refused.push(RefusedPath { path, reason });
            }
            self.undoing.steps.push(step);
        }
        Ok(())
    }

    /// Why there is nothing to put back, if there is not. `moves_on`: the contents that are in the workspace under some name.
    fn content_refusal(
        &self,
        restoration: &RestorePath,
        moves_on: &BTreeSet<String>,
    ) -> Result<Option<RefusalReason>, DirigentError> {
        Ok(match (&restoration.original, &restoration.expected) {
            (PathState::Unknown, _) | (_, PathState::Unknown) => Some(RefusalReason::Unknown),
            (PathState::File(FileVersion { digest, .. }), _)
                if !moves_on.contains(digest) && !self.journal.has_content(digest)? =>
            {
                Some(RefusalReason::NoSnapshot)
            }
            (PathState::File(_) | PathState::Nothing | PathState::Folder, _) => None,
        })
    }

    fn restored_paths(&self) -> BTreeSet<String> {
        let steps = self.undoing.steps.iter();
        steps
            .filter_map(|step| match step {
                RestoreStep::Restore(restoration) => Some(restoration.path.clone()),
                RestoreStep::Move(_) => None,
            })
            .collect()
    }

    /// A call kept that and did not report it what became of it.
    fn check_interrupted(&mut self, workspace: &Workspace, original: &Original) {
        let there = workspace.path_state(&original.path);
        let same = there.is_ok_and(|there| there == PathState::File(original.version.clone()));
        let refused = RefusedPath {
            path: original.path.clone(),
            reason: RefusalReason::Interrupted {
                call: original.effect,
            },
        };
        if !same && !self.refused.iter().any(|other| other.path == refused.path) {
            self.refused.push(refused);
        }
    }
}

impl UndoStep {
    fn from_step(step: &RestoreStep) -> UndoStep {
        match step {
            RestoreStep::Restore(RestorePath {
                path,
                expected,
                original,
                changed_by_others,
                ..
            }) => match (expected, original) {
                (_, PathState::Nothing) => UndoStep::Delete { path: path.clone() },
                (PathState::Nothing, _) => UndoStep::Recreate { path: path.clone() },
                (PathState::File(_) | PathState::Folder | PathState::Unknown, _) => UndoStep::Restore {
                    path: path.clone(),
                    changed_by_others: *changed_by_others,
                },
            },
            RestoreStep::Move(MoveBack { from, to, .. }) => UndoStep::Move {
                from: from.clone(),
                to: to.clone(),
            },
        }
    }
}

impl From<FileError> for RefusalReason {
    fn from(fault: FileError) -> Self {
        match fault {
            FileError::Changed { .. } => RefusalReason::Changed,
            FileError::NotFound { .. } => RefusalReason::Gone,
            FileError::Exists { .. } => RefusalReason::Exists,
            fault => RefusalReason::Failed {
                error: fault.to_string(),
            },
        }
    }
}

/// Keeps what undoing replaces.
#[derive(Debug)]
struct UndoSnapshots(Journal);

impl ContentStore for UndoSnapshots {
    fn record(&self, _: &str, version: &FileVersion, bytes: &[u8]) -> Result<(), String> {
        let kept = self.0.record_content(&version.digest, bytes);
        kept.map_err(|error| error.to_string())
    }

    fn load(&self, digest: &str) -> Result<Option<Vec<u8>>, String> {
        self.0.content(digest).map_err(|error| error.to_string())
    }

    fn run_changes(&self) -> Result<RunChanges, String> {
        Err("the run is being undone".to_owned())
    }
}

fn open(path: &Path) -> Result<Workspace, DirigentError> {
    Workspace::open(path).map_err(|_| DirigentError::Workspace {
        path: path.to_owned(),
        reason:
            "it is not there any more, or cannot be read: put it back where it was when the run worked in it"
                .to_owned(),
    })
}

/// What there is, for who expects that: a folder with nothing in it counts for nothing where nothing is expected.
fn path_state(workspace: &Workspace, path: &str, expected: &PathState) -> Result<PathState, FileError> {
    let there = workspace.path_state(path)?;
    if there == PathState::Folder && *expected == PathState::Nothing && workspace.is_free(path)? {
        return Ok(PathState::Nothing);
    }
    Ok(there)
}

fn state_mismatch(there: &PathState, expected: &PathState) -> Option<RefusalReason> {
    match (expected, there) {
        (expected, there) if expected == there => None,
        (PathState::Unknown, _) => Some(RefusalReason::Unknown),
        (PathState::Nothing, _) => Some(RefusalReason::Exists),
        (_, PathState::Nothing) => Some(RefusalReason::Gone),
        (PathState::File(expected), PathState::File(there)) if expected.digest == there.digest => {
            Some(RefusalReason::Mode)
        }
        (PathState::File(_) | PathState::Folder, _) => Some(RefusalReason::Changed),
    }
}

fn move_refusal(workspace: &Workspace, back: &MoveBack, freed: &BTreeSet<String>) -> Option<RefusalReason> {
    if let Some(source) = &back.source {
        match workspace.path_state(source) {
            Ok(PathState::Nothing) => return Some(RefusalReason::Gone),
            Ok(PathState::File(_) | PathState::Folder | PathState::Unknown) => {}
            Err(fault) => return Some(fault.into()),
        }
    }
    let target = back.target.as_ref()?;
    let below = format!("{target}/");
    if freed
        .iter()
        .any(|path| path == target || path.starts_with(&below))
    {
        // Whether all of it goes is seen when it has.
        return None;
    }
    match workspace.is_free(target) {
        Ok(true) => None,
        Ok(false) => Some(RefusalReason::Exists),
        Err(fault) => Some(fault.into()),
    }
}

/// Which of these calls may have changed something, with their tools' names.
fn unfinished(
    journal: &Journal,
    run: RunId,
    calls: &BTreeSet<EffectId>,
) -> Result<Vec<UnfinishedCall>, DirigentError> {
    let (view, events) = read_run(journal, run)?;
    let tools = view.run().context().map(|context| context.tools());
    let looks_only = |tool: &str, parameters: &Value| {
        let tool = tools.and_then(|tools| tools.get(tool));
        tool.is_some_and(|tool| tool.access == Access::ReadOnly && tool.repeat.is_safe(parameters))
    };
    let mut found = BTreeMap::new();
    for event in events {
        if let EventKind::ToolStarted {
            effect,
            tool,
            parameters,
        } = event.kind
            && calls.contains(&effect)
            && !looks_only(&tool, &parameters)
        {
            found.insert(effect, tool);
        }
    }
    let found = found.into_iter();
    Ok(found.map(|(call, tool)| UnfinishedCall { call, tool }).collect())
}

/// The files that are there before anything is moved, with the digests of their contents: these can be put back under other names.
fn contents_before_moves(steps: &[RestoreStep]) -> impl Iterator<Item = (&str, &str)> {
    steps
        .iter()
        .map_while(|step| match step {
            RestoreStep::Restore(restoration) => Some(restoration),
            RestoreStep::Move(_) => None,
        })
        .filter_map(|restoration| match &restoration.expected {
            PathState::File(version) => Some((restoration.path.as_str(), version.digest.as_str())),
            PathState::Nothing | PathState::Folder | PathState::Unknown => None,
        })
}

/// What a step is named by.
fn step_path(step: &RestoreStep) -> &str {
    match step {
        RestoreStep::Restore(restoration) => &restoration.path,
        RestoreStep::Move(back) => &back.from,
    }
}
