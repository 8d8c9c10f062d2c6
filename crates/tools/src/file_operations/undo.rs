//! `undo`: puts back what was in files before the run changed them.
//!
//! What is to be done is computed from the run's journal ([`dirigent_core::undo`]), as for the undoing of a whole run. A file that is not as the run left it stays as it
//! is: somebody else has written in it.

use std::collections::BTreeSet;

use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::{FileVersion, SeenFile, StateChange, ToolResult, code};
use dirigent_core::undo::{MoveBack, Restoration, Step, There, Undoing, is_within};
use serde_json::{Value, json};

use super::seen::{self, Extent};
use crate::blocking::cancelled;
use crate::text::{TextFile, unified_diff};
use crate::workspace::{FileFault, Past, Workspace};
use crate::{ChangedByRun, Contents, ToolContext};

/// What could not be put back, and why.
struct Left {
    path: String,
    because: String,
}

impl Left {
    fn new(path: &str, because: impl Into<String>) -> Self {
        Left {
            path: path.to_owned(),
            because: because.into(),
        }
    }

    fn of(path: &str, fault: &FileFault) -> Self {
        match fault {
            FileFault::Changed { .. } => Left::new(path, "it has changed since the run changed it"),
            fault => Left::new(path, fault.to_string()),
        }
    }
}

#[derive(Default)]
struct Undone {
    paths: Vec<String>,
    /// What commands alone have made or changed: what was there before is not known.
    by_commands: Vec<String>,
    left: Vec<Left>,
    changes: Vec<StateChange>,
    seen: Vec<SeenFile>,
}

/// Puts a file, or what is below a folder, back; all that the run has changed where no path is given.
pub(super) fn undo(
    context: &ToolContext,
    workspace: &Workspace,
    path: Option<&str>,
) -> Result<ToolResult, FileFault> {
    let place = path.map(|path| workspace.canonical_of_itself(path)).transpose()?;
    let Some(contents) = context.contents.as_deref() else {
        return Ok(unknown("nothing is kept here of what is in files"));
    };
    let changed = match contents.changed() {
        Ok(changed) => changed,
        Err(error) => return Ok(unknown(&error)),
    };
    let changed = within(changed, place.as_deref());
    if let (Some(place), true) = (&place, changed.undoing.is_empty() && changed.untold.is_empty()) {
        let error = format!("this run has not changed `{place}`, so there is nothing to undo");
        return Ok(ToolResult::failure(error).with_code(code::NOT_FOUND));
    }
    Ok(Undoer {
        context,
        workspace,
        contents,
        left_by_run: left_by_run(&changed.undoing),
        done: Undone::default(),
    }
    .undo(changed))
}

fn unknown(why: &str) -> ToolResult {
    let error = format!("what this run has changed is not known: {why}; nothing was undone");
    ToolResult::failure(error).with_code(code::NOT_KEPT)
}

/// What is at or below a place, with what hangs together with nothing else.
fn within(changed: ChangedByRun, place: Option<&str>) -> ChangedByRun {
    let Some(place) = place.filter(|place| *place != ".") else {
        return changed;
    };
    let ChangedByRun { undoing, mut untold } = changed;
    let others = undoing.steps.iter().flat_map(|step| match step {
        Step::Restore(Restoration { path, .. }) => vec![path.clone()],
        Step::Move(MoveBack { from, to, .. }) => vec![from.clone(), to.clone()],
    });
    let others: BTreeSet<String> = others.filter(|path| !is_within(path, place)).collect();
    untold.retain(|(path, _)| is_within(path, place));
    ChangedByRun {
        undoing: undoing.without(&others),
        untold,
    }
}

struct Undoer<'a> {
    context: &'a ToolContext,
    workspace: &'a Workspace,
    contents: &'a dyn Contents,
    /// The files that the run left, with the digests of their contents.
    left_by_run: Vec<(String, String)>,
    done: Undone,
}

