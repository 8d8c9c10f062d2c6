//! `run`, `resume` and `fork`: a run in this process, shown until it ends.

use std::path::{Path, PathBuf};

use dirigent::{Config, Dirigent, Mode, Resume, RunId, RunRecord, StoreError, WhenShared};

use crate::agents;
use crate::args::{ForkCommand, KEEP, ResumeCommand, RunCommand, RunOptions};
use crate::config;
use crate::exit::Exit;
use crate::goal_text::goal_text;
use crate::interactive::HistoryCursor;
use crate::mcp;
use crate::open::{open_configured, open_existing};
use crate::output::{Output, sanitize};
use crate::pending_messages::report_rejected;
use crate::replay::{self, RecordingFile};
use crate::sharing::{self, Choice, Offer, WaitNotice};
use crate::signals::ShutdownSignals;
use crate::watch::{user_presence, watch};
use crate::workflow::{Asker, Requested};
use crate::worktree;

pub(crate) async fn start(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    mut command: RunCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    command.goal = goal_text(command.goal, command.file.as_deref(), output)?;
    if let Some(recording) = &command.replay {
        return replay::replay(db, file, recording, &command, output).await;
    }
    let requested = Requested::Words(command.goal.unwrap_or_default());
    start_new(db, file, requested, command.options, output).await
}

/// Starts a new run, and shows it until it ends.
pub(crate) async fn start_new(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    requested: Requested,
    command: RunOptions,
    output: &Output,
) -> anyhow::Result<Exit> {
    let mode = match (Mode::from(command.mode), command.yes) {
        (Mode::Auto, true) => {
            output.error(
                "--yes has no effect in the default mode, which does not ask for approval of plans: add `--mode plan`",
            );
            return Ok(Exit::Usage);
        }
        (Mode::Plan | Mode::ApprovedPlan, true) => Mode::ApprovedPlan,
        (mode, false) => mode,
    };
    let config = config::load(file, command.model.model.clone())?;
    config::warn_unread_config(&config, &[Path::new("."), &command.workspace], output);
    config::warn_unconfined(&config, output);
    let record = RecordingFile::create(command.record.record.as_ref()).await?;
    let dirigent = open_configured(db, &config).await?;
    let agents = dirigent.agents(Some(&command.workspace)).await?;
    agents::warn_refused(&agents, output);
    mcp::warn(&dirigent, &command.workspace, None, output).await?;
    let limits = command.limits.with_defaults(config.limits());
    if limits.max_cost.is_some() {
        warn_unpriced(&config, output);
    }
    let user = user_presence(&command.watching, output);
    let mut asker = Asker { output, chat: None };
    let Some(goal) = requested
        .goal(&dirigent, &command.workspace, user, &mut asker)
        .await?
    else {
        return Ok(Exit::Cancelled);
    };
    let mut goal = goal.workspace(&command.workspace).limits(limits).user(user);
    if !mode.is_auto() {
        goal = goal.mode(mode);
    }
    if let Some(name) = command.prompt.system_prompt {
        goal = goal.system_prompt(name);
    }
    if command.keep {
        goal = goal.append(KEEP);
    }
    let (mut goal, notes) = command.agent_limits.apply(goal).include_files().await?;
    for note in notes {
        output.note(&sanitize(&format!("note: {note}")));
    }
    if command.no_instructions {
        goal = goal.without_instructions();
    }
    let (goal, waits) = if command.worktree {
        (goal.in_worktree(), WaitNotice::No)
    } else {
        // A folder that cannot be used is reported when the run starts.
        let others = dirigent
            .active_runs_in(&command.workspace)
            .await
            .unwrap_or_default();
        match sharing::choose(&others, command.wait, Offer::Worktree, user, output) {
            Choice::Wait => (goal.when_shared(WhenShared::Wait), WaitNotice::from_runs(&others)),
            Choice::GoOn => (goal, WaitNotice::No),
            Choice::Worktree => (goal.in_worktree(), WaitNotice::No),
            Choice::Cancel => return Ok(Exit::Cancelled),
        }
    };
    let mut signals = ShutdownSignals::listen()?;
    let starting = dirigent.start(goal);
    let run = match waits.start(&dirigent, starting, &mut signals, output).await? {
        Ok(run) => run,
        Err(exit) => return Ok(exit),
    };
    let history = HistoryCursor::default();
    let exit = watch(&dirigent, &run, &mut signals, history, &command.watching, output).await?;
    if exit == Exit::Failed && !command.watching.json {
        warn_no_model_chosen(&config, output);
    }
    if exit != Exit::Killed {
        let recorded = record.write(&dirigent, run.id(), output).await;
        worktree::offer(&dirigent, run.id(), user, &mut signals, output).await;
        recorded?;
    }
    Ok(exit)
}

/// Warns that a cost limit has no effect for models without a price.
fn warn_unpriced(config: &Config, output: &Output) {
    for reference in config.used_models() {
        let unpriced = config
            .model(&reference)
            .is_ok_and(|model| model.provider.is_some() && model.price.is_none());
        if unpriced {
            output.note(&sanitize(&format!(
                "note: the cost limit has no effect for `{reference}`: its price is unknown; set its `price` (docs/models.md)"
            )));
        }
    }
}

