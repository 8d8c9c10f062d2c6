//! `run` and `resume`: a run in this process, watched to its end.

use std::path::{Path, PathBuf};

use anyhow::Context;
use dirigent::{
    Builder, Config, Delta, Dirigent, DirigentError, Goal, Resume, RunHandle, RunId, UserPresence,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::agents;
use crate::args::{ForkCommand, ResumeCommand, RunCommand, WatchCommand, WatchOptions};
use crate::config;
use crate::exit::Exit;
use crate::interactive::{HistoryCursor, InputEvent, InteractiveSession};
use crate::output::{Output, coloured_diff, sanitize};
use crate::pending_messages::report_rejected;
use crate::replay::{self, RecordingFile};
use crate::screen::Screen;
use crate::show::{detail, summary};

/// To read the journal alone, or to ask the offline model: no configuration is in the way.
pub(crate) async fn open(db: Option<PathBuf>) -> Result<Dirigent, DirigentError> {
    build(Dirigent::builder(), db).await
}

/// For what is about a run that there must be already. Only a journal that was named must be there: where nothing has ever run, the
/// user's own is empty.
pub(crate) async fn open_existing(builder: Builder, db: Option<PathBuf>) -> Result<Dirigent, DirigentError> {
    let builder = if db.is_some() {
        builder.existing_journal()
    } else {
        builder
    };
    build(builder, db).await
}

/// To ask the configured models.
pub(crate) async fn open_configured(db: Option<PathBuf>, config: &Config) -> Result<Dirigent, DirigentError> {
    build(Dirigent::builder().config(config), db).await
}

pub(crate) async fn build(builder: Builder, db: Option<PathBuf>) -> Result<Dirigent, DirigentError> {
    match db {
        Some(path) => builder.journal(path).build().await,
        None => builder.build().await,
    }
}

pub(crate) async fn start(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: RunCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    if let Some(recording) = &command.replay {
        return replay::replay(db, file, recording, &command, output).await;
    }
    let config = config::load(file, command.model.model.clone())?;
    config::warn_unread_config(&config, &[Path::new("."), &command.workspace], output);
    config::warn_unconfined(&config, output);
    let record = RecordingFile::create(command.record.record.as_ref())?;
    let dirigent = open_configured(db, &config).await?;
    let known = tokio::task::block_in_place(|| dirigent.agents(Some(&command.workspace)));
    agents::warn_refused(&known, output);
    let limits = command.limits.with_defaults(config.limits());
    if limits.max_cost.is_some() {
        warn_unpriced(&config, output);
    }
    let goal = Goal::new(command.goal_text())
        .workspace(command.workspace)
        .limits(limits)
        .user(user_presence(&command.watching, output));
    let goal = command.agent_limits.apply(goal);
    let signals = ShutdownSignals::listen()?;
    let run = dirigent.start(goal).await?;
    let exit = watch(&run, signals, HistoryCursor::default(), &command.watching, output).await?;
    if exit == Exit::Failed && !command.watching.json {
        warn_no_model_chosen(&config, output);
    }
    if exit != Exit::Killed {
        record.write(&dirigent, run.id(), output)?;
    }
    Ok(exit)
}

/// Tells who bounds what a run costs that it has a model whose price nobody knows.
fn warn_unpriced(config: &Config, output: &Output) {
    for reference in config.used_models() {
        let unpriced = config
            .model(&reference)
            .is_ok_and(|model| model.provider.is_some() && model.price.is_none());
        if unpriced {
            output.note(&sanitize(&format!(
                "note: the cost limit has no effect for `{reference}`, whose price is not known: set its `price` (docs/models.md)"
            )));
        }
    }
}

/// Tells who has a key and got no further with the offline model that it was not asked.
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
    let record = RecordingFile::create(command.record.record.as_ref())?;
    let config = config::load(file, None)?;
    config::warn_unconfined(&config, output);
    let dirigent = open_existing(Dirigent::builder().config(&config), db).await?;
    let run = dirigent.find(&command.run)?;
    let runs = tokio::task::block_in_place(|| dirigent.runs())?;
    let history = HistoryCursor {
        // Entries are numbered from 1 without gaps.
        last_seq: runs
            .iter()
            .find(|record| record.run == run)
            .map_or(0, |record| record.entries),
        answered: command.answer.is_some(),
    };
    let messages = tokio::task::block_in_place(|| dirigent.pending_messages(run))?;
    let limits = match &command.limits {
        limits if limits.any_set() => {
            let (view, _) = tokio::task::block_in_place(|| dirigent.read(run))?;
            view.run()
                .spec()
                .map(|spec| limits.with_defaults(spec.limits.clone()))
        }
        _ => None,
    };
    let signals = ShutdownSignals::listen()?;
    let resume = Resume::new()
        .user(user_presence(&command.watching, output))
        .answer(command.answer)
        .limits(limits);
    let run = dirigent.resume(run, resume).await?;
    let exit = watch(&run, signals, history, &command.watching, output).await?;
    tokio::task::block_in_place(|| report_rejected(&dirigent, &messages, output))?;
    if exit != Exit::Killed {
        record.write(&dirigent, run.id(), output)?;
    }
    Ok(exit)
}

