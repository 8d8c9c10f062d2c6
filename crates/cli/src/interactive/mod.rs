//! Interaction with the person at the terminal during a run: guidance, decisions and answers.
//!
//! The [`Keyboard`] reads keys and is the only code that changes the terminal's mode. The [`PromptController`] interprets keys and does
//! no IO. The [`InteractiveSession`] connects both with the run and the screen.

mod active_dialog;
mod always;
mod controller;
mod dialog;
mod editor;
pub(crate) mod external_editor;
mod keyboard;
mod keys;

use std::collections::VecDeque;

use anyhow::Context;
use dirigent::approval_rules::{ApprovalRules, SavedRule};
use dirigent::{Conversation, Dirigent, DirigentError, Event, EventKind, Events, RunHandle, Steering};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) use controller::HistoryCursor;
use controller::{Action, PromptController, TerminalSize};
use keyboard::Keyboard;
use keys::Key;

use crate::output::{Output, sanitize};
use crate::pending_requests::PendingRequests;
use crate::screen::Screen;

/// The interaction with the user at the terminal of the process that executes the run.
pub(crate) struct InteractiveSession {
    /// `None` once standard input has ended, or if it cannot be polled.
    keyboard: Option<Keyboard>,
    /// Set once the end of the input has been reported to the run.
    input_closed: bool,
    controller: PromptController,
    /// The rules that always allow calls.
    rules: ApprovalRules,
    /// The conversation of which the run is a turn, in a chat.
    conversation: Option<Conversation>,
    history: HistoryCursor,
    /// SIGCONT, sent when a stopped process continues.
    continued: Signal,
}

/// Input from the terminal.
pub(crate) enum InputEvent {
    Keys(Vec<Key>),
    /// The process continues after it was stopped; the screen may have changed.
    Continued,
    /// The acquired terminal was closed. SIGHUP may follow a moment later, or not at all.
    HungUp,
    /// The input has ended.
    Eof,
}

impl InteractiveSession {
    /// Creates a session for a run of `dirigent`. In a chat, Esc cancels the run, and the memory of `conversation` answers messages about
    /// facts.
    pub(crate) fn new(
        dirigent: &Dirigent,
        history: HistoryCursor,
        conversation: Option<&Conversation>,
        output: &Output,
    ) -> anyhow::Result<Self> {
        let number = rustix::process::Signal::CONT.as_raw();
        Ok(InteractiveSession {
            keyboard: Keyboard::new(output.can_redraw()),
            input_closed: false,
            controller: PromptController::new(conversation.is_some()),
            rules: dirigent.approval_rules(),
            conversation: conversation.cloned(),
            history,
            continued: signal(SignalKind::from_raw(number)).context("cannot listen for SIGCONT")?,
        })
    }

    /// Returns true if a dialog shows the event, so that the event is not printed as a line as well.
    pub(crate) fn shows_as_dialog(&self, event: &Event) -> bool {
        let asks = matches!(
            event.kind,
            EventKind::ApprovalAsked { .. } | EventKind::QuestionAsked { .. }
        );
        asks && event.seq > self.history.last_seq
    }

    /// Waits for input; pending forever once the end of the input has been handled.
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