/// After a failed run, notes that the run used the offline model because no other model was chosen, if the user has set an API key.
fn warn_no_model_chosen(config: &Config, output: &Output) {
    if let Some(note) = config.no_model_chosen() {
        output.note(&sanitize(&format!("note: {note}")));
    }
}

pub(crate) async fn resume(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: ResumeCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let record = RecordingFile::create(command.record.record.as_ref()).await?;
    let config = config::load(file, None)?;
    config::warn_unconfined(&config, output);
    let dirigent = open_existing(Dirigent::builder().config(&config), db).await?;
    let run = dirigent.find(&command.run).await?;
    let history = HistoryCursor {
        // Entries are numbered from 1 without gaps, so the number of entries is the number of the last entry.
        last_seq: dirigent.record(run).await?.entries,
        answered: command.answer.is_some(),
    };
    let messages = dirigent.pending_messages(run).await?;
    let limits = if command.limits.any_set() {
        let (view, _) = dirigent.read(run).await?;
        let spec = view.run().spec();
        Some(command.limits.with_defaults(spec.limits.clone()))
    } else {
        None
    };
    let user = user_presence(&command.watching, output);
    let others = other_runs(&dirigent, run).await;
    let (when, waits) = match sharing::choose(&others, command.wait, Offer::NoWorktree, user, output) {
        Choice::Wait => (WhenShared::Wait, WaitNotice::from_runs(&others)),
        Choice::GoOn | Choice::Worktree => (WhenShared::GoOn, WaitNotice::No),
        Choice::Cancel => return Ok(Exit::Cancelled),
    };
    let mut signals = ShutdownSignals::listen()?;
    let resume = Resume::new()
        .user(user)
        .answer(command.answer)
        .limits(limits)
        .when_shared(when);
    let resuming = dirigent.resume(run, resume);
    let run = match waits.start(&dirigent, resuming, &mut signals, output).await {
        Ok(Ok(run)) => run,
        Ok(Err(exit)) => return Ok(exit),
        Err(error) => match error.store_error() {
            Some(StoreError::AlreadyClaimed { pid, .. }) if history.answered => {
                return report_unused_answer(&dirigent, run, *pid, output).await;
            }
            _ => return Err(error.into()),
        },
    };
    let exit = watch(&dirigent, &run, &mut signals, history, &command.watching, output).await?;
    report_rejected(&dirigent, &messages, output).await?;
    if exit != Exit::Killed {
        let recorded = record.write(&dirigent, run.id(), output).await;
        worktree::offer(&dirigent, run.id(), user, &mut signals, output).await;
        recorded?;
    }
    Ok(exit)
}

/// The other active runs in the folder of a run. Errors are reported when the run is resumed.
async fn other_runs(dirigent: &Dirigent, run: RunId) -> Vec<RunRecord> {
    let Ok(record) = dirigent.record(run).await else {
        return Vec::new();
    };
    // If another process owns the run, it is not resumed.
    if record.owner_pid.is_some() {
        return Vec::new();
    }
    dirigent
        .active_runs_in(record.workspace)
        .await
        .unwrap_or_default()
}

/// Reports that another process resumed the run first, so that the answer of this command was not used.
async fn report_unused_answer(
    dirigent: &Dirigent,
    run: RunId,
    pid: u32,
    output: &Output,
) -> anyhow::Result<Exit> {
    let (view, _) = dirigent.read(run).await?;
    let id = run.short();
    if !view.questions().is_empty() {
        output.error(&format!(
            "your answer was not used: process {pid} resumed run {id} first"
        ));
        output.note(&format!(
            "next: dirigent show {id}; if its question is still open: dirigent answer {id} \"…\""
        ));
    } else {
        output.error(&format!(
            "your answer was not used: the question of run {id} already has another answer, and process {pid} resumed the run"
        ));
        output.note(&format!("next: dirigent watch {id}"));
    }
    Ok(Exit::Usage)
}

pub(crate) async fn fork(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: ForkCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let record = RecordingFile::create(command.record.record.as_ref()).await?;
    let config = config::load(file, None)?;
    config::warn_unconfined(&config, output);
    let dirigent = open_existing(Dirigent::builder().config(&config), db).await?;
    let source = dirigent.find(&command.run).await?;
    let user = user_presence(&command.watching, output);
    if let Some(pid) = dirigent.record(source).await?.owner_pid {
        let id = source.short();
        output.note(&format!(
            "note: run {id} is still running in process {pid}, in the same folder; the fork may repeat work that is in progress there"
        ));
    }
    let mut signals = ShutdownSignals::listen()?;
    let forking = dirigent.fork(source, command.at, command.guidance, user);
    let started = WaitNotice::No.start(&dirigent, forking, &mut signals, output);
    let run = match started.await? {
        Ok(run) => run,
        Err(exit) => return Ok(exit),
    };
    let forked = dirigent.record(run.id()).await?.forked_from;
    let history = HistoryCursor {
        last_seq: forked.map_or(0, |point| point.seq),
        answered: false,
    };
    let exit = watch(&dirigent, &run, &mut signals, history, &command.watching, output).await?;
    if exit != Exit::Killed {
        let recorded = record.write(&dirigent, run.id(), output).await;
        worktree::offer(&dirigent, run.id(), user, &mut signals, output).await;
        recorded?;
    }
    Ok(exit)
}
