//! `undo`: puts back what was in files before the run changed them.
//!
//! What is to be done is computed from the run's journal ([`dirigent_core::undo`]), as for the undoing of a whole run. A file that is not as the run left it stays as it
//! is: somebody else has written in it.

use std::collections::BTreeSet;

use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::{FileVersion, SeenFile, StateChange, ToolResult, code};
use dirigent_core::undo::{MoveBack, PathState, RestorePath, RestoreStep, UndoPlan, is_within};
use serde_json::{Value, json};

use super::seen::{self, Extent};
use crate::blocking::cancelled;
use crate::text::{TextFile, unified_diff};
use crate::workspace::{FileError, PreviousState, Workspace};
use crate::{ContentStore, RunChanges, ToolContext};

/// What could not be put back, and why.
struct NotRestored {
    path: String,
    reason: String,
}

impl NotRestored {
    fn new(path: &str, reason: impl Into<String>) -> Self {
        NotRestored {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    fn from_error(path: &str, fault: &FileError) -> Self {
        match fault {
            FileError::Changed { .. } => NotRestored::new(path, "it has changed since the run changed it"),
            fault => NotRestored::new(path, fault.to_string()),
        }
    }
}

#[derive(Default)]
struct UndoOutput {
    paths: Vec<String>,
    /// What commands alone have made or changed: what was there before is not known.
    by_commands: Vec<String>,
    not_restored: Vec<NotRestored>,
    changes: Vec<StateChange>,
    seen: Vec<SeenFile>,
}

/// Puts a file, or what is below a folder, back; all that the run has changed where no path is given.
pub(super) fn undo(
    context: &ToolContext,
    workspace: &Workspace,
    path: Option<&str>,
) -> Result<ToolResult, FileError> {
    let place = path.map(|path| workspace.canonical_nofollow(path)).transpose()?;
    let Some(content_store) = context.content_store.as_deref() else {
        return Ok(unknown("the previous content of files is not recorded here"));
    };
    let changed = match content_store.run_changes() {
        Ok(changed) => changed,
        Err(error) => return Ok(unknown(&error)),
    };
    let changed = within(changed, place.as_deref());
    if let (Some(place), true) = (
        &place,
        changed.undoing.is_empty() && changed.unreported.is_empty(),
    ) {
        let error = format!("this run has not changed `{place}`, so there is nothing to undo");
        return Ok(ToolResult::failure(error).with_code(code::NOT_FOUND));
    }
    Ok(Undoer {
        context,
        workspace,
        content_store,
        files_after_run: files_after_run(&changed.undoing),
        done: UndoOutput::default(),
    }
    .undo(changed))
}

fn unknown(why: &str) -> ToolResult {
    let error = format!("what this run has changed is not known: {why}; nothing was undone");
    ToolResult::failure(error).with_code(code::NOT_KEPT)
}

/// What is at or below a place, with what hangs together with nothing else.
fn within(changed: RunChanges, place: Option<&str>) -> RunChanges {
    let Some(place) = place.filter(|place| *place != ".") else {
        return changed;
    };
    let RunChanges {
        undoing,
        mut unreported,
    } = changed;
    let others = undoing.steps.iter().flat_map(|step| match step {
        RestoreStep::Restore(RestorePath { path, .. }) => vec![path.clone()],
        RestoreStep::Move(MoveBack { from, to, .. }) => vec![from.clone(), to.clone()],
    });
    let others: BTreeSet<String> = others.filter(|path| !is_within(path, place)).collect();
    unreported.retain(|(path, _)| is_within(path, place));
    RunChanges {
        undoing: undoing.without(&others),
        unreported,
    }
}

struct Undoer<'a> {
    context: &'a ToolContext,
    workspace: &'a Workspace,
    content_store: &'a dyn ContentStore,
    /// The files that the run left, with the digests of their contents.
    files_after_run: Vec<(String, String)>,
    done: UndoOutput,
}

impl Undoer<'_> {
    fn undo(mut self, changed: RunChanges) -> ToolResult {
        let RunChanges { undoing, unreported } = changed;
        let mut rest: UndoPlan = undoing;
        while !rest.steps.is_empty() {
            if self.context.cancel.is_cancelled() {
                return cancelled()
                    .with_changes(self.done.changes)
                    .with_seen(self.done.seen);
            }
            let step = rest.steps.remove(0);
            let attempt = match &step {
                RestoreStep::Restore(restoration) => self.put_back(restoration),
                RestoreStep::Move(back) => self.move_back(back),
            };
            if let Err(left) = attempt {
                let touched = match step {
                    RestoreStep::Restore(RestorePath { path, .. }) => BTreeSet::from([path]),
                    RestoreStep::Move(MoveBack { from, to, .. }) => BTreeSet::from([from, to]),
                };
                let kept = rest.clone().without(&touched);
                let reason = format!("it hangs together with `{}`", left.path);
                let dropped = rest.steps.iter().filter(|step| !kept.steps.contains(step));
                let hang_together: Vec<NotRestored> = dropped
                    .map(|step| NotRestored::new(path_of(step), reason.clone()))
                    .collect();
                self.done.not_restored.push(left);
                self.done.not_restored.extend(hang_together);
                rest = kept;
            }
        }
        for (path, version) in unreported {
            self.check_unreported(&path, version);
        }
        self.done.into_result()
    }

