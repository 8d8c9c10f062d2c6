//! The worktree of a run: offers to apply its changes when the run ends, and `apply`.

use std::path::{Path, PathBuf};

use dirigent::{
    AppliedWorktree, Builder, Dirigent, DirigentError, RepositoryError, RunId, RunWorktree, ToolSettings,
    UserPresence, WorktreeChanges,
};

use serde_json::json;

use crate::args::ApplyCommand;
use crate::config;
use crate::exit::Exit;
use crate::open::open_existing;
use crate::output::{Output, sanitize};
use crate::signals::ShutdownSignals;

/// After a run, offers to apply the changes in its worktree, or says how to apply them. Removes a worktree without changes. The offer
/// does not affect the run's outcome: an error is only reported, and after an error or a signal the worktree is kept.
pub(crate) async fn offer(
    dirigent: &Dirigent,
    run: RunId,
    user: UserPresence,
    signals: &mut ShutdownSignals,
    output: &Output,
) {
    let worktree = match dirigent.worktree(run).await {
        Ok(Some(worktree)) => worktree,
        Ok(None) => return,
        Err(error) => {
            output.error(&sanitize(&format!(
                "the worktree of the run cannot be read: {error}"
            )));
            return;
        }
    };
    let offered = offer_changes(&worktree, run, user, signals, output).await;
    if let Err(error) = &offered {
        output.error(&sanitize(&error.to_string()));
    }
    match offered {
        Ok(Offered::Settled) => {}
        Ok(Offered::Kept) | Err(_) => output.note(&kept_text(worktree.folder(), run)),
    }
}

/// The outcome of the offer to apply a worktree's changes.
enum Offered {
    /// The changes were applied, or there were none.
    Settled,
    /// The changes stay in the worktree.
    Kept,
}

async fn offer_changes(
    worktree: &RunWorktree,
    run: RunId,
    user: UserPresence,
    signals: &mut ShutdownSignals,
    output: &Output,
) -> Result<Offered, DirigentError> {
    let changes = tokio::select! {
        changes = worktree.changes() => changes?,
        _ = signals.next() => return Ok(Offered::Kept),
    };
    if changes.is_empty() {
        match worktree.remove_unneeded().await {
            Ok(true) => output.note("The worktree has no changes, so it was removed."),
            Ok(false) => {}
            Err(error) => output.error(&sanitize(&error.to_string())),
        }
        return Ok(Offered::Settled);
    }
    let is_wanted = match user {
        UserPresence::Present => ask(worktree, &changes, signals, output).await,
        UserPresence::Absent => false,
    };
    if !is_wanted {
        return Ok(Offered::Kept);
    }
    match apply_unless_killed(worktree, signals, output).await? {
        Some(applied) => {
            output.print(&applied_text(worktree, run, &applied));
            Ok(Offered::Settled)
        }
        None => Ok(Offered::Kept),
    }
}

/// Applies the changes in a worktree. The first Ctrl-C only prints a note, because git may already have changed some
/// files; a second Ctrl-C kills git. Returns `None` if git was killed.
async fn apply_unless_killed(
    worktree: &RunWorktree,
    signals: &mut ShutdownSignals,
    output: &Output,
) -> Result<Option<AppliedWorktree>, DirigentError> {
    let killed = async {
        signals.interrupted().await;
        output
            .note("applying the changes; press Ctrl-C again to kill git, which may leave some files changed");
        signals.interrupted().await;
    };
    tokio::select! {
        applied = worktree.apply() => applied.map(Some),
        () = killed => Ok(None),
    }
}

