//! What the keys of a person mean while a run goes on: guidance, a decision about a call, the answer to a question.
//!
//! Two rules make it safe to be interrupted by a dialog. What is being typed is never taken away: a dialog gets the keys only when the line
//! is empty. And nothing that was typed before a dialog could be seen goes to it (APPROVE-3): the caller shows it, gives what was
//! typed until then to [`PromptController::buffer_keys`], and only then calls [`PromptController::open`].

use std::collections::BTreeSet;

use dirigent::core::approval::{ApprovalAnswer, Decision, DecisionError};
use dirigent::core::id::{EffectId, Scope};
use dirigent::core::question::Question;
use dirigent::core::steering::Steering;
use dirigent::{DirigentError, RuntimeError};

use super::dialog::{DIALOG_HELP, DialogCommand, approval_lines, question_lines};
use super::editor::{EditResult, Editor, Prompt};
use super::keys::Key;
use crate::output::sanitize;
use crate::pending_requests::{PendingCall, PendingRequests};

/// What the caller does for the person.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Show these lines.
    Show(Vec<String>),
    /// Show these lines, then call [`PromptController::buffer_keys`] and [`PromptController::open`].
    Open(Vec<String>),
    /// Tell the run; what came of it goes to [`PromptController::on_result`].
    Send(Steering),
    /// Tell the run that nobody answers from now on.
    SetUserAbsent,
}

/// What was there of a run when this process took it up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HistoryCursor {
    /// Its last entry; zero for a new run.
    pub(crate) last_seq: u64,
    /// Whether its question has its answer.
    pub(crate) answered: bool,
}

/// How much a terminal shows at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TerminalSize {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// A call or question whatever its attempt.
type EffectKey = (Scope, u32);

/// The person's side of a run.
#[derive(Default)]
pub(crate) struct PromptController {
    /// Guidance that is being typed.
    draft: Editor,
    requests: PendingRequests,
    dialog: Option<ActiveDialog>,
    /// What the person will look at later.
    deferred: BTreeSet<EffectKey>,
    /// What needs nothing more from here.
    answered: BTreeSet<EffectKey>,
    /// Nobody answers any more.
    user_absent: bool,
}

/// What is on the table.
struct ActiveDialog {
    kind: RequestKind,
    line: Editor,
    /// Whether keys are for it.
    has_focus: bool,
    /// Whether parameters are being typed.
    editing_parameters: bool,
    /// The lines of it that are not shown yet.
    hidden_lines: Vec<String>,
}

enum RequestKind {
    Call(PendingCall),
    Question(EffectId, Question),
}

impl RequestKind {
    fn effect(&self) -> EffectId {
        match self {
            RequestKind::Call(waiting) => waiting.call.approval.effect,
            RequestKind::Question(effect, _) => *effect,
        }
    }
}

fn effect_key(effect: EffectId) -> EffectKey {
    (effect.scope, effect.step)
}

impl PromptController {
    /// Needs no answer from here: it was given on the command line.
    pub(crate) fn mark_answered(&mut self, effect: EffectId) {
        self.answered.insert(effect_key(effect));
    }

    /// Whether something is on the table.
    pub(crate) fn has_dialog(&self) -> bool {
        self.dialog.is_some()
    }

    /// What waits for the person now.
    pub(crate) fn update(&mut self, requests: PendingRequests, terminal_size: TerminalSize) -> Vec<Action> {
        self.requests = requests;
        let mut actions = Vec::new();
        if let Some(dialog) = &self.dialog
            && !self.requests.contains(dialog.kind.effect())
        {
            let effect = dialog.kind.effect();
            actions.push(Action::Show(vec![format!("  {effect} needs no answer any more")]));
            self.close_dialog();
        }
        actions.extend(self.open_next(terminal_size));
        actions
    }

    /// What was typed before what has just been shown could be seen. It stays on the line, and even Enter sends nothing.
    pub(crate) fn buffer_keys(&mut self, keys: Vec<Key>) {
        for key in keys
            .into_iter()
            .filter(|key| !matches!(key, Key::Enter | Key::Eof))
        {
            self.draft.press(key);
        }
    }

