//! `diff` and `undo`: shows and undoes a run's changes to files.

use std::fmt::Write as _;
use std::path::PathBuf;

use dirigent::events::{StateChange, display_path};
use dirigent::report::during_command_title;
use dirigent::{
    CommandDiff, CommandFile, Dirigent, RefusedPath, RunDiff, Undo, UndoStep, Undone, UnfinishedCall,
};
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
    let diff = dirigent.diff(run, command.after).await?;
    let bytes = diff.bytes();
    for call in &diff.unfinished {
        output.note(&sanitize(&unfinished_text(call)));
    }
    if let Some(text) = also_changed_text(&diff) {
        output.note(&sanitize(&text));
    }
    if command.json {
        let files = diff.files.iter().map(|file| {
            let diff = String::from_utf8_lossy(&file.diff);
            json!({"path": file.path, "diff": diff, "also_changed": file.also_changed})
        });
        let whole = String::from_utf8_lossy(&bytes);
        let object = json!({
            "run": run,
            "files": files.collect::<Vec<_>>(),
            "commands": diff.commands.iter().map(command_as_json).collect::<Vec<_>>(),
            "diff": whole,
            "unfinished": diff.unfinished,
        });
        output.print(&object.to_string());
    } else if bytes.is_empty() {
        output.note("the run changed no files");
    } else {
        output.print_diff(&bytes);
    }
    Ok(Exit::Success)
}

/// Says which parts of the diff `git apply` may refuse; `None` if it accepts the whole diff.
fn also_changed_text(diff: &RunDiff) -> Option<String> {
    let files = diff.files.iter().filter(|file| file.also_changed);
    let paths: Vec<_> = files.map(|file| display_path(&file.path)).collect();
    (!paths.is_empty()).then(|| {
        format!(
            "`git apply` may refuse the diff of {}: commands or others changed the same file, which the diff leaves out",
            paths.join(", ")
        )
    })
}

fn command_as_json(command: &CommandDiff) -> Value {
    let files = command.files.iter().map(|file| {
        let diff = file.diff.as_deref().map(String::from_utf8_lossy);
        json!({"path": file.path, "kind": file.kind, "diff": diff})
    });
    let mut object =
        json!({"call": command.call, "command": command.command, "files": files.collect::<Vec<_>>()});
    if !command.in_parallel.is_empty() {
        object["in_parallel"] = json!(command.in_parallel);
    }
    object
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
    let mut undo = dirigent.undo(run, command.after).await?;
    if command.include_commands {
        undo = undo.include_commands().await?;
    }
    execute(undo, command, output).await
}

