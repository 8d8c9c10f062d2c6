//! `journal`: checks, copies, exports, imports and deletes.

use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;

use dirigent::{
    Dirigent, DirigentError, JournalCheck, JournalSpace, PausedRuns, Pruned, PrunedRun, StoreError,
};
use indicatif::HumanBytes;
use serde_json::{Value, json};

use crate::args::{
    BackupCommand, CheckJournalCommand, ExportCommand, ImportCommand, JournalCommand, PruneCommand,
};
use crate::exit::Exit;
use crate::open::{open, open_existing, open_reading};
use crate::output::{Output, sanitize};
use crate::time::local;

pub(crate) async fn journal(
    db: Option<PathBuf>,
    command: JournalCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    match command {
        JournalCommand::Check(command) => check(db, &command, output).await,
        JournalCommand::Backup(command) => backup(db, command, output).await,
        JournalCommand::Export(command) => export(db, command, output).await,
        JournalCommand::Import(command) => import(db, command, output).await,
        JournalCommand::Prune(command) => prune(db, &command, output).await,
    }
}

async fn check(db: Option<PathBuf>, command: &CheckJournalCommand, output: &Output) -> anyhow::Result<Exit> {
    let check = open_reading(db).await?.check_journal().await?;
    if command.json {
        output.print(&check_json(&check).to_string());
    } else if check.problems.is_empty() {
        output.print(&format!(
            "No damage in {}, {}, {}.",
            count(check.runs, "run"),
            count(check.entries, "entry"),
            HumanBytes(check.bytes)
        ));
    }
    if check.problems.is_empty() {
        return Ok(Exit::Success);
    }
    if !command.json {
        for problem in &check.problems {
            output.print(&sanitize(&problem.to_string()).replace('\n', " "));
        }
        output.note(&format!(
            "{} found; restore the journal from a backup, or fork a damaged run from an entry before the damage",
            count(check.problems.len() as u64, "problem")
        ));
    }
    Ok(Exit::Failed)
}

fn check_json(check: &JournalCheck) -> Value {
    let problems = check
        .problems
        .iter()
        .map(|problem| json!({"run": problem.run, "entry": problem.entry, "problem": problem.problem}));
    json!({
        "runs": check.runs,
        "entries": check.entries,
        "bytes": check.bytes,
        "problems": problems.collect::<Vec<_>>(),
    })
}

async fn backup(db: Option<PathBuf>, command: BackupCommand, output: &Output) -> anyhow::Result<Exit> {
    let bytes = open_reading(db).await?.back_up_journal(&command.file).await?;
    output.print(&if command.json {
        json!({"file": command.file, "bytes": bytes}).to_string()
    } else {
        format!(
            "Copied the journal to {}, {}.",
            command.file.display(),
            HumanBytes(bytes)
        )
    });
    Ok(Exit::Success)
}

async fn export(db: Option<PathBuf>, command: ExportCommand, output: &Output) -> anyhow::Result<Exit> {
    let dirigent = open_reading(db).await?;
    let run = dirigent.find(&command.run).await?;
    if let Some(file) = command.file {
        dirigent.export_run(run, &file).await?;
        output.note(&format!(
            "Exported run {} to {}; import it with `dirigent --db OTHER journal import {}`.",
            run.short(),
            file.display(),
            file.display()
        ));
        return Ok(Exit::Success);
    }
    // Nothing is printed before the whole run has been checked.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("run.jsonl");
    dirigent.export_run(run, &file).await?;
    tokio::task::block_in_place(|| output.print_file(&mut File::open(file)?))?;
    Ok(Exit::Success)
}

async fn import(db: Option<PathBuf>, command: ImportCommand, output: &Output) -> anyhow::Result<Exit> {
    // If the file is missing, the journal must not be created.
    if let Err(error) = File::open(&command.file) {
        return Err(DirigentError::from(StoreError::unreadable_export(&command.file, error)).into());
    }
    let dirigent = open(db).await?;
    let run = dirigent.import_run(&command.file).await?;
    let record = dirigent.record(run).await?;
    output.print(&if command.json {
        json!({"run": run, "goal": record.goal, "entries": record.entries}).to_string()
    } else {
        format!(
            "Imported run {} with {}: {}",
            run.short(),
            count(record.entries, "entry"),
            first_line(&record.goal)
        )
    });
    Ok(Exit::Success)
}

async fn prune(db: Option<PathBuf>, command: &PruneCommand, output: &Output) -> anyhow::Result<Exit> {
    let paused = if command.paused {
        PausedRuns::Delete
    } else {
        PausedRuns::Keep
    };
    let older_than = command.older_than.into();
    let text = if command.dry_run {
        let runs = open_reading(db).await?.prunable_runs(older_than, paused).await?;
        if command.json {
            json!({"runs": runs_json(&runs)}).to_string()
        } else {
            runs_text(&runs, "Would delete")
        }
    } else {
        let dirigent = open_existing(Dirigent::builder(), db).await?;
        let pruned = dirigent.prune_runs(older_than, paused).await?;
        if command.json {
            pruned_json(&pruned).to_string()
        } else {
            pruned_text(&pruned)
        }
    };
    output.print(&text);
    Ok(Exit::Success)
}

fn runs_text(runs: &[PrunedRun], action: &str) -> String {
    if runs.is_empty() {
        return "No run is old enough to be deleted.".to_owned();
    }
    let mut text = format!("{action} {}:", count(runs.len() as u64, "run"));
    for run in runs {
        let _ = write!(
            text,
            "\n  {}  ended {}  {}  {}",
            run.run.short(),
            local(run.ended_at),
            count(run.entries, "entry"),
            first_line(&run.goal)
        );
    }
    text
}

fn pruned_text(pruned: &Pruned) -> String {
    let mut text = runs_text(&pruned.runs, "Deleted");
    let others = [
        (pruned.contents, "recorded content"),
        (pruned.lock_files, "unused lock file"),
    ];
    for (number, name) in others.into_iter().filter(|(number, _)| *number > 0) {
        let _ = write!(text, "\nDeleted {}.", count(number, name));
    }
    match pruned.space {
        JournalSpace::Freed(0) => {}
        JournalSpace::Freed(bytes) => {
            let _ = write!(text, "\nThe journal is smaller by {}.", HumanBytes(bytes));
        }
        JournalSpace::Reusable(bytes) => {
            let _ = write!(
                text,
                "\nThe journal is in use, so its file keeps its size; {} will be used for new entries.",
                HumanBytes(bytes)
            );
        }
    }
    text
}

fn pruned_json(pruned: &Pruned) -> Value {
    let (freed, reusable) = match pruned.space {
        JournalSpace::Freed(bytes) => (bytes, 0),
        JournalSpace::Reusable(bytes) => (0, bytes),
    };
    json!({
        "runs": runs_json(&pruned.runs),
        "contents": pruned.contents,
        "lock_files": pruned.lock_files,
        "freed_bytes": freed,
        "reusable_bytes": reusable,
    })
}

fn runs_json(runs: &[PrunedRun]) -> Vec<Value> {
    let object = |run: &PrunedRun| json!({"run": run.run, "goal": run.goal, "ended_at": run.ended_at, "entries": run.entries});
    runs.iter().map(object).collect()
}

fn first_line(goal: &str) -> String {
    let goal = sanitize(goal);
    goal.lines().next().unwrap_or_default().chars().take(80).collect()
}

/// `1 entry` or `2 entries`.
fn count(number: u64, name: &str) -> String {
    match (number, name.strip_suffix('y')) {
        (1, _) => format!("1 {name}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {name}s"),
    }
}