    /// Handles an event of the run, which may open or close a dialog.
    pub(crate) async fn handle_event(
        &mut self,
        event: &Event,
        events: &Events,
        run: &RunHandle,
        screen: &mut Screen<'_>,
    ) {
        if event.seq <= self.history.last_seq {
            // Events from before this process took over the run open no dialog. The run's last question may have been answered with
            // `--answer`.
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
        // A dialog must not open before the events that led to it are shown. If there are newer events, the dialog is opened only after
        // the newest of them.
        if let Some(pending) = events.with_current_view(PendingRequests::from_view) {
            let actions = self.controller.update(pending, terminal_size());
            self.perform(actions, run, screen).await;
        }
        self.draw(screen);
    }

    pub(crate) async fn handle_input(&mut self, input: InputEvent, run: &RunHandle, screen: &mut Screen<'_>) {
        match input {
            InputEvent::Keys(keys) => {
                let mut keys = VecDeque::from(keys);
                while let Some(key) = keys.pop_front() {
                    let actions = self.controller.press(key, terminal_size());
                    if self.perform(actions, run, screen).await {
                        // The remaining keys of this input were typed before the new dialog was shown.
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
                // Fails only if the run has just ended.
                let _ = run.set_user_absent();
            }
        }
    }

    /// Stops reading input permanently.
    pub(crate) fn close_input(&mut self) {
        (self.keyboard, self.input_closed) = (None, true);
    }

    /// Performs the actions, and all actions that result from them. Returns true if a dialog was opened.
    async fn perform(&mut self, actions: Vec<Action>, run: &RunHandle, screen: &mut Screen<'_>) -> bool {
        let (mut actions, mut opened) = (VecDeque::from(actions), false);
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Show(lines) => screen.print_now(&lines),
                Action::Open(lines) => {
                    opened = true;
                    screen.print_now(&lines);
                    let typed_before = self.keyboard.as_mut().and_then(Keyboard::pending);
                    self.controller.buffer_keys(typed_before.unwrap_or_default());
                    actions.extend(self.controller.open());
                }
                Action::Send(message) => {
                    if let Some(answer) = self.answer_from_memory(&message).await {
                        screen.print_now(&answer);
                        continue;
                    }
                    let error = run.steer(message.clone()).await.err().map(DirigentError::from);
                    actions.extend(
                        self.controller
                            .on_result(&message, error.as_ref(), terminal_size()),
                    );
                }
                Action::Always { calls, within } => {
                    match self.rules.allow(run.id(), within, calls.clone()).await {
                        Ok(SavedRule { rule, .. }) => {
                            screen.print_now(&[format!(
                                "  rule {id} is saved; `dirigent approvals remove {id}` deletes it",
                                id = rule.id
                            )]);
                            actions.extend(self.controller.rule_saved(&calls, terminal_size()));
                        }
                        Err(error) => screen.print_now(&[format!("  {}", sanitize(&error.to_string()))]),
                    }
                }
                Action::Edit(text) => match external_editor::command() {
                    Some(editor) => actions.extend(self.edit(&editor, &text, screen)),
                    None => self.controller.edit_in_line(),
                },
                Action::Cancel => {
                    screen.print_now(&["  stopping the turn".to_owned()]);
                    // Fails only if the run has just ended.
                    let _ = run.cancel();
                }
                Action::SetUserAbsent => {
                    let _ = run.set_user_absent();
                }
            }
        }
        opened
    }

    /// Returns the lines to show if guidance in a chat is about facts to remember (INTENT-1). Such guidance is not sent to the run.
    async fn answer_from_memory(&self, message: &Steering) -> Option<Vec<String>> {
        let (Some(conversation), Steering::Guide { guidance }) = (&self.conversation, message) else {
            return None;
        };
        let answer = match conversation.answer_from_memory(guidance).await {
            Ok(answer) => answer?,
            Err(error) => error.to_string(),
        };
        let lines = answer.lines().filter(|line| !line.is_empty());
        Some(lines.map(|line| format!("  {}", sanitize(line))).collect())
    }

    /// Lets the user edit the text in their editor. Until the editor exits, only it uses the terminal.
    fn edit(&mut self, editor: &str, text: &str, screen: &Screen<'_>) -> Vec<Action> {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.release();
        }
        let edited =
            tokio::task::block_in_place(|| screen.suspend(|| external_editor::edit(editor, text, ".json")));
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.acquire();
        }
        match edited {
            Ok(text) => self.controller.edited(text),
            Err(error) => vec![Action::Show(vec![format!(
                "  {}",
                sanitize(&format!("{error:#}"))
            )])],
        }
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