pub(crate) async fn fork(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: ForkCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let record = RecordingFile::create(command.record.record.as_ref())?;
    let config = config::load(file, None)?;
    config::warn_unconfined(&config, output);
    let dirigent = open_existing(Dirigent::builder().config(&config), db).await?;
    let source = tokio::task::block_in_place(|| dirigent.find(&command.run))?;
    let user = user_presence(&command.watching, output);
    let (record_of_source, id) = (
        tokio::task::block_in_place(|| dirigent.record(source))?,
        source.short(),
    );
    if let Some(pid) = record_of_source.owner_pid {
        output.note(&format!(
            "run {id} is owned by process {pid} in the same folder: what is under way in it may be started again here"
        ));
    }
    let signals = ShutdownSignals::listen()?;
    let run = dirigent.fork(source, command.at, command.guidance, user).await?;
    let forked = tokio::task::block_in_place(|| dirigent.record(run.id()))?.forked_from;
    let history = HistoryCursor {
        last_seq: forked.map_or(0, |point| point.seq),
        answered: false,
    };
    let exit = watch(&run, signals, history, &command.watching, output).await?;
    if exit != Exit::Killed {
        record.write(&dirigent, run.id(), output)?;
    }
    Ok(exit)
}

/// Shows what happens in a run that another process owns, until it has ended or nobody carries it out.
pub(crate) async fn follow(
    db: Option<PathBuf>,
    command: WatchCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = open_existing(Dirigent::builder(), db).await?;
    let run = tokio::task::block_in_place(|| dirigent.find(&command.run))?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let watching = WatchOptions {
        json: command.json,
        verbose: command.verbose,
        diff: command.diff,
        non_interactive: true,
        replayed: false,
    };
    let mut screen = Screen::new(&watching, output);
    let mut events = dirigent.follow(run);
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { break };
                screen.show(&event.map_err(DirigentError::from)?);
            }
            _ = interrupt.recv() => {
                screen.finish();
                output.note(&format!("not watching any more; run {} goes on", run.short()));
                return Ok(Exit::Success);
            }
        }
    }
    screen.finish();
    if !watching.json {
        print_summary(&events, run, &watching, output);
    }
    let end = events.view().run().end().cloned();
    if end.is_none() {
        output.note(&format!(
            "no process owns it any more; go on with `dirigent resume {}`",
            run.short()
        ));
    }
    Ok(Exit::from_end_reason(end.as_ref()))
}

/// Somebody is there to answer if all ends of the conversation are a terminal, and it may be used.
pub(crate) fn user_presence(watching: &WatchOptions, output: &Output) -> UserPresence {
    if output.is_interactive() && !watching.non_interactive && !watching.json {
        UserPresence::Present
    } else {
        UserPresence::Absent
    }
}

