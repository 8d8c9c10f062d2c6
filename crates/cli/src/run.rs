//! `run`, `resume` and `fork`: a run in this process, shown until it ends.

use std::path::{Path, PathBuf};

use dirigent::{Config, Dirigent, Goal, Mode, Resume, RunId, StoreError};

use crate::agents;
use crate::args::{ForkCommand, ModeChoice, ResumeCommand, RunCommand};
use crate::config;
use crate::exit::Exit;
use crate::interactive::HistoryCursor;
use crate::open::{open_configured, open_existing};
use crate::output::{Output, sanitize};
use crate::pending_messages::report_rejected;
use crate::replay::{self, RecordingFile};
use crate::signals::ShutdownSignals;
use crate::watch::{user_presence, watch};

pub(crate) async fn start(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: RunCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    if let Some(recording) = &command.replay {
        return replay::replay(db, file, recording, &command, output).await;
    }
    let mode = match (command.mode, command.yes) {
        (ModeChoice::Auto, false) => Mode::Auto,
        (ModeChoice::Auto, true) => {
            output.error(
                "--yes approves plans, and the default mode does not ask about them: add `--mode plan`",
            );
            return Ok(Exit::Usage);
        }
        (ModeChoice::Plan, false) => Mode::Plan,
        (ModeChoice::Plan, true) => Mode::ApprovedPlan,
    };
    let config = config::load(file, command.model.model.clone())?;
    config::warn_unread_config(&config, &[Path::new("."), &command.workspace], output);
    config::warn_unconfined(&config, output);
    let record = RecordingFile::create(command.record.record.as_ref()).await?;
    let dirigent = open_configured(db, &config).await?;
    let agents = dirigent.agents(Some(&command.workspace)).await?;
    agents::warn_refused(&agents, output);
    let limits = command.limits.with_defaults(config.limits());
    if limits.max_cost.is_some() {
        warn_unpriced(&config, output);
    }
    let goal = Goal::new(command.goal_text())
        .workspace(command.workspace)
        .limits(limits)
        .mode(mode)
        .user(user_presence(&command.watching, output));
    let goal = command.agent_limits.apply(goal);
    let signals = ShutdownSignals::listen()?;
    let run = dirigent.start(goal).await?;
    let exit = watch(&run, signals, HistoryCursor::default(), &command.watching, output).await?;
    if exit == Exit::Failed && !command.watching.json {
        warn_no_model_chosen(&config, output);
    }
    if exit != Exit::Killed {
        record.write(&dirigent, run.id(), output).await?;
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
    let signals = ShutdownSignals::listen()?;
    let resume = Resume::new()
        .user(user_presence(&command.watching, output))
        .answer(command.answer)
        .limits(limits);
    let run = match dirigent.resume(run, resume).await {
        Ok(run) => run,
        Err(error) => match error.store_error() {
            Some(StoreError::AlreadyClaimed { pid, .. }) if history.answered => {
                return report_unused_answer(&dirigent, run, *pid, output).await;
            }
            _ => return Err(error.into()),
        },
    };
    let exit = watch(&run, signals, history, &command.watching, output).await?;
    report_rejected(&dirigent, &messages, output).await?;
    if exit != Exit::Killed {
        record.write(&dirigent, run.id(), output).await?;
    }
    Ok(exit)
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
    if view.run().question().is_some() {
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
    let signals = ShutdownSignals::listen()?;
    let run = dirigent.fork(source, command.at, command.guidance, user).await?;
    let forked = dirigent.record(run.id()).await?.forked_from;
    let history = HistoryCursor {
        last_seq: forked.map_or(0, |point| point.seq),
        answered: false,
    };
    let exit = watch(&run, signals, history, &command.watching, output).await?;
    if exit != Exit::Killed {
        record.write(&dirigent, run.id(), output).await?;
    }
    Ok(exit)
}
