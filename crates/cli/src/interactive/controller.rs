//! Turns keys into guidance, decisions about calls and answers to questions.
//!
//! Two rules make it safe to open a dialog while the user is typing. First, the user's line is never lost: a dialog gets the focus only
//! once the line is empty. Second, a dialog receives no key that was typed before the dialog was visible (APPROVE-3): the caller shows the
//! dialog, passes the keys typed until then to [`PromptController::buffer_keys`], and only then calls [`PromptController::open`].

use std::collections::BTreeSet;

use dirigent::approval_rules::{CallPattern, Within};
use dirigent::events::{ApprovalAnswer, Decision, EffectId, Scope};
use dirigent::{DecisionError, DirigentError, RuntimeError, Steering};

use super::active_dialog::{ActiveDialog, RequestKind};
use super::always::AlwaysResult;
use super::dialog::DialogCommand;
use super::editor::{EditResult, Editor};
use super::keys::Key;
use crate::output::sanitize;
use crate::pending_requests::{PendingCall, PendingRequests};
use crate::prompt::Prompt;

/// An action for the caller to perform.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Show these lines.
    Show(Vec<String>),
    /// Show these lines, then call [`PromptController::buffer_keys`] and [`PromptController::open`].
    Open(Vec<String>),
    /// Send this message to the run, and pass the result to [`PromptController::on_result`].
    Send(Steering),
    /// Save a rule that allows these calls, then call [`PromptController::rule_saved`]. The run applies the rule immediately, including
    /// to the call that the user was asked about.
    Always { calls: CallPattern, within: Within },
    /// Let the user edit this text in their editor, and pass the new text to [`PromptController::edited`]. Without an editor, call
    /// [`PromptController::edit_in_line`].
    Edit(String),
    /// Cancel the run.
    Cancel,
    /// Tell the run that the user is absent from now on.
    SetUserAbsent,
}

