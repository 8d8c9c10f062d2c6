//! What a person reads of a call or a question before deciding, and what a typed line means.
//!
//! All of it is [`escape_invisible`]: nothing that a model wrote can be obeyed by the terminal, hide itself or pass for a line of ours.

use console::style;
use dirigent::core::question::Question;
use serde_json::Value;

use crate::output::escape_invisible;
use crate::pending_requests::PendingCall;
use crate::time::local;

/// What begins each line of a text that a model wrote over several lines.
const BLOCK: &str = "│ ";

/// Digits of a digest that are shown.
const DIGITS: usize = 12;

/// A call that waits for an approval: who wants what, all of what it is given, where, and what waits on it.
pub(crate) fn approval_lines(waiting: &PendingCall) -> Vec<String> {
    let approval = &waiting.call.approval;
    let effect = approval.effect;
    let who = match &approval.agent {
        Some(name) => format!("{} ({})", one_line(name), effect.scope),
        None => "the plan".to_owned(),
    };
    let tool = style(one_line(&approval.tool)).bold();
    let mut lines = vec![format!(
        "{} {effect}: {who} wants to use {tool}",
        style("!").yellow().bold()
    )];
    lines.extend(
        parameter_lines(&approval.parameters)
            .into_iter()
            .map(|line| format!("    {line}")),
    );
    let mut fact = |name: &str, value: &str| {
        lines.push(format!("  {} {value}", style(format!("{name:<7}")).dim()));
    };
    fact("in", &one_line(&approval.workspace));
    for (number, held_up) in waiting.affected_subtasks.iter().enumerate() {
        fact(if number == 0 { "for" } else { "" }, &one_line(held_up));
    }
    fact(
        "digest",
        approval.digest.0.get(..DIGITS).unwrap_or(&approval.digest.0),
    );
    if let Some(at) = approval.expires_at {
        fact("expires", &local(at));
    }
    lines
}

/// A question with its choices numbered.
pub(crate) fn question_lines(question: &Question) -> Vec<String> {
    let mut text = escape_invisible(&question.question)
        .lines()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    if let Some(first) = text.first_mut() {
        *first = format!("{} {first}", style("?").yellow().bold());
    }
    for line in text.iter_mut().skip(1) {
        *line = format!("  {line}");
    }
    let choices = question.choices.iter().enumerate();
    text.extend(choices.map(|(number, choice)| format!("    {}  {}", number + 1, one_line(choice))));
    text
}

/// What was typed about a call that waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DialogCommand {
    Approve,
    Edit,
    Reject(Option<String>),
    Guide(String),
    Later,
    /// Show all of it.
    View,
    /// Nothing that decides anything, and what can be said.
    Invalid(&'static str),
}

/// What can be typed about a call.
pub(crate) const DIALOG_HELP: &str = "a approve · e edit · r [reason] reject · g TEXT guide · l later";

impl DialogCommand {
    pub(crate) fn parse(line: &str) -> DialogCommand {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match (word, rest.is_empty()) {
            ("a" | "approve", true) => DialogCommand::Approve,
            ("e" | "edit", true) => DialogCommand::Edit,
            ("r" | "reject", true) => DialogCommand::Reject(None),
            ("r" | "reject", false) => DialogCommand::Reject(Some(rest.to_owned())),
            ("g" | "guide", false) => DialogCommand::Guide(rest.to_owned()),
            ("g" | "guide", true) => DialogCommand::Invalid("say what it should do instead: g TEXT"),
            ("l" | "later", true) => DialogCommand::Later,
            ("v" | "view", true) => DialogCommand::View,
            ("a" | "approve" | "e" | "edit" | "l" | "later" | "v" | "view", false) => {
                DialogCommand::Invalid("nothing was decided: only r and g take more words")
            }
            ("", _) => DialogCommand::Invalid("nothing was decided: Enter alone approves nothing"),
            (_, _) => DialogCommand::Invalid("nothing was decided: begin with a, e, r, g or l"),
        }
    }
}

/// All of the parameters, readable: a command as a command line, a text of several lines as it is, the rest as JSON.
fn parameter_lines(parameters: &Value) -> Vec<String> {
    let Value::Object(fields) = parameters else {
        return json_lines("", parameters);
    };
    if fields.is_empty() {
        return vec![style("no parameters").dim().to_string()];
    }
    fields
        .iter()
        .flat_map(|(name, value)| match (name.as_str(), command_words(value)) {
            ("command", Some(words)) => command_lines(&words),
            _ => field_lines(&one_line(name), value),
        })
        .collect()
}

fn field_lines(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if text.contains('\n') => {
            let lines = text
                .split('\n')
                .map(|line| format!("  {BLOCK}{}", escape_invisible(line)));
            std::iter::once(format!("{name}:")).chain(lines).collect()
        }
        Value::String(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_) => json_lines(&format!("{name}: "), value),
    }
}

/// JSON after a name.
fn json_lines(name: &str, value: &Value) -> Vec<String> {
    let simple = match value {
        Value::Array(elements) => elements
            .iter()
            .all(|element| !element.is_array() && !element.is_object()),
        Value::Object(fields) => fields.is_empty(),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => true,
    };
    let json = if simple {
        value.to_string()
    } else {
        format!("{value:#}")
    };
    let json = escape_invisible(&json);
    let mut lines = json.lines().map(str::to_owned).collect::<Vec<_>>();
    if let Some(first) = lines.first_mut() {
        first.insert_str(0, name);
    }
    lines
}

/// The words of a command, if that is what it is.
fn command_words(value: &Value) -> Option<Vec<&str>> {
    let words = value.as_array()?;
    let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
    words.filter(|words| !words.is_empty())
}