/// Shows what happens until the run has ended. The first Ctrl-C cancels it, the second ends this process; so does SIGTERM once it is
/// cancelled.
pub(crate) async fn watch(
    run: &RunHandle,
    mut signals: ShutdownSignals,
    history: HistoryCursor,
    watching: &WatchOptions,
    output: &Output,
) -> anyhow::Result<Exit> {
    let mut screen = Screen::new(watching, output);
    let mut session = match user_presence(watching, output) {
        UserPresence::Present => Some(InteractiveSession::new(history, output)?),
        UserPresence::Absent => None,
    };
    let mut events = run.events();
    let mut deltas = screen.shows_deltas().then(|| run.deltas());
    let mut cancelled = false;
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { break };
                let event = event.map_err(DirigentError::from)?;
                if !session.as_ref().is_some_and(|session| session.shows_as_dialog(&event)) {
                    screen.show(&event);
                }
                if let Some(session) = &mut session {
                    session.handle_event(&event, events.view(), run, &mut screen).await;
                }
            }
            Some(delta) = next_delta(&mut deltas) => screen.show_delta(&delta),
            typed = next_input(&mut session) => {
                if matches!(typed, InputEvent::HungUp) && signals.hang_up.is_some() {
                    cancelled = true;
                    let _ = run.cancel();
                    session.iter_mut().for_each(InteractiveSession::close_input);
                } else if let Some(session) = &mut session {
                    session.handle_input(typed, run, &mut screen).await;
                }
            }
            ending = signals.next() => {
                match ending {
                    ShutdownSignal::Interrupted | ShutdownSignal::Terminated if cancelled => return Ok(Exit::Killed),
                    ShutdownSignal::Interrupted => screen.print_now(&["cancelling; Ctrl-C again kills".to_owned()]),
                    ShutdownSignal::Terminated => {}
                    ShutdownSignal::HungUp => session.iter_mut().for_each(InteractiveSession::close_input),
                }
                cancelled = true;
                // It may have ended this very moment.
                let _ = run.cancel();
            }
        }
    }
    // The terminal is as it was before the summary is written.
    drop(session);
    screen.finish();
    let report = run.outcome().await.map_err(DirigentError::from)?;
    if !watching.json {
        print_summary(&events, run.id(), watching, output);
    }
    Ok(Exit::from_end_reason(report.end.as_ref()))
}

/// What the person does, if there is one.
async fn next_input(session: &mut Option<InteractiveSession>) -> InputEvent {
    match session {
        Some(session) => session.next_input().await,
        None => std::future::pending().await,
    }
}

/// The next piece of what a model says; pieces that went by too fast to be seen are left out.
async fn next_delta(deltas: &mut Option<broadcast::Receiver<Delta>>) -> Option<Delta> {
    loop {
        match deltas.as_mut()?.recv().await {
            Ok(delta) => return Some(delta),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => *deltas = None,
        }
    }
}

/// How the process was asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownSignal {
    Interrupted,
    Terminated,
    /// Its terminal is closed. It may be told so twice, by the system and by its shell.
    HungUp,
}

/// What asks the process to end: Ctrl-C, SIGTERM, Ctrl-\ (SIGQUIT), and SIGHUP where a terminal is closed.
///
/// Whoever sets a run going listens before: a signal that nobody listens for kills the process, and the run and what it has started
/// stay as they are. What comes while the run is being started counts once, as soon as it goes.
pub(crate) struct ShutdownSignals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    /// None where whoever started the process has it ignored, as `nohup` does.
    hang_up: Option<Signal>,
}

impl ShutdownSignals {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(ShutdownSignals {
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?,
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            quit: signal(SignalKind::quit()).context("cannot listen for SIGQUIT")?,
            hang_up: if is_sighup_ignored() {
                None
            } else {
                Some(signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?)
            },
        })
    }

    async fn next(&mut self) -> ShutdownSignal {
        let hung_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => ShutdownSignal::Interrupted,
            _ = self.terminate.recv() => ShutdownSignal::Terminated,
            _ = self.quit.recv() => ShutdownSignal::Terminated,
            _ = hung_up => ShutdownSignal::HungUp,
        }
    }
}

/// Waits for a Ctrl-C or SIGTERM, outside of any runtime.
pub(crate) fn wait_for_interrupt() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut signals = ShutdownSignals::listen()?;
        // A closed terminal may be told of twice.
        while signals.next().await == ShutdownSignal::HungUp {}
        Ok(())
    })
}

/// Whether the process was started with SIGHUP ignored, as far as the system tells.
fn is_sighup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // SIGHUP is signal 1, the lowest bit of the mask.
    ignored
        .and_then(|mask| u128::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

fn print_summary(events: &dirigent::Events, run: RunId, watching: &WatchOptions, output: &Output) {
    output.print(&format!(
        "\n{}",
        summary(events.view(), run, detail(watching.verbose))
    ));
    let diff = events.view().diff();
    if watching.diff && !diff.is_empty() {
        output.print(&coloured_diff(&sanitize(&diff)));
    } else if !diff.is_empty() && !watching.replayed {
        output.print(&format!(
            "See the changes with `dirigent diff {id}`, undo them with `dirigent undo {id}`.",
            id = run.short()
        ));
    }
}
