//! Shows a run until it ends.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use dirigent::{
    Conversation, Delta, Dirigent, DirigentError, Events, Report, RunHandle, RunId, RunView, UserPresence,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::answer_stream::AnswerStream;
use crate::args::{WatchCommand, WatchOptions};
use crate::exit::Exit;
use crate::interactive::{HistoryCursor, InputEvent, InteractiveSession};
use crate::open::open_reading;
use crate::output::Output;
use crate::screen::Screen;
use crate::signals::{ShutdownSignal, ShutdownSignals};
use crate::summary::{detail, summary};

/// Shows a run that another process owns, until it ends or no process owns it.
pub(crate) async fn follow(
    db: Option<PathBuf>,
    command: WatchCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let dirigent = open_reading(db).await?;
    let run = dirigent.find(&command.run).await?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let watching = WatchOptions {
        json: command.json,
        verbose: command.verbose,
        diff: command.diff,
        non_interactive: true,
        replayed: false,
        in_chat: false,
    };
    let mut screen = Screen::new(&watching, output);
    let mut events = dirigent.events(run, 0);
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { break };
                let event = event.map_err(DirigentError::from)?;
                screen.show(&event);
            }
            _ = interrupt.recv() => {
                screen.finish();
                output.note(&format!("stopped watching; run {} continues", run.short()));
                return Ok(Exit::Success);
            }
        }
    }
    screen.finish();
    if !watching.json {
        print_summary(&dirigent, &events, run, &watching, output).await?;
    }
    let end = events.with_view(|view| view.run().end().cloned()).flatten();
    if end.is_none() {
        output.note(&format!(
            "no process owns the run any more; continue it with `dirigent resume {}`",
            run.short()
        ));
    }
    Ok(Exit::from_end_reason(end.as_ref()))
}

/// Determines whether a user is present: input, output and error are all a terminal, and the options allow questions.
pub(crate) fn user_presence(watching: &WatchOptions, output: &Output) -> UserPresence {
    if output.is_interactive() && !watching.non_interactive && !watching.json {
        UserPresence::Present
    } else {
        UserPresence::Absent
    }
}

/// Shows a run of this process until it ends. The first Ctrl-C cancels the run; a second Ctrl-C, or a SIGTERM after the
/// cancellation, ends the process.
pub(crate) async fn watch(
    dirigent: &Dirigent,
    run: &RunHandle,
    signals: &mut ShutdownSignals,
    history: HistoryCursor,
    watching: &WatchOptions,
    output: &Output,
) -> anyhow::Result<Exit> {
    let Some(ended) = watch_to_end(dirigent, run, None, signals, history, watching, output).await? else {
        return Ok(Exit::Killed);
    };
    if !watching.json {
        print_summary(dirigent, &ended.events, run.id(), watching, output).await?;
    }
    // The services' programs may need a moment to save their data.
    dirigent.end_services().await;
    Ok(Exit::from_end_reason(ended.report.end.as_ref()))
}

/// A run that was shown until it ended.
pub(crate) struct EndedRun {
    pub(crate) report: Arc<Report>,
    pub(crate) events: Events,
    /// The answer stream of a chat; `None` if nothing was streamed.
    pub(crate) answer: Option<AnswerStream>,
}

/// Shows a run of this process until it ends, without its summary; `None` if the user killed it. In a chat, the run is a turn of
/// `conversation`.
pub(crate) async fn watch_to_end(
    dirigent: &Dirigent,
    run: &RunHandle,
    conversation: Option<&Conversation>,
    signals: &mut ShutdownSignals,
    history: HistoryCursor,
    watching: &WatchOptions,
    output: &Output,
) -> anyhow::Result<Option<EndedRun>> {
    let mut screen = Screen::new(watching, output);
    let mut session = match user_presence(watching, output) {
        UserPresence::Present => Some(InteractiveSession::new(dirigent, history, conversation, output)?),
        UserPresence::Absent => None,
    };
    let mut events = run.events(0);
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
                    session.handle_event(&event, &events, run, &mut screen).await;
                }
            }
            Some(delta) = next_delta(&mut deltas) => screen.show_delta(&delta),
            input = next_input(&mut session) => {
                if matches!(input, InputEvent::HungUp) && signals.handles_hang_up() {
                    cancelled = true;
                    let _ = run.cancel();
                    session.iter_mut().for_each(InteractiveSession::close_input);
                } else if let Some(session) = &mut session {
                    session.handle_input(input, run, &mut screen).await;
                }
            }
            signal = signals.next() => {
                match signal {
                    ShutdownSignal::Interrupted | ShutdownSignal::Terminated if cancelled => return Ok(None),
                    ShutdownSignal::Interrupted => screen.print_now(&["cancelling; press Ctrl-C again to kill the run".to_owned()]),
                    ShutdownSignal::Terminated => {}
                    ShutdownSignal::HungUp => session.iter_mut().for_each(InteractiveSession::close_input),
                }
                cancelled = true;
                // Fails only if the run has just ended.
                let _ = run.cancel();
            }
        }
    }
    // Restores the terminal's mode before the summary is printed.
    drop(session);
    let answer = screen.finish();
    let report = run.outcome().await.map_err(DirigentError::from)?;
    Ok(Some(EndedRun {
        report,
        events,
        answer,
    }))
}

/// Waits for the next input of the user; pending forever without a session.
async fn next_input(session: &mut Option<InteractiveSession>) -> InputEvent {
    match session {
        Some(session) => session.next_input().await,
        None => std::future::pending().await,
    }
}

/// Waits for the next piece of a model's reply. Pieces that arrived faster than they could be shown are skipped.
async fn next_delta(deltas: &mut Option<broadcast::Receiver<Delta>>) -> Option<Delta> {
    loop {
        match deltas.as_mut()?.recv().await {
            Ok(delta) => return Some(delta),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => *deltas = None,
        }
    }
}

/// Prints the summary of a run, and its diff if the user asked for it.
pub(crate) async fn print_summary(
    dirigent: &Dirigent,
    events: &Events,
    run: RunId,
    watching: &WatchOptions,
    output: &Output,
) -> anyhow::Result<()> {
    let Some(view) = events.with_view(RunView::clone) else {
        return Ok(());
    };
    output.print(&format!("\n{}", summary(&view, run, detail(watching.verbose))));
    let report = view.report();
    let short = run.short();
    if report.changed.is_empty() && report.changed_during_commands.is_empty() {
        // There are no changes to show or undo.
    } else if watching.diff {
        let diff = match watching.replayed {
            true => dirigent.diff_of(view).await?,
            false => dirigent.diff(run, None).await?,
        };
        output.print("");
        output.print_diff(&diff.bytes());
    } else if view.run().spec().worktree.is_some() {
        output.print(&format!("See the changes with `dirigent diff {short}`."));
    } else if !watching.replayed {
        output.print(&format!(
            "See the changes with `dirigent diff {short}`, undo them with `dirigent undo {short}`."
        ));
    }
    Ok(())
}
