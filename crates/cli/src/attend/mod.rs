//! The person at the terminal while a run goes on: what is typed, and what is asked.
//!
//! Keys come from the [`Keyboard`], which alone touches the terminal's mode; the [`Desk`] decides what they mean and does no IO; the
//! [`Person`] brings them together with the run and the screen.

mod desk;
mod dialog;
mod editor;
mod keyboard;
mod keys;

use std::collections::VecDeque;

use anyhow::Context;
use dirigent::{DirigentError, Event, EventKind, RunHandle, RunView};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) use desk::Past;
use desk::{Act, Desk, Sight};
pub(crate) use dialog::{approval_lines, question_lines};
pub(crate) use editor::Prompt;
use keyboard::Keyboard;
use keys::Key;

use crate::output::Output;
use crate::screen::Screen;
use crate::waits::Waits;

/// Who steers a run from its own terminal.
pub(crate) struct Person {
    /// None where the input is at its end, or is none that can be waited for.
    keyboard: Option<Keyboard>,
    /// Whether the run has been told that nobody answers.
    is_gone: bool,
    desk: Desk,
    past: Past,
    /// SIGCONT: the process was stopped and goes on.
    continued: Signal,
}

/// What a person did.
pub(crate) enum Typed {
    Keys(Vec<Key>),
    /// The process goes on after it was stopped, and the screen may be another.
    Continued,
    /// The terminal is closed, and was ours. The signal that says the same may come a moment later, or not at all.
    HungUp,
    /// The input is at its end.
    Gone,
}

impl Person {
    pub(crate) fn new(past: Past, output: &Output) -> anyhow::Result<Self> {
        let number = rustix::process::Signal::CONT.as_raw();
        Ok(Person {
            keyboard: Keyboard::new(output.can_redraw()),
            is_gone: false,
            desk: Desk::default(),
            past,
            continued: signal(SignalKind::from_raw(number)).context("cannot listen for SIGCONT")?,
        })
    }

    /// Whether that event needs no line of its own, as the person is asked.
    pub(crate) fn is_asked(&self, event: &Event) -> bool {
        let asks = matches!(
            event.kind,
            EventKind::ApprovalAsked { .. } | EventKind::QuestionAsked { .. }
        );
        asks && event.seq > self.past.last
    }

    /// What is typed next.
    pub(crate) async fn typed(&mut self) -> Typed {
        match &mut self.keyboard {
            Some(keyboard) => tokio::select! {
                keys = keyboard.keys() => match keys {
                    Some(keys) => Typed::Keys(keys),
                    None if keyboard.is_ours() => Typed::HungUp,
                    None => Typed::Gone,
                },
                _ = self.continued.recv() => Typed::Continued,
            },
            None if self.is_gone => std::future::pending().await,
            None => Typed::Gone,
        }
    }

    /// Something has happened in the run: there may be something to ask.
    pub(crate) async fn see(
        &mut self,
        event: &Event,
        view: &RunView,
        run: &RunHandle,
        screen: &mut Screen<'_>,
    ) {
        if event.seq <= self.past.last {
            // What the run's past asked was for others, or is answered by the command line.
            if let (EventKind::QuestionAsked { effect, .. }, true) = (&event.kind, self.past.answered) {
                self.desk.settle(*effect);
            }
            return;
        }
        match &mut self.keyboard {
            Some(keyboard) => {
                keyboard.claim();
            }
            None => return,
        }
        let acts = self.desk.look(Waits::of(view), sight());
        self.do_all(acts, run, screen).await;
        self.draw(screen);
    }

    /// Something was typed.
    pub(crate) async fn take(&mut self, typed: Typed, run: &RunHandle, screen: &mut Screen<'_>) {
        match typed {
            Typed::Keys(keys) => {
                let mut keys = VecDeque::from(keys);
                while let Some(key) = keys.pop_front() {
                    let acts = self.desk.press(key, sight());
                    if self.do_all(acts, run, screen).await {
                        // What came with that key was typed before what has just been shown.
                        self.desk.typed_before(std::mem::take(&mut keys).into());
                    }
                }
                self.draw(screen);
            }
            Typed::Continued => {
                if let Some(keyboard) = &mut self.keyboard {
                    keyboard.continued();
                }
                self.draw(screen);
            }
            Typed::HungUp | Typed::Gone => {
                self.hang_up();
                // A run that has just ended needs nobody.
                let _ = run.leave();
            }
        }
    }

    /// The terminal is closed: it is never read again.
    pub(crate) fn hang_up(&mut self) {
        (self.keyboard, self.is_gone) = (None, true);
    }

    /// Whether something new is on the table.
    async fn do_all(&mut self, acts: Vec<Act>, run: &RunHandle, screen: &mut Screen<'_>) -> bool {
        let (mut acts, mut opened) = (VecDeque::from(acts), false);
        while let Some(act) = acts.pop_front() {
            match act {
                Act::Show(lines) => screen.tell(&lines),
                Act::Open(lines) => {
                    opened = true;
                    screen.tell(&lines);
                    let before = self.keyboard.as_mut().and_then(Keyboard::pending);
                    self.desk.typed_before(before.unwrap_or_default());
                    acts.extend(self.desk.open());
                }
                Act::Say(said) => {
                    let error = run.steer(said.clone()).await.err().map(DirigentError::from);
                    acts.extend(self.desk.told(&said, error.as_ref(), sight()));
                }
                Act::Leave => {
                    let _ = run.leave();
                }
            }
        }
        opened
    }

    fn draw(&self, screen: &mut Screen<'_>) {
        screen.prompt(&self.desk.prompt(), self.desk.is_asking());
    }
}

fn sight() -> Sight {
    let (rows, columns) = console::Term::stderr().size();
    Sight {
        rows: rows.into(),
        columns: columns.into(),
    }
}