    fn put_back(&mut self, restoration: &RestorePath) -> Result<(), NotRestored> {
        let RestorePath {
            path,
            expected,
            original,
            ..
        } = restoration;
        // File tools know what they find and leave; commands don't.
        if *original == PathState::Unknown
            || (original, expected) == (&PathState::Nothing, &PathState::Unknown)
        {
            self.done.by_commands.push(path.clone());
            return Ok(());
        }
        let there = self.path_state(path, expected)?;
        if there == *original {
            return Ok(());
        }
        if *expected == PathState::Unknown {
            return Err(NotRestored::new(
                path,
                "a command has changed it since, or may have",
            ));
        }
        if there != *expected {
            return Err(NotRestored::from_error(
                path,
                &FileError::Changed { path: path.clone() },
            ));
        }
        let present = match &there {
            PathState::File(_) => self.workspace.read(path).ok(),
            PathState::Nothing | PathState::Folder | PathState::Unknown => None,
        };
        seen::check(self.context, path, present.as_deref(), Extent::Whole)
            .map_err(|stale| NotRestored::new(path, stale.to_string()))?;
        let kept = match original {
            PathState::File(version) => Some(self.recorded_content(path, version)?),
            PathState::Nothing | PathState::Folder | PathState::Unknown => None,
        };
        let previous = match (original, &kept) {
            (PathState::Nothing, _) => PreviousState::Nothing,
            (PathState::Folder, _) => PreviousState::Folder,
            (PathState::File(version), Some(bytes)) => PreviousState::File(bytes, version.mode),
            (PathState::File(_) | PathState::Unknown, _) => {
                return Err(NotRestored::new(path, "what it was is not known"));
            }
        };
        self.workspace
            .restore(path, expected, previous)
            .map_err(|fault| NotRestored::from_error(path, &fault))?;
        self.done.paths.push(path.clone());
        let diff = diff(path, present.as_deref(), kept.as_deref());
        self.done
            .changes
            .extend(change(path, expected, original).map(|change| change.with_diff(diff)));
        self.done.seen.extend(match &kept {
            Some(bytes) => self.known(path).then(|| seen::content(path, bytes)),
            None => seen::absence(self.context, path),
        });
        Ok(())
    }

    /// Whether the caller has looked at the file before.
    fn known(&self, path: &str) -> bool {
        let seen = self.context.seen.as_deref();
        seen.is_some_and(|seen| seen.contains_key(path))
    }

    /// What is at a path; a folder with nothing in it counts for nothing where nothing is expected.
    fn path_state(&self, path: &str, expected: &PathState) -> Result<PathState, NotRestored> {
        let fault = |fault: FileError| NotRestored::from_error(path, &fault);
        let there = self.workspace.path_state(path).map_err(fault)?;
        let is_empty_tree = there == PathState::Folder
            && *expected == PathState::Nothing
            && self.workspace.is_free(path).map_err(fault)?;
        Ok(if is_empty_tree { PathState::Nothing } else { there })
    }

    fn recorded_content(&self, path: &str, version: &FileVersion) -> Result<Vec<u8>, NotRestored> {
        let kept = self.content_store.load(&version.digest);
        let kept = kept.map_err(|error| NotRestored::new(path, error))?;
        kept.or_else(|| self.content_of_moved_file(&version.digest))
            .ok_or_else(|| NotRestored::new(path, "its previous content was not recorded"))
    }

