//! `diff` and `undo`: shows and undoes a run's changes to files.

use std::fmt::Write as _;
use std::path::PathBuf;

use dirigent::events::{StateChange, display_path};
use dirigent::{Dirigent, RefusedPath, Undo, UndoStep, Undone, UnfinishedCall};
use serde_json::{Value, json};

use crate::args::{DiffCommand, UndoCommand};
use crate::exit::Exit;
use crate::open::{open_existing, open_reading};
use crate::output::{Output, sanitize};

pub(crate) async fn diff(
    db: Option<PathBuf>,
    command: &DiffCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = open_reading(db).await?;
    let run = dirigent.find(&command.run).await?;
    let diff = dirigent.diff(run, command.to).await?;
    let bytes = diff.bytes();
    for call in &diff.unfinished {
        output.note(&sanitize(&unfinished_text(call)));
    }
    if command.json {
        let files = diff
            .files
            .iter()
            .map(|file| json!({"path": file.path, "diff": String::from_utf8_lossy(&file.diff)}));
        let whole = String::from_utf8_lossy(&bytes);
        let object = json!({"run": run, "files": files.collect::<Vec<_>>(), "diff": whole, "unfinished": diff.unfinished});
        output.print(&object.to_string());
    } else if bytes.is_empty() {
        output.note("the run changed no files");
    } else {
        output.print_diff(&bytes);
    }
    Ok(Exit::Success)
}

pub(crate) async fn undo(
    db: Option<PathBuf>,
    command: &UndoCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = if command.dry_run {
        open_reading(db).await?
    } else {
        open_existing(Dirigent::builder(), db).await?
    };
    let run = dirigent.find(&command.run).await?;
    execute(dirigent.undo(run, command.to).await?, command, output).await
}

async fn execute(undo: Undo, command: &UndoCommand, output: &Output) -> anyhow::Result<Exit> {
    let refused = undo.refused().to_vec();
    let undo = if command.skip_changed {
        undo.skip_refused()
    } else {
        undo
    };
    let preview = UndoPreview {
        steps: undo.steps(),
        refused,
        other_changes: other_changes(undo.other_changes()),
        undo: &undo,
    };
    let is_refused = !undo.refused().is_empty();
    let exit = if is_refused { Exit::Usage } else { Exit::Success };
    if !command.json {
        output.print(&sanitize(&preview.text(command)));
    }
    let idle = preview.steps.is_empty() || is_refused || command.dry_run;
    let undone = if !idle && is_confirmed(command, output) {
        Some(undo.apply().await?)
    } else {
        None
    };
    if command.json {
        output.print(&preview.as_json(undone.as_ref()).to_string());
    }
    match undone {
        Some(undone) => {
            if !command.json {
                output.print(&sanitize(&outcome_text(&undone)));
            }
            Ok(if undone.failed.is_empty() {
                Exit::Success
            } else {
                Exit::Failed
            })
        }
        None if idle => Ok(exit),
        None if can_confirm(command, output) => {
            output.note("nothing was undone");
            Ok(exit)
        }
        None => {
            output.note("nothing was undone: confirm with --yes");
            Ok(Exit::Usage)
        }
    }
}

/// Returns true if the user confirms the undo, with `--yes` or when asked.
fn is_confirmed(command: &UndoCommand, output: &Output) -> bool {
    if command.yes || !can_confirm(command, output) {
        return command.yes;
    }
    output.ask("Undo these changes? [y/N] ").is_some_and(|answer| {
        let answer = answer.trim().to_lowercase();
        answer == "y" || answer == "yes"
    })
}

/// Returns true if the user can be asked for confirmation.
fn can_confirm(command: &UndoCommand, output: &Output) -> bool {
    !command.json && output.is_interactive()
}

/// The steps of an undo, shown before it is applied.
struct UndoPreview<'a> {
    undo: &'a Undo,
    steps: Vec<UndoStep>,
    refused: Vec<RefusedPath>,
    other_changes: Vec<String>,
}

impl UndoPreview<'_> {
    fn text(&self, command: &UndoCommand) -> String {
        let run = self.undo.run().short();
        let since = match self.undo.to() {
            0 => String::new(),
            entry => format!(" after entry {entry}"),
        };
        let mut text = String::new();
        if self.steps.is_empty() && self.refused.is_empty() {
            let _ = writeln!(text, "Nothing to undo: run {run} left no changed file{since}.");
        } else if !self.steps.is_empty() {
            let _ = writeln!(
                text,
                "To undo the changes of run {run}{since} in {}:",
                self.undo.workspace().display()
            );
        }
        for step in &self.steps {
            let _ = writeln!(text, "{}", line(step));
        }
        if !self.refused.is_empty() {
            let _ = writeln!(text, "Cannot be undone:");
        }
        for refused in &self.refused {
            let _ = writeln!(text, "  {}", refusal_text(refused));
        }
        if !self.other_changes.is_empty() {
            let _ = writeln!(text, "Not undone, because only changes to files can be undone:");
        }
        for change in &self.other_changes {
            let _ = writeln!(text, "  {change}");
        }
        for call in self.undo.unfinished() {
            let _ = writeln!(text, "{}", unfinished_text(call));
        }
        if !self.refused.is_empty() && !command.skip_changed {
            let _ = writeln!(
                text,
                "So nothing is undone. See the changes of the run with `dirigent diff {run}`; undo the other files with \
                 `dirigent undo {run}{} --skip-changed`.",
                command.to.map_or_else(String::new, |to| format!(" --to {to}"))
            );
        }
        text
    }

    fn as_json(&self, undone: Option<&Undone>) -> Value {
        json!({
            "run": self.undo.run(),
            "to": self.undo.to(),
            "workspace": self.undo.workspace(),
            "steps": self.steps,
            "refused": self.refused,
            "other_changes": self.other_changes,
            "unfinished": self.undo.unfinished(),
            "undone": undone,
        })
    }
}

fn unfinished_text(call: &UnfinishedCall) -> String {
    format!("The changes of the call {call} are unknown, because the call was interrupted.")
}

fn line(step: &UndoStep) -> String {
    match step {
        UndoStep::Restore {
            path,
            changed_by_others: false,
        } => format!("  restore   {}", display_path(path)),
        UndoStep::Restore {
            path,
            changed_by_others: true,
        } => {
            format!(
                "  restore   {}  (also discards changes that others made in between)",
                display_path(path)
            )
        }
        UndoStep::Recreate { path } => format!("  recreate  {}", display_path(path)),
        UndoStep::Delete { path } => format!("  delete    {}", display_path(path)),
        UndoStep::Move { from, to } => {
            format!("  move      {} back to {}", display_path(from), display_path(to))
        }
    }
}

fn refusal_text(refused: &RefusedPath) -> String {
    format!("{} {}", display_path(&refused.path), refused.reason)
}

fn outcome_text(undone: &Undone) -> String {
    let mut text = match undone.done.len() {
        0 => String::new(),
        1 => "Undid the changes to 1 file.\n".to_owned(),
        files => format!("Undid the changes to {files} files.\n"),
    };
    if !undone.failed.is_empty() {
        text.push_str("Could not be undone:\n");
    }
    for refused in &undone.failed {
        let _ = writeln!(text, "  {}", refusal_text(refused));
    }
    text
}

/// The run's changes that are not changes to files, without duplicates.
fn other_changes(changes: &[StateChange]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for change in changes {
        let text = if let StateChange::ProcessExited { command, .. } = change {
            format!("changes made by `{command}`")
        } else {
            change.to_string()
        };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}