/// Asks whether to apply the changes, and shows them on request.
async fn ask(
    worktree: &RunWorktree,
    changes: &WorktreeChanges,
    signals: &mut ShutdownSignals,
    output: &Output,
) -> bool {
    let question = sanitize(&format!(
        "Apply the changes in {} to {}? [y/N/show] ",
        files(changes.paths().len()),
        worktree.origin().display()
    ));
    // Keys that were typed before the question was visible do not answer it.
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
    loop {
        let answer = tokio::select! {
            answer = output.ask_aside(&question) => answer.unwrap_or_default(),
            _ = signals.next() => {
                output.print("");
                return false;
            }
        };
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => return true,
            "s" | "show" => match changes.diff() {
                Ok(diff) => output.print_diff(&diff),
                Err(error) => output.error(&error.to_string()),
            },
            _ => return false,
        }
    }
}

/// Describes what was applied, and whether the worktree was removed.
fn applied_text(worktree: &RunWorktree, run: RunId, applied: &AppliedWorktree) -> String {
    let rest = if applied.is_removed {
        "The worktree was removed.".to_owned()
    } else {
        format!(
            "The worktree was kept, because `dirigent resume {}` can continue in it.",
            run.short()
        )
    };
    sanitize(&format!(
        "Applied the changes in {} to {}. {rest}",
        files(applied.paths.len()),
        worktree.origin().display()
    ))
}

/// Describes where the changes are, and how to apply or discard them.
pub(crate) fn kept_text(folder: &Path, run: RunId) -> String {
    let run = run.short();
    sanitize(&format!(
        "The changes are in the worktree {}.\nApply them with `dirigent apply {run}`, or discard them with `dirigent apply {run} --discard`.",
        folder.display()
    ))
}

pub(crate) async fn apply(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: &ApplyCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = open_existing(builder(file)?, db).await?;
    let run = dirigent.find(&command.run).await?;
    let Some(worktree) = dirigent.worktree(run).await? else {
        output.error(&format!(
            "run {} has no worktree: it worked directly in the folder, or the worktree was removed",
            run.short()
        ));
        return Ok(Exit::Usage);
    };
    if command.discard {
        worktree.discard().await?;
        output.print(&match command.json {
            true => json!({"run": run, "applied": [], "conflicts": [], "removed": true}).to_string(),
            false => "The worktree was removed; nothing was applied.".to_owned(),
        });
        return Ok(Exit::Success);
    }
    let mut signals = ShutdownSignals::listen()?;
    match apply_unless_killed(&worktree, &mut signals, output).await {
        Ok(None) => {
            output.note(&kept_text(worktree.folder(), run));
            Ok(Exit::Killed)
        }
        Ok(Some(applied)) if command.json => {
            let AppliedWorktree { paths, is_removed } = applied;
            let object = json!({"run": run, "applied": paths, "conflicts": [], "removed": is_removed});
            output.print(&object.to_string());
            Ok(Exit::Success)
        }
        Ok(Some(applied)) => {
            output.print(&applied_text(&worktree, run, &applied));
            Ok(Exit::Success)
        }
        Err(DirigentError::Repository(RepositoryError::Conflicts { paths })) if command.json => {
            let object = json!({"run": run, "applied": [], "conflicts": paths, "removed": false});
            output.print(&object.to_string());
            Ok(Exit::Usage)
        }
        Err(error @ DirigentError::Repository(RepositoryError::Conflicts { .. })) => {
            output.error(&sanitize(&error.to_string()));
            output.note(&sanitize(&format!(
                "Commit or undo your changes to them and try again, or merge by hand: the worktree is {}.",
                worktree.folder().display()
            )));
            Ok(Exit::Usage)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns a builder that takes only the sandbox settings, which apply to git, from the configuration, so that no model has to be
/// available.
fn builder(file: Option<PathBuf>) -> Result<Builder, DirigentError> {
    let settings = ToolSettings {
        sandbox: config::load(file, None)?.sandbox(),
        ..ToolSettings::default()
    };
    Ok(Dirigent::builder().tool_settings(settings))
}

fn files(number: usize) -> String {
    match number {
        1 => "1 file".to_owned(),
        number => format!("{number} files"),
    }
}
