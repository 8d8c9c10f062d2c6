//! `run` and `resume`: a run in this process, watched to its end.

use std::path::{Path, PathBuf};

use anyhow::Context;
use dirigent::config::Provider;
use dirigent::{
    Builder, Config, Delta, Dirigent, DirigentError, Event, Goal, Report, RunHandle, UserPresence,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::agents;
use crate::args::{ResumeCommand, RunCommand, Watching};
use crate::ask::{Asker, Past, Reply};
use crate::config;
use crate::exit::Exit;
use crate::live::LiveTree;
use crate::output::{Output, coloured_diff, inert};
use crate::plain;
use crate::replay::{self, Record};
use crate::show::{detail, summary};

/// To read the journal alone, or to ask the offline model: no configuration is in the way.
pub(crate) async fn open(db: Option<PathBuf>) -> Result<Dirigent, DirigentError> {
    build(Dirigent::builder(), db).await
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
    config::tell_unread(&config, &[Path::new("."), &command.workspace], output);
    let record = Record::to(command.record.record.as_ref())?;
    let dirigent = open_configured(db, &config).await?;
    let known = tokio::task::block_in_place(|| dirigent.agents(Some(&command.workspace)));
    agents::tell(&known, output);
    let limits = command.limits.over(config.limits());
    if limits.max_cost.is_some() {
        tell_unpriced(&config, output);
    }
    let goal = Goal::new(command.goal.unwrap_or_default())
        .workspace(command.workspace)
        .limits(limits)
        .user(presence(&command.watching, output));
    let run = dirigent.start(goal).await?;
    let exit = watch(&run, Past::default(), &command.watching, output).await?;
    if exit == Exit::Failed && !command.watching.json {
        tell_unchosen(&config, output);
    }
    if exit != Exit::Killed {
        record.write(&dirigent, run.id(), output)?;
    }
    Ok(exit)
}

/// Tells who bounds what a run costs that it has a model whose price nobody knows.
fn tell_unpriced(config: &Config, output: &Output) {
    for reference in config.used() {
        let unpriced = config
            .model(&reference)
            .is_ok_and(|model| model.provider != Provider::Offline && model.price.is_none());
        if unpriced {
            output.note(&inert(&format!(
                "note: the limit of money does not bound `{reference}`, whose price is not known: set its `price` (docs/models.md)"
            )));
        }
    }
}

/// Tells who has a key and got no further with the offline model that it was not asked.
fn tell_unchosen(config: &Config, output: &Output) {
    if let Some(note) = config.no_model_chosen() {
        output.note(&inert(&format!("note: {note}")));
    }
}

pub(crate) async fn resume(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: ResumeCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let record = Record::to(command.record.record.as_ref())?;
    let dirigent = open_configured(db, &config::load(file, None)?).await?;
    let run = dirigent.find(&command.run)?;
    let runs = tokio::task::block_in_place(|| dirigent.runs())?;
    let past = Past {
        // Entries are numbered from 1 without gaps.
        last: runs
            .iter()
            .find(|record| record.run == run)
            .map_or(0, |record| record.entries),
        answered: command.answer.is_some(),
    };
    let run = dirigent
        .resume(run, presence(&command.watching, output), command.answer)
        .await?;
    let exit = watch(&run, past, &command.watching, output).await?;
    if exit != Exit::Killed {
        record.write(&dirigent, run.id(), output)?;
    }
    Ok(exit)
}

/// Somebody is there to answer if all ends of the conversation are a terminal, and it may be used.
pub(crate) fn presence(watching: &Watching, output: &Output) -> UserPresence {
    if output.is_attended() && !watching.non_interactive && !watching.json {
        UserPresence::Present
    } else {
        UserPresence::Absent
    }
}

/// Shows what happens until the run has ended. The first Ctrl-C cancels it, the second ends this process.
pub(crate) async fn watch(
    run: &RunHandle,
    past: Past,
    watching: &Watching,
    output: &Output,
) -> anyhow::Result<Exit> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut ends = Ends::listen()?;
    let mut screen = Screen::new(watching, output);
    let mut asker = match presence(watching, output) {
        UserPresence::Present => Some(Asker::new(past)),
        UserPresence::Absent => None,
    };
    let mut events = run.events();
    let mut deltas = screen.streams().then(|| run.deltas());
    let mut cancelled = false;
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { break };
                let event = event.map_err(DirigentError::from)?;
                screen.show(&event);
                if let Some(asker) = &mut asker
                    && asker.is_new(&event, events.view())
                {
                    screen.pause();
                    asker.ask();
                }
            }
            Some(delta) = next_delta(&mut deltas) => screen.said(&delta),
            Some(reply) = next_reply(&mut asker) => {
                screen.go_on();
                reply.tell(run);
            }
            _ = interrupt.recv() => {
                if std::mem::replace(&mut cancelled, true) {
                    return Ok(Exit::Killed);
                }
                screen.note("cancelling; Ctrl-C again kills", output);
                // It may have ended this very moment.
                let _ = run.cancel();
            }
            () = ends.next() => {
                cancelled = true;
                let _ = run.cancel();
            }
        }
    }
    screen.finish();
    let report = run.outcome().await.map_err(DirigentError::from)?;
    if !watching.json {
        conclude(&report, &events, run, watching, output);
    }
    Ok(Exit::of_end(report.end.as_ref()))
}