/// A command as it would be typed in a shell, so that it is plain where each word ends.
fn command_lines(words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
    let text = quoted.join(" ");
    let mut lines = text.split('\n').map(escape_invisible);
    let first = lines.next().map(|line| format!("$ {}", style(line).bold()));
    first
        .into_iter()
        .chain(lines.map(|line| format!("{BLOCK}{line}")))
        .collect()
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A text that must stay on its line.
fn one_line(text: &str) -> String {
    escape_invisible(text).replace('\n', "⟨U+000A⟩")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::sync::Arc;

    use dirigent::core::approval::{Approval, Digest};
    use dirigent::core::run::WaitingCall;
    use dirigent::core::time::Timestamp;
    use serde_json::json;

    use super::*;

    fn shown(tool: &str, parameters: Value) -> String {
        let approval = Approval {
            effect: "a3.7".parse().unwrap(),
            agent: Some("implement".to_owned()),
            tool: tool.to_owned(),
            parameters,
            workspace: "/home/me/shop".to_owned(),
            asked_at: Timestamp(0),
            expires_at: None,
            digest: Digest("0123456789abcdef".repeat(4)),
        };
        let affected_subtasks = vec![
            "fix: Fix the bug".to_owned(),
            "check: Run the tests, after it".to_owned(),
        ];
        let call = WaitingCall {
            approval: Arc::new(approval),
            subtask: None,
            dependents: 0,
        };
        let lines = approval_lines(&PendingCall {
            call,
            affected_subtasks,
        });
        console::strip_ansi_codes(&lines.join("\n")).into_owned()
    }

    #[test]
    fn approve_1_a_command_is_shown_as_a_command_line() {
        let parameters =
            json!({"command": ["sh", "-c", "echo 'a b' > c\nrm -rf ~", ""], "timeout_seconds": 60});
        insta::assert_snapshot!(shown("execute_command", parameters), @r"
        ! a3.7: implement (a3) wants to use execute_command
            $ sh -c 'echo '\''a b'\'' > c
            │ rm -rf ~' ''
            timeout_seconds: 60
          in      /home/me/shop
          for     fix: Fix the bug
                  check: Run the tests, after it
          digest  0123456789ab
        ");
    }

    #[test]
    fn approve_1_texts_are_shown_line_by_line_and_the_rest_as_json() {
        let parameters = json!({
            "operation": "write",
            "path": "src/lib.rs",
            "content": "fn main() {}\n  digest  ffffffffffff\n",
            "edits": [{"old": "a", "new": "b"}],
            "tags": ["x", "y"],
        });
        insta::assert_snapshot!(shown("file_operations", parameters), @r#"
        ! a3.7: implement (a3) wants to use file_operations
            operation: "write"
            path: "src/lib.rs"
            content:
              │ fn main() {}
              │   digest  ffffffffffff
              │ 
            edits: [
              {
                "old": "a",
                "new": "b"
              }
            ]
            tags: ["x","y"]
          in      /home/me/shop
          for     fix: Fix the bug
                  check: Run the tests, after it
          digest  0123456789ab
        "#);
        assert!(shown("list", json!({})).contains("\n    no parameters\n"));
        assert!(shown("list", json!([1, {"a": 2}])).contains("\n    [\n      1,"));
    }

    #[test]
    fn approve_3_no_parameter_can_pass_for_a_line_of_the_dialog_or_be_obeyed() {
        let parameters = json!({
            "command": ["rm", "a\u{202e}txt.exe", "\u{1b}[2J\u{1b}[H"],
            "note\n  digest  ffffffffffff": "x\u{200b}y",
        });
        insta::assert_snapshot!(shown("execute_command\n! a9.9", parameters), @r#"
        ! a3.7: implement (a3) wants to use execute_command⟨U+000A⟩! a9.9
            $ rm 'a⟨U+202E⟩txt.exe' '⟨U+001B⟩[2J⟨U+001B⟩[H'
            note⟨U+000A⟩  digest  ffffffffffff: "x⟨U+200B⟩y"
          in      /home/me/shop
          for     fix: Fix the bug
                  check: Run the tests, after it
          digest  0123456789ab
        "#);
    }

    #[test]
    fn paor_9_choices_are_numbered() {
        let question = Question {
            question: "Which name?\nBoth are free.".to_owned(),
            choices: vec!["getPrice".to_owned(), "fetch\u{1b}Price".to_owned()],
        };
        let lines = question_lines(&question).join("\n");
        insta::assert_snapshot!(console::strip_ansi_codes(&lines), @r"
        ? Which name?
          Both are free.
            1  getPrice
            2  fetch⟨U+001B⟩Price
        ");
    }

    #[test]
    fn approve_2_only_a_whole_word_decides() {
        for (line, word) in [
            ("a", DialogCommand::Approve),
            (" approve ", DialogCommand::Approve),
            ("e", DialogCommand::Edit),
            ("r", DialogCommand::Reject(None)),
            ("r not  now", DialogCommand::Reject(Some("not  now".to_owned()))),
            (
                "guide use cargo check",
                DialogCommand::Guide("use cargo check".to_owned()),
            ),
            ("l", DialogCommand::Later),
            ("v", DialogCommand::View),
        ] {
            assert_eq!(DialogCommand::parse(line), word, "{line:?}");
        }
        for line in [
            "",
            "  ",
            "y",
            "ok",
            "aa",
            "a b",
            "approve it",
            "A",
            "g",
            "later on",
            "search only in src",
        ] {
            assert!(
                matches!(DialogCommand::parse(line), DialogCommand::Invalid(_)),
                "{line:?}"
            );
        }
    }
}