    /// The content of a file that was moved, which is kept nowhere else.
    fn content_of_moved_file(&self, digest: &str) -> Option<Vec<u8>> {
        let (path, _) = self.files_after_run.iter().find(|(_, other)| other == digest)?;
        let bytes = self.workspace.read(path).ok()?;
        (sha256_hex(&bytes) == digest).then_some(bytes)
    }

    fn move_back(&mut self, back: &MoveBack) -> Result<(), NotRestored> {
        let MoveBack { from, to, .. } = back;
        self.workspace
            .move_back(from, to)
            .map_err(|fault| NotRestored::from_error(from, &fault))?;
        self.done.paths.push(to.clone());
        self.done.seen.extend(seen::moved(self.context, from, to));
        self.done.changes.push(StateChange::FileMoved {
            from: from.clone(),
            to: to.clone(),
            version: None,
        });
        Ok(())
    }

    /// A call that was cut off kept this and did not report it what became of it.
    fn check_unreported(&mut self, path: &str, version: FileVersion) {
        let is_left = self.done.not_restored.iter().any(|left| left.path == path);
        let same = self
            .workspace
            .path_state(path)
            .is_ok_and(|there| there == PathState::File(version));
        if !same && !is_left {
            let reason = "a call that was cut off may have changed it, and did not report it";
            self.done.not_restored.push(NotRestored::new(path, reason));
        }
    }
}

impl UndoOutput {
    fn into_result(self) -> ToolResult {
        let not_restored: Vec<Value> = self
            .not_restored
            .iter()
            .map(|NotRestored { path, reason }| json!({"path": path, "reason": reason}))
            .collect();
        let output =
            json!({"undone": self.paths, "not_restored": not_restored, "by_commands": self.by_commands});
        let result = match self.not_restored.first() {
            None => ToolResult::success(output),
            Some(NotRestored { path, reason }) => {
                let others = match self.not_restored.len() {
                    1 => String::new(),
                    many => format!(" (and {} more)", many - 1),
                };
                let error = format!(
                    "`{path}` is left as it is, as {reason}{others}: see `not_restored` in the output"
                );
                ToolResult::failure(error)
                    .with_code(code::CHANGED)
                    .with_output(output)
            }
        };
        result.with_changes(self.changes).with_seen(self.seen)
    }
}

fn files_after_run(undoing: &UndoPlan) -> Vec<(String, String)> {
    let files = undoing.steps.iter().filter_map(|step| match step {
        RestoreStep::Restore(RestorePath {
            path,
            expected: PathState::File(version),
            ..
        }) => Some((path.clone(), version.digest.clone())),
        RestoreStep::Restore(_) | RestoreStep::Move(_) => None,
    });
    files.collect()
}

fn path_of(step: &RestoreStep) -> &str {
    match step {
        RestoreStep::Restore(restoration) => &restoration.path,
        RestoreStep::Move(back) => &back.from,
    }
}

fn diff(path: &str, expected: Option<&[u8]>, original: Option<&[u8]>) -> Option<String> {
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| TextFile::decode(path, bytes)).transpose();
    let (Ok(expected), Ok(original)) = (text(expected), text(original)) else {
        return None;
    };
    unified_diff(
        path,
        expected.as_ref().map(|file| file.text.as_str()),
        original.as_ref().map(|file| file.text.as_str()),
    )
}

/// What is told of it. A folder that is there again is none: folders are not told of.
fn change(path: &str, expected: &PathState, original: &PathState) -> Option<StateChange> {
    let version = |there: &PathState| match there {
        PathState::File(version) => Some(version.clone()),
        PathState::Nothing | PathState::Folder | PathState::Unknown => None,
    };
    let (path, before, after) = (path.to_owned(), version(expected), version(original));
    match (expected, original) {
        (PathState::Nothing, PathState::File(_)) => Some(StateChange::FileCreated {
            path,
            diff: None,
            after,
        }),
        (PathState::Folder, PathState::Nothing) => Some(StateChange::FileDeleted {
            path: format!("{path}/"),
            diff: None,
            before: None,
        }),
        (_, PathState::Nothing) => Some(StateChange::FileDeleted {
            path,
            diff: None,
            before,
        }),
        (PathState::File(_) | PathState::Folder | PathState::Unknown, PathState::File(_)) => {
            Some(StateChange::FileEdited {
                path,
                diff: None,
                before,
                after,
            })
        }
        (_, PathState::Folder | PathState::Unknown) => None,
    }
}