impl Undoer<'_> {
    fn undo(mut self, changed: ChangedByRun) -> ToolResult {
        let ChangedByRun { undoing, untold } = changed;
        let mut rest: Undoing = undoing;
        while !rest.steps.is_empty() {
            if self.context.cancel.is_cancelled() {
                return cancelled()
                    .with_changes(self.done.changes)
                    .with_seen(self.done.seen);
            }
            let step = rest.steps.remove(0);
            let attempt = match &step {
                Step::Restore(restoration) => self.put_back(restoration),
                Step::Move(back) => self.move_back(back),
            };
            if let Err(left) = attempt {
                let touched = match step {
                    Step::Restore(Restoration { path, .. }) => BTreeSet::from([path]),
                    Step::Move(MoveBack { from, to, .. }) => BTreeSet::from([from, to]),
                };
                let kept = rest.clone().without(&touched);
                let because = format!("it hangs together with `{}`", left.path);
                let dropped = rest.steps.iter().filter(|step| !kept.steps.contains(step));
                let hang_together: Vec<Left> = dropped
                    .map(|step| Left::new(path_of(step), because.clone()))
                    .collect();
                self.done.left.push(left);
                self.done.left.extend(hang_together);
                rest = kept;
            }
        }
        for (path, version) in untold {
            self.look_at_untold(&path, version);
        }
        self.done.into_result()
    }

    fn put_back(&mut self, restoration: &Restoration) -> Result<(), Left> {
        let Restoration { path, now, then, .. } = restoration;
        // File tools know what they find and leave; commands don't.
        if *then == There::Unknown || (then, now) == (&There::Nothing, &There::Unknown) {
            self.done.by_commands.push(path.clone());
            return Ok(());
        }
        let there = self.there(path, now)?;
        if there == *then {
            return Ok(());
        }
        if *now == There::Unknown {
            return Err(Left::new(path, "a command has changed it since, or may have"));
        }
        if there != *now {
            return Err(Left::of(path, &FileFault::Changed { path: path.clone() }));
        }
        let present = match &there {
            There::File(_) => self.workspace.read(path).ok(),
            There::Nothing | There::Folder | There::Unknown => None,
        };
        seen::check(self.context, path, present.as_deref(), Extent::Whole)
            .map_err(|stale| Left::new(path, stale.to_string()))?;
        let kept = match then {
            There::File(version) => Some(self.kept(path, version)?),
            There::Nothing | There::Folder | There::Unknown => None,
        };
        let past = match (then, &kept) {
            (There::Nothing, _) => Past::Nothing,
            (There::Folder, _) => Past::Folder,
            (There::File(version), Some(bytes)) => Past::File(bytes, version.mode),
            (There::File(_) | There::Unknown, _) => {
                return Err(Left::new(path, "what it was is not known"));
            }
        };
        self.workspace
            .restore(path, now, past)
            .map_err(|fault| Left::of(path, &fault))?;
        self.done.paths.push(path.clone());
        let diff = diff(path, present.as_deref(), kept.as_deref());
        self.done
            .changes
            .extend(change(path, now, then).map(|change| change.with_diff(diff)));
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
    fn there(&self, path: &str, expected: &There) -> Result<There, Left> {
        let fault = |fault: FileFault| Left::of(path, &fault);
        let there = self.workspace.there(path).map_err(fault)?;
        let is_hollow = there == There::Folder
            && *expected == There::Nothing
            && self.workspace.is_free(path).map_err(fault)?;
        Ok(if is_hollow { There::Nothing } else { there })
    }

    fn kept(&self, path: &str, version: &FileVersion) -> Result<Vec<u8>, Left> {
        let kept = self.contents.kept(&version.digest);
        let kept = kept.map_err(|error| Left::new(path, error))?;
        kept.or_else(|| self.under_another_name(&version.digest))
            .ok_or_else(|| Left::new(path, "what was in it is not kept"))
    }

    /// The content of a file that was moved, which is kept nowhere else.
    fn under_another_name(&self, digest: &str) -> Option<Vec<u8>> {
        let (path, _) = self.left_by_run.iter().find(|(_, other)| other == digest)?;
        let bytes = self.workspace.read(path).ok()?;
        (sha256_hex(&bytes) == digest).then_some(bytes)
    }

    fn move_back(&mut self, back: &MoveBack) -> Result<(), Left> {
        let MoveBack { from, to, .. } = back;
        self.workspace
            .move_back(from, to)
            .map_err(|fault| Left::of(from, &fault))?;
        self.done.paths.push(to.clone());
        self.done.seen.extend(seen::moved(self.context, from, to));
        self.done.changes.push(StateChange::FileMoved {
            from: from.clone(),
            to: to.clone(),
            version: None,
        });
        Ok(())
    }

    /// A call that was cut off kept this and never told what became of it.
    fn look_at_untold(&mut self, path: &str, version: FileVersion) {
        let is_left = self.done.left.iter().any(|left| left.path == path);
        let same = self
            .workspace
            .there(path)
            .is_ok_and(|there| there == There::File(version));
        if !same && !is_left {
            let because = "a call that was cut off may have changed it, and never told";
            self.done.left.push(Left::new(path, because));
        }
    }
}