async fn next_reply(asker: &mut Option<Asker>) -> Option<Reply> {
    match asker {
        Some(asker) => asker.reply().await,
        None => None,
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

/// What asks the process to end: SIGTERM, and SIGHUP where a terminal is closed.
struct Ends {
    terminate: Signal,
    /// None where whoever started the process has it ignored, as `nohup` does.
    hang_up: Option<Signal>,
}

impl Ends {
    fn listen() -> anyhow::Result<Self> {
        Ok(Ends {
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            hang_up: if hang_up_is_ignored() {
                None
            } else {
                Some(signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?)
            },
        })
    }

    async fn next(&mut self) {
        match &mut self.hang_up {
            Some(hang_up) => tokio::select! {
                _ = self.terminate.recv() => {}
                _ = hang_up.recv() => {}
            },
            None => {
                self.terminate.recv().await;
            }
        }
    }
}

/// Whether the process was started with SIGHUP ignored, as far as the system tells.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // SIGHUP is signal 1, the lowest bit of the mask.
    ignored
        .and_then(|mask| u128::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

fn conclude(
    report: &Report,
    events: &dirigent::Events,
    run: &RunHandle,
    watching: &Watching,
    output: &Output,
) {
    output.say(&format!(
        "\n{}",
        summary(events.view(), run.id(), detail(watching.verbose))
    ));
    let diff = events.view().diff();
    if watching.diff && !diff.is_empty() {
        output.say(&coloured_diff(&inert(&diff)));
    } else if !report.changed.is_empty() {
        output.say(&format!(
            "See the changes with `dirigent show {} --diff`.",
            run.id().short()
        ));
    }
}

/// How a run is shown while it goes on.
enum Screen<'a> {
    Json(&'a Output),
    Plain(&'a Output),
    Live(LiveTree),
}

impl<'a> Screen<'a> {
    fn new(watching: &Watching, output: &'a Output) -> Self {
        if watching.json {
            Screen::Json(output)
        } else if output.can_redraw() {
            Screen::Live(LiveTree::new())
        } else {
            Screen::Plain(output)
        }
    }

    fn show(&mut self, event: &Event) {
        match self {
            Screen::Json(output) => {
                if let Ok(line) = serde_json::to_string(event) {
                    output.say(&line);
                }
            }
            Screen::Plain(output) => {
                if let Some(text) = plain::lines(event) {
                    output.say(&text);
                }
            }
            Screen::Live(tree) => tree.show(event),
        }
    }

    /// Whether what models say is shown while they say it.
    fn streams(&self) -> bool {
        match self {
            Screen::Json(_) | Screen::Plain(_) => false,
            Screen::Live(_) => true,
        }
    }

    fn said(&mut self, delta: &Delta) {
        match self {
            Screen::Json(_) | Screen::Plain(_) => {}
            Screen::Live(tree) => tree.said(delta.agent, delta.turn, &delta.text),
        }
    }

    /// Draws nothing while the person writes.
    fn pause(&self) {
        match self {
            Screen::Json(_) | Screen::Plain(_) => {}
            Screen::Live(tree) => tree.pause(),
        }
    }

    fn go_on(&self) {
        match self {
            Screen::Json(_) | Screen::Plain(_) => {}
            Screen::Live(tree) => tree.go_on(),
        }
    }

    /// Something for the person that is no event.
    fn note(&self, text: &str, output: &Output) {
        match self {
            Screen::Live(tree) if tree.is_drawn() => tree.note(text),
            Screen::Json(_) | Screen::Plain(_) | Screen::Live(_) => output.note(text),
        }
    }

    fn finish(self) {
        match self {
            Screen::Json(_) | Screen::Plain(_) => {}
            Screen::Live(tree) => tree.finish(),
        }
    }
}