/// The part of a run that had already happened when this process took it over. The default is for a new run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HistoryCursor {
    /// The number of the last journal entry; 0 for a new run.
    pub(crate) last_seq: u64,
    /// Set if `--answer` answers the run's last question.
    pub(crate) answered: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TerminalSize {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// Identifies a call or question, without the number of the attempt.
type EffectKey = (Scope, u32);

/// The state of the interaction with the user.
#[derive(Default)]
pub(crate) struct PromptController {
    /// The guidance being typed.
    draft: Editor,
    requests: PendingRequests,
    dialog: Option<ActiveDialog>,
    /// Calls that the user has deferred with the command `later`.
    deferred: BTreeSet<EffectKey>,
    /// Calls and questions that are settled (answered, expired or withdrawn), so that no dialog opens for them.
    answered: BTreeSet<EffectKey>,
    /// Set by Ctrl-D: from then on, no dialog opens.
    user_absent: bool,
    /// Set in a chat, where Esc cancels the run.
    in_chat: bool,
}

fn effect_key(effect: EffectId) -> EffectKey {
    (effect.scope, effect.step)
}

impl PromptController {
    /// With `in_chat`, Esc cancels the run.
    pub(crate) fn new(in_chat: bool) -> Self {
        PromptController {
            in_chat,
            ..PromptController::default()
        }
    }

    /// Marks the calls that a saved rule approves as settled, and opens the dialog for the next request.
    pub(crate) fn rule_saved(&mut self, calls: &CallPattern, terminal_size: TerminalSize) -> Vec<Action> {
        let requests = &self.requests;
        let approved = requests
            .calls
            .iter()
            .filter(|pending| requests.approves(calls, pending));
        let approved = approved.map(|pending| effect_key(pending.call.approval.effect));
        self.answered.extend(approved);
        let is_settled = |dialog: &ActiveDialog| self.answered.contains(&effect_key(dialog.kind.effect()));
        if self.dialog.as_ref().is_some_and(is_settled) {
            self.close_dialog();
        }
        self.open_next(terminal_size).into_iter().collect()
    }

    /// Marks a call or question as settled, so that no dialog opens for it.
    pub(crate) fn mark_answered(&mut self, effect: EffectId) {
        self.answered.insert(effect_key(effect));
    }

    pub(crate) fn has_dialog(&self) -> bool {
        self.dialog.is_some()
    }

    /// Replaces the pending requests, closes a dialog whose request is no longer pending, and opens a dialog for the next request.
    pub(crate) fn update(&mut self, requests: PendingRequests, terminal_size: TerminalSize) -> Vec<Action> {
        self.requests = requests;
        let mut actions = Vec::new();
        if let Some(dialog) = &self.dialog
            && !self.requests.contains(dialog.kind.effect())
        {
            let effect = dialog.kind.effect();
            actions.push(Action::Show(vec![format!(
                "  {effect} no longer needs an answer"
            )]));
            self.close_dialog();
        }
        actions.extend(self.open_next(terminal_size));
        actions
    }

    /// Adds to the draft the keys that were typed before the dialog was visible. Ignores Enter, Esc and Ctrl-D.
    pub(crate) fn buffer_keys(&mut self, keys: Vec<Key>) {
        for key in keys
            .into_iter()
            .filter(|key| !matches!(key, Key::Enter | Key::Eof | Key::Escape))
        {
            self.draft.press(key);
        }
    }

    /// Gives the focus to the dialog, which is visible now. If the user is typing guidance, tells the user to finish it first.
    pub(crate) fn open(&mut self) -> Vec<Action> {
        self.focus_dialog();
        match &self.dialog {
            Some(dialog) if !dialog.has_focus => {
                let effect = dialog.kind.effect();
                vec![Action::Show(vec![format!(
                    "  your line is saved: Enter sends it as guidance, Ctrl-U deletes it; after that, answer {effect}"
                )])]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Handles a key. The caller passes only keys that were pressed after everything shown so far was visible.
    pub(crate) fn press(&mut self, key: Key, terminal_size: TerminalSize) -> Vec<Action> {
        if key == Key::Escape {
            if let Some(dialog) = &mut self.dialog
                && dialog.has_focus
                && dialog.leave_step()
            {
                return vec![Action::Show(vec!["  nothing was decided".to_owned()])];
            }
            return if self.in_chat {
                vec![Action::Cancel]
            } else {
                Vec::new()
            };
        }
        match &mut self.dialog {
            Some(dialog) if dialog.has_focus => match dialog.line.press(key) {
                EditResult::Editing => Vec::new(),
                EditResult::Eof => self.set_user_absent(),
                EditResult::Line(line) => self.answer(line, terminal_size),
            },
            Some(_) | None => {
                let actions = match self.draft.press(key) {
                    EditResult::Editing => Vec::new(),
                    EditResult::Eof => self.set_user_absent(),
                    EditResult::Line(line) => self.guide(line.trim(), terminal_size),
                };
                self.focus_dialog();
                actions
            }
        }
    }

    /// Handles the result of [`Action::Send`].
    pub(crate) fn on_result(
        &mut self,
        message: &Steering,
        error: Option<&DirigentError>,
        terminal_size: TerminalSize,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(error) = error {
            actions.push(Action::Show(vec![format!("  {}", sanitize(&error.to_string()))]));
        }
        let effect = match message {
            Steering::Decide { effect, .. } | Steering::Answer { effect, .. } => *effect,
            Steering::Guide { .. }
            | Steering::Redirect { .. }
            | Steering::GuideAgent { .. }
            | Steering::AllowCalls { .. }
            | Steering::ChangeTools { .. }
            | Steering::ShareWorkspace { .. }
            | Steering::Cancel => return actions,
        };
        match error.map(is_retryable) {
            Some(true) => {
                if let (Some(dialog), Steering::Decide { decision, .. }) = (&mut self.dialog, message)
                    && let ApprovalAnswer::Edit { parameters } = &decision.answer
                {
                    match dialog.draft {
                        Some(_) => actions.push(Action::Show(vec![
                            "  press e to continue editing your version of the plan".to_owned(),
                        ])),
                        None => {
                            (dialog.editing_parameters, dialog.line) =
                                (true, Editor::from_text(&parameters.to_string()));
                        }
                    }
                }
                return actions;
            }
            Some(false) | None => self.mark_answered(effect),
        }
        self.close_dialog();
        actions.extend(self.open_next(terminal_size));
        actions
    }

    pub(crate) fn prompt(&self) -> Prompt {
        match &self.dialog {
            Some(dialog) if dialog.has_focus => dialog.prompt(),
            Some(dialog) => self.draft.prompt(
                format!(
                    "guidance ({} is still waiting for your answer): ",
                    dialog.kind.effect()
                ),
                "",
            ),
            None => self.draft.prompt("> ", self.hint()),
        }
    }

    fn hint(&self) -> String {
        let deferred = self
            .requests
            .calls
            .iter()
            .filter(|call| self.is_deferred(call))
            .count();
        let guide = if self.in_chat {
            "text + Enter: send guidance (!text: interrupt and replan) · Esc: stop"
        } else {
            "text + Enter: send guidance (!text: interrupt and replan) · Ctrl-C: cancel"
        };
        match deferred {
            0 => guide.to_owned(),
            1 => format!("Enter: show the waiting call · {guide}"),
            calls => format!("Enter: show the {calls} waiting calls · {guide}"),
        }
    }

    fn is_deferred(&self, pending: &PendingCall) -> bool {
        self.deferred.contains(&effect_key(pending.call.approval.effect))
    }

    fn focus_dialog(&mut self) {
        if let Some(dialog) = &mut self.dialog {
            dialog.has_focus |= self.draft.is_empty();
        }
    }

    fn close_dialog(&mut self) {
        self.dialog = None;
    }

    /// Opens a dialog for the next question or call, unless one is open.
    fn open_next(&mut self, terminal_size: TerminalSize) -> Option<Action> {
        if self.dialog.is_some() || self.user_absent {
            return None;
        }
        let is_open = |effect| {
            !self.answered.contains(&effect_key(effect)) && !self.deferred.contains(&effect_key(effect))
        };
        let questions = self.requests.questions.iter();
        let questions = questions.filter(|asked| is_open(asked.effect));
        let questions = questions.cloned().map(RequestKind::Question);
        let calls = self
            .requests
            .calls
            .iter()
            .filter(|pending| is_open(pending.call.approval.effect));
        let kind = questions.chain(calls.cloned().map(RequestKind::Call)).next()?;
        let (dialog, lines) = ActiveDialog::new(kind, terminal_size);
        self.dialog = Some(dialog);
        Some(Action::Open(lines))
    }

    fn set_user_absent(&mut self) -> Vec<Action> {
        if self.requests.is_empty() {
            return vec![Action::Show(vec![
                "  no request is waiting for you; Ctrl-C cancels the run".to_owned(),
            ])];
        }
        self.user_absent = true;
        self.close_dialog();
        vec![Action::SetUserAbsent]
    }

    fn guide(&mut self, line: &str, terminal_size: TerminalSize) -> Vec<Action> {
        if line.is_empty() {
            self.deferred.clear();
            return self.open_next(terminal_size).into_iter().collect();
        }
        let message = match line.strip_prefix('!').map(str::trim) {
            Some("") => return Vec::new(),
            Some(guidance) => Steering::Redirect {
                guidance: guidance.to_owned(),
            },
            None => Steering::Guide {
                guidance: line.to_owned(),
            },
        };
        vec![Action::Send(message)]
    }

    /// Edits the parameters of the call in the dialog's line.
    pub(crate) fn edit_in_line(&mut self) {
        if let Some(dialog) = &mut self.dialog {
            dialog.edit_in_line();
        }
    }

    /// Handles the text that the user's editor has saved.
    pub(crate) fn edited(&mut self, text: String) -> Vec<Action> {
        let Some(dialog) = &mut self.dialog else {
            return Vec::new();
        };
        let RequestKind::Call(pending) = &dialog.kind else {
            return Vec::new();
        };
        let (effect, digest) = (pending.call.approval.effect, pending.call.approval.digest.clone());
        dialog.draft = Some(text.clone());
        let answer = dialog.edited_call(&text);
        (dialog.editing_parameters, dialog.line) = (false, Editor::default());
        match answer {
            Ok(answer) => {
                let decision = Decision { digest, answer };
                vec![Action::Send(Steering::Decide { effect, decision })]
            }
            Err(shown) => vec![Action::Show(shown)],
        }
    }

    /// Handles a line entered in the dialog.
    fn answer(&mut self, line: String, terminal_size: TerminalSize) -> Vec<Action> {
        let Some(dialog) = &mut self.dialog else {
            return Vec::new();
        };
        match &dialog.kind {
            RequestKind::Question(_) if line.trim().is_empty() => Vec::new(),
            RequestKind::Question(asked) => match asked.question.choose(&line) {
                Ok(answer) => vec![Action::Send(Steering::Answer {
                    effect: asked.effect,
                    answer: answer.trim().to_owned(),
                })],
                Err(error) => vec![Action::Show(vec![format!("  {}", sanitize(&error.to_string()))])],
            },
            RequestKind::Call(pending) => {
                let (effect, digest) = (pending.call.approval.effect, pending.call.approval.digest.clone());
                let proposed = pending
                    .proposal
                    .is_some()
                    .then(|| pending.call.approval.parameters.clone());
                if let Some(always) = &mut dialog.always {
                    return match always.answer(&line) {
                        AlwaysResult::Show(lines) => vec![Action::Show(lines)],
                        AlwaysResult::Back => {
                            dialog.always = None;
                            vec![Action::Show(vec!["  no rule was saved".to_owned()])]
                        }
                        AlwaysResult::Save(calls, within) => {
                            dialog.always = None;
                            vec![Action::Always { calls, within }]
                        }
                    };
                }
                let answer = if dialog.editing_parameters {
                    dialog.edited_call(&line)
                } else {
                    match DialogCommand::parse(&line) {
                        DialogCommand::Later => {
                            self.deferred.insert(effect_key(effect));
                            self.close_dialog();
                            return self.open_next(terminal_size).into_iter().collect();
                        }
                        DialogCommand::Always => {
                            return vec![Action::Show(
                                dialog.begin_always(&self.requests.folder, self.in_chat),
                            )];
                        }
                        command => match (command, &proposed) {
                            (DialogCommand::Edit, Some(plan)) => {
                                let text = dialog.draft.clone();
                                return vec![Action::Edit(text.unwrap_or_else(|| format!("{plan:#}")))];
                            }
                            (command, _) => dialog.decision(command),
                        },
                    }
                };
                match answer {
                    Ok(answer) => {
                        let decision = Decision { digest, answer };
                        vec![Action::Send(Steering::Decide { effect, decision })]
                    }
                    Err(shown) if shown.is_empty() => Vec::new(),
                    Err(shown) => vec![Action::Show(shown)],
                }
            }
        }
    }
}

/// Returns true if the call or question is still pending after the error, so that the user can enter something else.
fn is_retryable(error: &DirigentError) -> bool {
    matches!(
        error,
        DirigentError::Runtime(
            RuntimeError::Decision {
                error: DecisionError::Parameters(_) | DecisionError::Denied(_),
                ..
            } | RuntimeError::Answer { .. }
        )
    )
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
