//! `run` and `resume`: a run in this process, watched to its end.

use std::path::PathBuf;

use anyhow::Context;
use dirigent::{Dirigent, DirigentError, Event, EventKind, Goal, Report, RunHandle, UserPresence};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{ResumeCommand, RunCommand, Watching};
use crate::exit::Exit;
use crate::live::LiveTree;
use crate::output::{Output, coloured_diff, inert};
use crate::plain;
use crate::show::summary;

pub(crate) async fn open(db: Option<PathBuf>) -> Result<Dirigent, DirigentError> {
    let builder = Dirigent::builder();
    match db {
        Some(path) => builder.journal(path).build().await,
        None => builder.build().await,
    }
}

pub(crate) async fn start(db: Option<PathBuf>, command: RunCommand, output: &Output) -> anyhow::Result<Exit> {
    let dirigent = open(db).await?;
    let goal = Goal::new(command.goal)
        .workspace(command.workspace)
        .limits(command.limits.meaning())
        .user(presence(&command.watching));
    let run = dirigent.start(goal).await?;
    watch(&run, &command.watching, output).await
}

pub(crate) async fn resume(
    db: Option<PathBuf>,
    command: ResumeCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = open(db).await?;
    let run = dirigent.find(&command.run)?;
    let run = dirigent
        .resume(run, presence(&command.watching), command.answer)
        .await?;
    watch(&run, &command.watching, output).await
}

/// Somebody is there to answer if both ends of the conversation are a terminal.
pub(crate) fn presence(watching: &Watching) -> UserPresence {
    use std::io::IsTerminal;
    let attended = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if attended && !watching.non_interactive && !watching.json {
        UserPresence::Present
    } else {
        UserPresence::Absent
    }
}

/// Shows what happens until the run has ended. The first Ctrl-C cancels it, the second ends this process.
pub(crate) async fn watch(run: &RunHandle, watching: &Watching, output: &Output) -> anyhow::Result<Exit> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut screen = Screen::new(watching, output);
    let mut events = run.events();
    let mut cancelled = false;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(event) => screen.show(run, &event.map_err(DirigentError::from)?),
                None => break,
            },
            _ = interrupt.recv() => {
                if std::mem::replace(&mut cancelled, true) {
                    return Ok(Exit::Cancelled);
                }
                output.note("cancelling; Ctrl-C again kills");
                // It may have ended this very moment.
                let _ = run.cancel();
            }
            _ = terminate.recv() => {
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

fn conclude(
    report: &Report,
    events: &dirigent::Events,
    run: &RunHandle,
    watching: &Watching,
    output: &Output,
) {
    output.say(&format!(
        "\n{}",
        summary(events.view(), run.id(), watching.verbose)
    ));
    let diff = events.view().run().diff();
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
        } else if output.is_terminal() {
            Screen::Live(LiveTree::new())
        } else {
            Screen::Plain(output)
        }
    }

    fn show(&mut self, run: &RunHandle, event: &Event) {
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
            Screen::Live(tree) => {
                tree.show(event);
                if matches!(event.kind, EventKind::QuestionAsked { .. }) {
                    tree.suspend(|| ask(run));
                }
            }
        }
    }

    fn finish(self) {
        match self {
            Screen::Json(_) | Screen::Plain(_) => {}
            Screen::Live(tree) => tree.finish(),
        }
    }
}

/// Reads the answer in a thread of its own, which Ctrl-C does not wait for.
fn ask(run: &RunHandle) {
    let run = run.clone();
    std::thread::spawn(move || {
        let mut answer = String::new();
        let answered = console::Term::stderr().write_str("your answer: ").is_ok()
            && std::io::stdin().read_line(&mut answer).is_ok_and(|read| read > 0);
        // At the end of the input nobody can answer: the run is left for `resume`.
        let _ = if answered {
            run.answer(answer.trim())
        } else {
            run.cancel()
        };
    });
}
