//! The person at the terminal while a run goes on: what is typed, and what is asked.
//!
//! Keys come from the [`Keyboard`], which alone touches the terminal's mode; the [`PromptController`] decides what they mean and does no IO; the
//! [`InteractiveSession`] brings them together with the run and the screen.

mod controller;
mod dialog;
mod editor;
mod keyboard;
mod keys;

use std::collections::VecDeque;

use anyhow::Context;
use dirigent::{DirigentError, Event, EventKind, RunHandle, RunView};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) use controller::HistoryCursor;
use controller::{Action, PromptController, TerminalSize};
pub(crate) use dialog::{approval_lines, question_lines};
pub(crate) use editor::Prompt;
use keyboard::Keyboard;
use keys::Key;

use crate::output::Output;
use crate::pending_requests::PendingRequests;
use crate::screen::Screen;

/// Who steers a run from its own terminal.
pub(crate) struct InteractiveSession {
    /// None where the input is at its end, or is none that can be waited for.
    keyboard: Option<Keyboard>,
    /// Whether the run has been told that nobody answers.
    input_closed: bool,
    controller: PromptController,
    history: HistoryCursor,
    /// SIGCONT: the process was stopped and goes on.
    continued: Signal,
}

/// What a person did.
pub(crate) enum InputEvent {
    Keys(Vec<Key>),
    /// The process goes on after it was stopped, and the screen may be another.
    Continued,
    /// The terminal is closed, and was ours. The signal that says the same may come a moment later, or not at all.
    HungUp,
    /// The input is at its end.
    Eof,
}

impl InteractiveSession {
    pub(crate) fn new(history: HistoryCursor, output: &Output) -> anyhow::Result<Self> {
        let number = rustix::process::Signal::CONT.as_raw();
        Ok(InteractiveSession {
            keyboard: Keyboard::new(output.can_redraw()),
            input_closed: false,
            controller: PromptController::default(),
            history,
            continued: signal(SignalKind::from_raw(number)).context("cannot listen for SIGCONT")?,
        })
    }

    /// Whether that event needs no line of its own, as the person is asked.
    pub(crate) fn shows_as_dialog(&self, event: &Event) -> bool {
        let asks = matches!(
            event.kind,
            EventKind::ApprovalAsked { .. } | EventKind::QuestionAsked { .. }
        );
        asks && event.seq > self.history.last_seq
    }

    /// What is typed next.
    pub(crate) async fn next_input(&mut self) -> InputEvent {
        match &mut self.keyboard {
            Some(keyboard) => tokio::select! {
                keys = keyboard.keys() => match keys {
                    Some(keys) => InputEvent::Keys(keys),
                    None if keyboard.is_acquired() => InputEvent::HungUp,
                    None => InputEvent::Eof,
                },
                _ = self.continued.recv() => InputEvent::Continued,
            },
            None if self.input_closed => std::future::pending().await,
            None => InputEvent::Eof,
        }
    }

    /// Something has happened in the run: there may be something to ask.
    pub(crate) async fn handle_event(
        &mut self,
        event: &Event,
        view: &RunView,
        run: &RunHandle,
        screen: &mut Screen<'_>,
    ) {
        if event.seq <= self.history.last_seq {
            // What the run's past asked was for others, or is answered by the command line.
            if let (EventKind::QuestionAsked { effect, .. }, true) = (&event.kind, self.history.answered) {
                self.controller.mark_answered(*effect);
            }
            return;
        }
        match &mut self.keyboard {
            Some(keyboard) => {
                keyboard.acquire();
            }
            None => return,
        }
        let actions = self
            .controller
            .update(PendingRequests::from_view(view), terminal_size());
        self.perform(actions, run, screen).await;
        self.draw(screen);
    }

    /// Something was typed.
    pub(crate) async fn handle_input(&mut self, typed: InputEvent, run: &RunHandle, screen: &mut Screen<'_>) {
        match typed {
            InputEvent::Keys(keys) => {
                let mut keys = VecDeque::from(keys);
                while let Some(key) = keys.pop_front() {
                    let actions = self.controller.press(key, terminal_size());
                    if self.perform(actions, run, screen).await {
                        // What came with that key was typed before what has just been shown.
                        self.controller.buffer_keys(std::mem::take(&mut keys).into());
                    }
                }
                self.draw(screen);
            }
            InputEvent::Continued => {
                if let Some(keyboard) = &mut self.keyboard {
                    keyboard.on_continue();
                }
                self.draw(screen);
            }
            InputEvent::HungUp | InputEvent::Eof => {
                self.close_input();
                // A run that has just ended needs nobody.
                let _ = run.set_user_absent();
            }
        }
    }

    /// The terminal is closed: it is never read again.
    pub(crate) fn close_input(&mut self) {
        (self.keyboard, self.input_closed) = (None, true);
    }

    /// Whether something new is on the table.
    async fn perform(&mut self, actions: Vec<Action>, run: &RunHandle, screen: &mut Screen<'_>) -> bool {
        let (mut actions, mut opened) = (VecDeque::from(actions), false);
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Show(lines) => screen.print_now(&lines),
                Action::Open(lines) => {
                    opened = true;
                    screen.print_now(&lines);
                    let before = self.keyboard.as_mut().and_then(Keyboard::pending);
                    self.controller.buffer_keys(before.unwrap_or_default());
                    actions.extend(self.controller.open());
                }
                Action::Send(said) => {
                    let error = run.steer(said.clone()).await.err().map(DirigentError::from);
                    actions.extend(self.controller.on_result(&said, error.as_ref(), terminal_size()));
                }
                Action::SetUserAbsent => {
                    let _ = run.set_user_absent();
                }
            }
        }
        opened
    }

    fn draw(&self, screen: &mut Screen<'_>) {
        screen.prompt(&self.controller.prompt(), self.controller.has_dialog());
    }
}

fn terminal_size() -> TerminalSize {
    let (rows, columns) = console::Term::stderr().size();
    TerminalSize {
        rows: rows.into(),
        columns: columns.into(),
    }
}