impl Undone {
    fn into_result(self) -> ToolResult {
        let left: Vec<Value> = self
            .left
            .iter()
            .map(|Left { path, because }| json!({"path": path, "because": because}))
            .collect();
        let output = json!({"undone": self.paths, "left": left, "by_commands": self.by_commands});
        let result = match self.left.first() {
            None => ToolResult::success(output),
            Some(Left { path, because }) => {
                let others = match self.left.len() {
                    1 => String::new(),
                    many => format!(" (and {} more)", many - 1),
                };
                let error =
                    format!("`{path}` is left as it is, as {because}{others}: see `left` in the output");
                ToolResult::failure(error)
                    .with_code(code::CHANGED)
                    .with_output(output)
            }
        };
        result.with_changes(self.changes).with_seen(self.seen)
    }
}

fn left_by_run(undoing: &Undoing) -> Vec<(String, String)> {
    let files = undoing.steps.iter().filter_map(|step| match step {
        Step::Restore(Restoration {
            path,
            now: There::File(version),
            ..
        }) => Some((path.clone(), version.digest.clone())),
        Step::Restore(_) | Step::Move(_) => None,
    });
    files.collect()
}

fn path_of(step: &Step) -> &str {
    match step {
        Step::Restore(restoration) => &restoration.path,
        Step::Move(back) => &back.from,
    }
}

fn diff(path: &str, now: Option<&[u8]>, then: Option<&[u8]>) -> Option<String> {
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| TextFile::decode(path, bytes)).transpose();
    let (Ok(now), Ok(then)) = (text(now), text(then)) else {
        return None;
    };
    unified_diff(
        path,
        now.as_ref().map(|file| file.text.as_str()),
        then.as_ref().map(|file| file.text.as_str()),
    )
}

/// What is told of it. A folder that is there again is none: folders are not told of.
fn change(path: &str, now: &There, then: &There) -> Option<StateChange> {
    let version = |there: &There| match there {
        There::File(version) => Some(version.clone()),
        There::Nothing | There::Folder | There::Unknown => None,
    };
    let (path, before, after) = (path.to_owned(), version(now), version(then));
    match (now, then) {
        (There::Nothing, There::File(_)) => Some(StateChange::FileCreated {
            path,
            diff: None,
            after,
        }),
        (There::Folder, There::Nothing) => Some(StateChange::FileDeleted {
            path: format!("{path}/"),
            diff: None,
            before: None,
        }),
        (_, There::Nothing) => Some(StateChange::FileDeleted {
            path,
            diff: None,
            before,
        }),
        (There::File(_) | There::Folder | There::Unknown, There::File(_)) => Some(StateChange::FileEdited {
            path,
            diff: None,
            before,
            after,
        }),
        (_, There::Folder | There::Unknown) => None,
    }
}
