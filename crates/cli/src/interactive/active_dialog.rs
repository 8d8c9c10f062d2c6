//! The open dialog about one call or question: the lines that are shown, and how input is interpreted.

use dirigent::events::{ApprovalAnswer, EffectId, OpenQuestion};

use super::always::AlwaysDialog;
use super::controller::TerminalSize;
use super::dialog::{DIALOG_HELP, DialogCommand};
use super::editor::Editor;
use crate::output::sanitize;
use crate::pending_requests::PendingCall;
use crate::prompt::Prompt;
use crate::request_text::{approval_lines, open_question_lines};

/// The open dialog about a call or question.
pub(super) struct ActiveDialog {
    pub(super) kind: RequestKind,
    pub(super) line: Editor,
    /// Set while key presses go to the dialog instead of the draft.
    pub(super) has_focus: bool,
    pub(super) editing_parameters: bool,
    /// Set while the user is choosing a rule that always allows such calls.
    pub(super) always: Option<AlwaysDialog>,
    /// An edited plan that was invalid, kept so that the user can correct it.
    pub(super) draft: Option<String>,
    /// All lines of a call that was shown only in part; empty once the whole call was shown.
    pub(super) hidden_lines: Vec<String>,
}

pub(super) enum RequestKind {
    Call(PendingCall),
    Question(OpenQuestion),
}

impl RequestKind {
    pub(super) fn effect(&self) -> EffectId {
        match self {
            RequestKind::Call(pending) => pending.call.approval.effect,
            RequestKind::Question(asked) => asked.effect,
        }
    }
}

impl ActiveDialog {
    /// Creates a dialog without focus, and returns it with the lines that show its request.
    pub(super) fn new(kind: RequestKind, terminal_size: TerminalSize) -> (Self, Vec<String>) {
        let (lines, hidden_lines) = match &kind {
            RequestKind::Call(pending) => split_to_fit(approval_lines(pending), terminal_size),
            RequestKind::Question(asked) => (open_question_lines(asked), Vec::new()),
        };
        let dialog = ActiveDialog {
            kind,
            line: Editor::default(),
            has_focus: false,
            editing_parameters: false,
            always: None,
            draft: None,
            hidden_lines,
        };
        (dialog, lines)
    }

    pub(super) fn prompt(&self) -> Prompt {
        let effect = self.kind.effect();
        if let Some(always) = &self.always {
            return self
                .line
                .prompt(format!("{effect}, {}", always.label()), "Enter alone goes back");
        }
        match (&self.kind, self.editing_parameters, self.hidden_lines.is_empty()) {
            (RequestKind::Question(_), _, _) => self
                .line
                .prompt("your answer: ", "Ctrl-D: answer later with `dirigent resume`"),
            (RequestKind::Call(_), true, _) => self.line.prompt(
                format!("{effect}, parameters: "),
                "Enter returns to the commands a, always, e, r, g and l; Ctrl-C cancels the run",
            ),
            (RequestKind::Call(_), false, true) => self.line.prompt(format!("{effect}: "), DIALOG_HELP),
            (RequestKind::Call(_), false, false) => self
                .line
                .prompt(format!("{effect}: "), format!("v whole call · {DIALOG_HELP}")),
        }
    }

    /// Leaves the step in which a rule is chosen or parameters are edited. Returns false if the dialog was in neither step.
    pub(super) fn leave_step(&mut self) -> bool {
        let was_in_step = self.always.take().is_some() || self.editing_parameters;
        if was_in_step {
            (self.editing_parameters, self.line) = (false, Editor::default());
        }
        was_in_step
    }

    /// Starts the choice of a rule for such calls, but only after the whole call has been shown. Returns the lines to show.
    pub(super) fn begin_always(&mut self, folder: &str, in_chat: bool) -> Vec<String> {
        let RequestKind::Call(pending) = &self.kind else {
            return Vec::new();
        };
        if !self.hidden_lines.is_empty() {
            return vec!["  nothing was decided: you have not seen the whole call; v shows it".to_owned()];
        }
        if pending.suggestions.is_empty() {
            return vec![
                "  nothing was decided: no rule can allow this call: it is a plan, it cannot be expressed as a rule, or your configuration requires approval for exactly these calls".to_owned(),
            ];
        }
        let always = AlwaysDialog::new(pending.suggestions.clone(), folder, in_chat);
        let lines = always.lines();
        self.always = Some(always);
        lines
    }

    pub(super) fn edit_in_line(&mut self) {
        if let RequestKind::Call(pending) = &self.kind {
            self.editing_parameters = true;
            self.line = Editor::from_text(&pending.call.approval.parameters.to_string());
        }
    }

    /// Returns the decision that a command makes or, as the error, the lines to show if the command decides nothing.
    pub(super) fn decision(&mut self, command: DialogCommand) -> Result<ApprovalAnswer, Vec<String>> {
        match command {
            DialogCommand::Approve if !self.hidden_lines.is_empty() => Err(vec![
                "  nothing was decided: you have not seen the whole call; v shows it".to_owned(),
            ]),
            DialogCommand::Approve => Ok(ApprovalAnswer::Approve),
            DialogCommand::Edit => {
                self.edit_in_line();
                Err(Vec::new())
            }
            DialogCommand::Reject(reason) => Ok(ApprovalAnswer::Reject { reason }),
            DialogCommand::Guide(guidance) => Ok(ApprovalAnswer::Guide { guidance }),
            DialogCommand::View => Err(std::mem::take(&mut self.hidden_lines)),
            DialogCommand::Invalid(why) => Err(vec![format!("  {why}")]),
            // The caller handles these commands.
            DialogCommand::Later | DialogCommand::Always => Err(Vec::new()),
        }
    }

    /// Returns the approval with the entered parameters or, as the error, the lines to show if nothing is decided.
    pub(super) fn edited_call(&mut self, line: &str) -> Result<ApprovalAnswer, Vec<String>> {
        self.editing_parameters = false;
        if line.trim().is_empty() {
            return Err(vec!["  nothing was changed".to_owned()]);
        }
        match serde_json::from_str(line) {
            Ok(parameters) => {
                let shown = match &self.kind {
                    RequestKind::Call(pending) => Some(&pending.call.approval.parameters),
                    RequestKind::Question(_) => None,
                };
                if shown == Some(&parameters) {
                    return Err(vec![
                        "  nothing was changed, and nothing was decided: type `a` to approve the call"
                            .to_owned(),
                    ]);
                }
                Ok(ApprovalAnswer::Edit { parameters })
            }
            Err(error) => {
                (self.editing_parameters, self.line) = (true, Editor::from_text(line));
                Err(vec![format!(
                    "  this is not JSON: {}",
                    sanitize(&error.to_string())
                )])
            }
        }
    }
}

/// Splits lines at half the screen's height. Returns the lines to show, with a note about the hidden lines. Also returns all lines, or none
/// if no line is hidden.
fn split_to_fit(mut lines: Vec<String>, terminal_size: TerminalSize) -> (Vec<String>, Vec<String>) {
    let height = |line: &String| {
        console::measure_text_width(line)
            .div_ceil(terminal_size.columns.max(1))
            .max(1)
    };
    // The other half of the screen is for the tree and the prompt.
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
        "  … {} more lines, {characters} characters, are not shown: v shows the whole call; only then can it be approved",
        hidden.len()
    );
    lines.truncate(shown);
    lines.push(console::style(note).yellow().to_string());
    (lines, all)
}