async fn execute(undo: Undo, command: &UndoCommand, output: &Output) -> anyhow::Result<Exit> {
    let mut preview = UndoPreview::new(undo, command);
    if !command.json {
        output.print(&sanitize(&preview.text(command, output)));
    }
    if preview.can_include_commands(command, output) && is_yes(output, INCLUDE_COMMANDS) {
        preview = UndoPreview::new(preview.undo.include_commands().await?, command);
        output.print(&sanitize(&preview.text(command, output)));
    }
    let is_refused = !preview.undo.refused().is_empty();
    let exit = if is_refused { Exit::Usage } else { Exit::Success };
    let idle = preview.steps.is_empty() || is_refused || command.dry_run;
    let undone = if !idle && is_confirmed(command, output) {
        Some(preview.undo.apply().await?)
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
    is_yes(output, "Undo these changes? [y/N] ")
}

fn is_yes(output: &Output, question: &str) -> bool {
    output.ask(question).is_some_and(|answer| {
        let answer = answer.trim().to_lowercase();
        answer == "y" || answer == "yes"
    })
}

/// Returns true if the user can be asked for confirmation.
fn can_confirm(command: &UndoCommand, output: &Output) -> bool {
    !command.json && output.is_interactive()
}

const INCLUDE_COMMANDS: &str = "Also undo changes made while commands were running? [y/N] ";

/// The steps of an undo, shown before it is applied.
struct UndoPreview {
    undo: Undo,
    steps: Vec<UndoStep>,
    refused: Vec<RefusedPath>,
    other_changes: Vec<String>,
}

impl UndoPreview {
    fn new(undo: Undo, command: &UndoCommand) -> Self {
        let refused = undo.refused().to_vec();
        let undo = if command.skip_changed {
            undo.skip_refused()
        } else {
            undo
        };
        UndoPreview {
            steps: undo.steps(),
            refused,
            other_changes: other_changes(undo.other_changes()),
            undo,
        }
    }

    /// Returns true if the user can be asked whether to also undo the changes made while commands were running.
    fn can_include_commands(&self, command: &UndoCommand, output: &Output) -> bool {
        let mut files = self
            .undo
            .during_commands()
            .iter()
            .flat_map(|command| &command.files);
        let is_restorable = files.any(|file| file.restorable);
        is_restorable
            && !self.undo.includes_commands()
            && !command.yes
            && !command.dry_run
            && can_confirm(command, output)
    }

    fn text(&self, command: &UndoCommand, output: &Output) -> String {
        let run = self.undo.run().short();
        let since = match self.undo.after() {
            0 => String::new(),
            entry => format!(" after entry {entry}"),
        };
        let mut text = String::new();
        if self.steps.is_empty() && self.refused.is_empty() {
            let who = match self.undo.during_commands() {
                [] => format!("run {run}"),
                _ => format!("the file tools of run {run}"),
            };
            let _ = writeln!(text, "Nothing to undo: {who} left no files changed{since}.");
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
        self.add_commands(&mut text);
        if !self.other_changes.is_empty() {
            let _ = writeln!(text, "Not undone, because only changes to files can be undone:");
        }
        for change in &self.other_changes {
            let _ = writeln!(text, "  {change}");
        }
        for call in self.undo.unfinished() {
            let _ = writeln!(text, "{}", unfinished_text(call));
        }
        let after = command
            .after
            .map_or_else(String::new, |entry| format!(" --after {entry}"));
        if !self.refused.is_empty() && !command.skip_changed {
            let _ = writeln!(
                text,
                "So nothing is undone. See the changes of the run with `dirigent diff {run}`; undo the other files with \
                 `dirigent undo {run}{after} --skip-changed`.",
            );
        }
        let is_left = !self.undo.includes_commands() && !self.undo.during_commands().is_empty();
        if is_left && !self.can_include_commands(command, output) {
            let _ = writeln!(
                text,
                "Changes made while commands were running are not undone. To undo them as well: `dirigent undo {run}{after} --include-commands`."
            );
        }
        text
    }

    /// Lists the files that changed while commands were running. If these changes are undone, lists only the files that cannot be
    /// restored.
    fn add_commands(&self, text: &mut String) {
        for command in self.undo.during_commands() {
            let is_undone = |file: &&CommandFile| self.undo.includes_commands() && file.restorable;
            let mut files = command.files.iter().filter(|file| !is_undone(file)).peekable();
            if files.peek().is_some() {
                let _ = writeln!(
                    text,
                    "Also {}:",
                    during_command_title(&command.command, &command.in_parallel)
                );
            }
            for CommandFile {
                path,
                kind,
                restorable,
            } in files
            {
                let note = match restorable {
                    true => "",
                    false => "  (cannot be restored: its content before or after the command is unknown)",
                };
                let _ = writeln!(text, "  {kind:<8}  {}{note}", display_path(path));
            }
        }
    }

    fn as_json(&self, undone: Option<&Undone>) -> Value {
        json!({
            "run": self.undo.run(),
            "after": self.undo.after(),
            "workspace": self.undo.workspace(),
            "steps": self.steps,
            "refused": self.refused,
            "commands": self.undo.during_commands(),
            "includes_commands": self.undo.includes_commands(),
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
                "  restore   {}  (also discards changes that a command or another program made between the run's changes)",
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

/// Lists the run's other changes, which are not file changes, without duplicates.
fn other_changes(changes: &[StateChange]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for change in changes {
        let text = if let StateChange::ProcessExited { command, .. } = change {
            format!("other effects of `{command}`")
        } else {
            change.to_string()
        };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}
