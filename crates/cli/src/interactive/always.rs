//! The dialog for allowing a call and similar calls from now on.

use dirigent::approval_rules::{CallPattern, Within};

use crate::request_text::one_line;

/// The suggested patterns, and the choice that the user must confirm.
pub(crate) struct AlwaysDialog {
    suggestions: Vec<CallPattern>,
    workspace: String,
    in_chat: bool,
    chosen: Option<(CallPattern, Within)>,
}

/// The result of a line in the dialog.
#[derive(Debug, PartialEq)]
pub(crate) enum AlwaysResult {
    /// Show these lines, and stay in the dialog.
    Show(Vec<String>),
    /// Go back to the decision about the call.
    Back,
    /// Save the rule, and approve the call.
    Save(CallPattern, Within),
}

impl AlwaysDialog {
    /// `suggestions` are the patterns that match the call, the narrowest first; `in_chat` tells whether the run is a turn of a conversation.
    pub(crate) fn new(suggestions: Vec<CallPattern>, workspace: &str, in_chat: bool) -> Self {
        AlwaysDialog {
            suggestions,
            workspace: one_line(workspace),
            in_chat,
            chosen: None,
        }
    }

    /// The choices.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec!["  allow these calls from now on:".to_owned()];
        for (number, calls) in (1..).zip(&self.suggestions) {
            lines.push(format!("    {number}  {}", one_line(&calls.to_string())));
        }
        lines.push(format!("  within: {}", self.words().join(" · ")));
        lines
    }

    /// Returns the words for the possible scopes.
    fn words(&self) -> Vec<&'static str> {
        let conversation = self.in_chat.then_some("conversation");
        ["run"]
            .into_iter()
            .chain(conversation)
            .chain(["folder", "everywhere"])
            .collect()
    }

    /// The label of the line being typed.
    pub(crate) fn label(&self) -> &'static str {
        match self.chosen {
            None => "number and scope, such as `1 run`: ",
            Some(_) => "save the rule and approve this call? y/n: ",
        }
    }

    /// Handles a line. A rule is saved only after an explicit "yes".
    pub(crate) fn answer(&mut self, line: &str) -> AlwaysResult {
        let line = line.trim();
        if let Some((calls, within)) = self.chosen.take() {
            return match line {
                "y" | "yes" => AlwaysResult::Save(calls, within),
                _ => AlwaysResult::Back,
            };
        }
        if line.is_empty() {
            return AlwaysResult::Back;
        }
        match self.parse(line) {
            Some((calls, within)) => {
                let shown = self.rule_line(&calls, within);
                self.chosen = Some((calls, within));
                AlwaysResult::Show(vec![shown])
            }
            None => AlwaysResult::Show(vec![format!(
                "  nothing was decided: type a number from 1 to {} and one of the words {}; Enter alone goes back",
                self.suggestions.len(),
                self.words().join(", ")
            )]),
        }
    }

    fn parse(&self, line: &str) -> Option<(CallPattern, Within)> {
        let (number, word) = line.split_once(char::is_whitespace)?;
        let index = number.parse::<usize>().ok()?.checked_sub(1)?;
        let word = word.trim();
        let within = match word {
            "run" => Within::Run,
            "conversation" => Within::Conversation,
            "folder" => Within::Workspace,
            "everywhere" => Within::Everywhere,
            _ => return None,
        };
        let calls = self.suggestions.get(index)?;
        self.words().contains(&word).then(|| (calls.clone(), within))
    }

    /// The rule as it would be saved.
    fn rule_line(&self, calls: &CallPattern, within: Within) -> String {
        let calls = one_line(&calls.to_string());
        let within = match within {
            Within::Run => "for the rest of this run".to_owned(),
            Within::Conversation => "in this conversation".to_owned(),
            Within::Workspace => format!("in all runs in {}", self.workspace),
            Within::Everywhere => "in all runs, in any folder".to_owned(),
        };
        format!("  rule: allow `{calls}` without asking, {within}")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> CallPattern {
        text.parse().unwrap()
    }

    #[test]
    fn approve_1_a_rule_is_shown_before_it_is_saved() {
        let narrow = pattern("execute_command(command: cargo test --quiet)");
        let suggestions = vec![narrow.clone(), pattern("execute_command")];
        let mut dialog = AlwaysDialog::new(suggestions, "/shop", false);
        for unclear in ["1", "3 run", "0 run", "run", "1 conversation", "1 run please"] {
            assert!(
                matches!(dialog.answer(unclear), AlwaysResult::Show(lines) if lines[0].contains("nothing was decided"))
            );
        }
        assert_eq!(dialog.answer(""), AlwaysResult::Back);
        let shown = AlwaysResult::Show(vec![
            "  rule: allow `execute_command(command: cargo test --quiet)` without asking, in all runs in /shop".to_owned(),
        ]);
        for no in ["n", "", "1 folder", "yes!"] {
            assert_eq!(dialog.answer("1 folder"), shown);
            assert_eq!(dialog.answer(no), AlwaysResult::Back);
        }
        assert_eq!(dialog.answer("1 folder"), shown);
        assert_eq!(dialog.answer("y"), AlwaysResult::Save(narrow, Within::Workspace));
    }
}