    /// What is on the table has been shown: it gets the keys once nothing else is being typed.
    pub(crate) fn open(&mut self) -> Vec<Action> {
        self.focus_dialog();
        match &self.dialog {
            Some(dialog) if !dialog.has_focus => {
                let effect = dialog.kind.effect();
                vec![Action::Show(vec![format!(
                    "  your line is kept: Enter sends it as guidance, Ctrl-U drops it; then you answer {effect}"
                )])]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// A key, pressed by someone who sees what was shown last.
    pub(crate) fn press(&mut self, key: Key, terminal_size: TerminalSize) -> Vec<Action> {
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

    /// What came of something that the run was told.
    pub(crate) fn on_result(
        &mut self,
        said: &Steering,
        error: Option<&DirigentError>,
        terminal_size: TerminalSize,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(error) = error {
            actions.push(Action::Show(vec![format!("  {}", sanitize(&error.to_string()))]));
        }
        let effect = match said {
            Steering::Decide { effect, .. } | Steering::Answer { effect, .. } => *effect,
            Steering::Guide { .. }
            | Steering::Redirect { .. }
            | Steering::GuideAgent { .. }
            | Steering::Cancel => return actions,
        };
        match error.map(is_retryable) {
            Some(true) => {
                if let (Some(dialog), Steering::Decide { decision, .. }) = (&mut self.dialog, said)
                    && let ApprovalAnswer::Edit { parameters } = &decision.answer
                {
                    (dialog.editing_parameters, dialog.line) =
                        (true, Editor::from_text(&parameters.to_string()));
                }
                return actions;
            }
            Some(false) | None => self.mark_answered(effect),
        }
        self.close_dialog();
        actions.extend(self.open_next(terminal_size));
        actions
    }

    /// What is drawn of what is being typed.
    pub(crate) fn prompt(&self) -> Prompt {
        match &self.dialog {
            Some(dialog) if dialog.has_focus => dialog.prompt(),
            Some(dialog) => self.draft.prompt(
                format!("guidance, before you answer {}: ", dialog.kind.effect()),
                "",
            ),
            None => self.draft.prompt("> ", self.hint()),
        }
    }

    fn hint(&self) -> String {
        let waiting = self
            .requests
            .calls
            .iter()
            .filter(|call| self.is_deferred(call))
            .count();
        let guide = "type guidance and Enter (! first: at once) · Ctrl-C cancels";
        match waiting {
            0 => guide.to_owned(),
            1 => format!("Enter shows the call that waits for you · {guide}"),
            calls => format!("Enter shows the {calls} calls that wait for you · {guide}"),
        }
    }

    fn is_deferred(&self, waiting: &PendingCall) -> bool {
        self.deferred.contains(&effect_key(waiting.call.approval.effect))
    }

    fn focus_dialog(&mut self) {
        if let Some(dialog) = &mut self.dialog {
            dialog.has_focus |= self.draft.is_empty();
        }
    }

    fn close_dialog(&mut self) {
        self.dialog = None;
    }

    /// Puts the next thing on the table, if it is free.
    fn open_next(&mut self, terminal_size: TerminalSize) -> Option<Action> {
        if self.dialog.is_some() || self.user_absent {
            return None;
        }
        let is_open = |effect| {
            !self.answered.contains(&effect_key(effect)) && !self.deferred.contains(&effect_key(effect))
        };
        let question = self
            .requests
            .question
            .iter()
            .filter(|(effect, _)| is_open(*effect));
        let question = question.map(|(effect, question)| RequestKind::Question(*effect, question.clone()));
        let calls = self
            .requests
            .calls
            .iter()
            .filter(|waiting| is_open(waiting.call.approval.effect));
        let kind = question.chain(calls.cloned().map(RequestKind::Call)).next()?;
        let (lines, hidden_lines) = match &kind {
            RequestKind::Call(waiting) => split_to_fit(approval_lines(waiting), terminal_size),
            RequestKind::Question(_, question) => (question_lines(question), Vec::new()),
        };
        self.dialog = Some(ActiveDialog {
            kind,
            line: Editor::default(),
            has_focus: false,
            editing_parameters: false,
            hidden_lines,
        });
        Some(Action::Open(lines))
    }

    fn set_user_absent(&mut self) -> Vec<Action> {
        if self.requests.is_empty() {
            return vec![Action::Show(vec![
                "  nothing waits for you; Ctrl-C cancels the run".to_owned(),
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
        let said = match line.strip_prefix('!').map(str::trim) {
            Some("") => return Vec::new(),
            Some(guidance) => Steering::Redirect {
                guidance: guidance.to_owned(),
            },
            None => Steering::Guide {
                guidance: line.to_owned(),
            },
        };
        vec![Action::Send(said)]
    }

    /// A whole line about what is on the table.
    fn answer(&mut self, line: String, terminal_size: TerminalSize) -> Vec<Action> {
        let Some(dialog) = &mut self.dialog else {
            return Vec::new();
        };
        match &dialog.kind {
            RequestKind::Question(_, _) if line.trim().is_empty() => Vec::new(),
            RequestKind::Question(effect, question) => match question.choose(&line) {
                Ok(answer) => vec![Action::Send(Steering::Answer {
                    effect: *effect,
                    answer: answer.trim().to_owned(),
                })],
                Err(fault) => vec![Action::Show(vec![format!("  {}", sanitize(&fault.to_string()))])],
            },
            RequestKind::Call(waiting) => {
                let (effect, digest) = (waiting.call.approval.effect, waiting.call.approval.digest.clone());
                let answer = if dialog.editing_parameters {
                    dialog.edited(&line)
                } else {
                    match DialogCommand::parse(&line) {
                        DialogCommand::Later => {
                            self.deferred.insert(effect_key(effect));
                            self.close_dialog();
                            return self.open_next(terminal_size).into_iter().collect();
                        }
                        word => dialog.decided(word),
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

impl ActiveDialog {
    fn prompt(&self) -> Prompt {
        let effect = self.kind.effect();
        match (&self.kind, self.editing_parameters, self.hidden_lines.is_empty()) {
            (RequestKind::Question(_, _), _, _) => self
                .line
                .prompt("your answer: ", "Ctrl-D leaves it for `dirigent resume`"),
            (RequestKind::Call(_), true, _) => self.line.prompt(
                format!("{effect}, parameters: "),
                "Enter goes back to a, e, r, g or l; Ctrl-C cancels the run",
            ),
            (RequestKind::Call(_), false, true) => self.line.prompt(format!("{effect}: "), DIALOG_HELP),
            (RequestKind::Call(_), false, false) => self.line.prompt(
                format!("{effect}: "),
                format!("v shows all of it · {DIALOG_HELP}"),
            ),
        }
    }

    /// What a word decides; else what to show.
    fn decided(&mut self, word: DialogCommand) -> Result<ApprovalAnswer, Vec<String>> {
        match word {
            DialogCommand::Approve if !self.hidden_lines.is_empty() => Err(vec![
                "  nothing was decided: you have not seen all of it; v shows it".to_owned(),
            ]),
            DialogCommand::Approve => Ok(ApprovalAnswer::Approve),
            DialogCommand::Edit => {
                if let RequestKind::Call(waiting) = &self.kind {
                    self.editing_parameters = true;
                    self.line = Editor::from_text(&waiting.call.approval.parameters.to_string());
                }
                Err(Vec::new())
            }
            DialogCommand::Reject(reason) => Ok(ApprovalAnswer::Reject { reason }),
            DialogCommand::Guide(guidance) => Ok(ApprovalAnswer::Guide { guidance }),
            DialogCommand::View => Err(std::mem::take(&mut self.hidden_lines)),
            DialogCommand::Invalid(why) => Err(vec![format!("  {why}")]),
            // What is put off is no answer.
            DialogCommand::Later => Err(Vec::new()),
        }
    }

    /// The call with the parameters that were typed; else what to show.
    fn edited(&mut self, line: &str) -> Result<ApprovalAnswer, Vec<String>> {
        self.editing_parameters = false;
        if line.trim().is_empty() {
            return Err(vec!["  nothing was changed".to_owned()]);
        }
        match serde_json::from_str(line) {
            Ok(parameters) => {
                let shown = match &self.kind {
                    RequestKind::Call(waiting) => Some(&waiting.call.approval.parameters),
                    RequestKind::Question(_, _) => None,
                };
                if shown == Some(&parameters) {
                    return Err(vec![
                        "  nothing was changed, and nothing was decided: a approves it".to_owned(),
                    ]);
                }
                Ok(ApprovalAnswer::Edit { parameters })
            }
            Err(error) => {
                (self.editing_parameters, self.line) = (true, Editor::from_text(line));
                Err(vec![format!(
                    "  that is no JSON: {}",
                    sanitize(&error.to_string())
                )])
            }
        }
    }
}

/// Whether the person can say something else about the same call or question.
fn is_retryable(error: &DirigentError) -> bool {
    matches!(
        error,
        DirigentError::Runtime(
            RuntimeError::Decision {
                fault: DecisionError::Parameters(_) | DecisionError::Denied(_),
                ..
            } | RuntimeError::Answer { .. }
        )
    )
}

/// The lines that fit on the screen with what says what is missing, and the others. All of them where they fit.
fn split_to_fit(mut lines: Vec<String>, terminal_size: TerminalSize) -> (Vec<String>, Vec<String>) {
    let height = |line: &String| {
        console::measure_text_width(line)
            .div_ceil(terminal_size.columns.max(1))
            .max(1)
    };
    // The tree and the line for typing need some, too.
    let room = (terminal_size.rows / 2).max(6);
    if lines.iter().map(height).sum::<usize>() <= room {
        return (lines, Vec::new());
    }
    let all = lines.clone();
    let mut used = 0;
    let shown = lines.iter().take_while(|line| {
        used += height(line);
        used <= room
    });
    let shown = shown.count();
    let (hidden, characters) = (
        &all[shown..],
        all[shown..]
            .iter()
            .map(|line| line.chars().count())
            .sum::<usize>(),
    );
    let note = format!(
        "  … {} more lines, {characters} characters, are not shown: v shows all of it; only then can it be approved",
        hidden.len()
    );
    lines.truncate(shown);
    lines.push(console::style(note).yellow().to_string());
    (lines, all)
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
