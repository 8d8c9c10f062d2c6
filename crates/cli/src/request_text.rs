//! Calls, questions and decisions as text for the person who decides.
//!
//! Text that the user needs for a decision is escaped by [`escape_invisible`], so that a model's text cannot control the terminal, hide
//! parts of itself or imitate a line of the dialog.

use console::style;
use dirigent::approval_rules::CallPattern;
use dirigent::events::{OpenQuestion, PlannedCall, Question, Work};
use dirigent::{ApprovalAnswer, Decision, EffectId, RunId};
use serde_json::Value;

use crate::output::{escape_invisible, sanitize};
use crate::pending_requests::{PendingCall, PendingRequests, Proposal};
use crate::time::local;

/// Prefix of each line of a multi-line text.
const BLOCK: &str = "│ ";

/// The number of leading digits of a digest to show.
const DIGITS: usize = 12;

/// The maximum width of a line of [`request_summaries`], in columns.
const SUMMARY_WIDTH: usize = 90;

/// A pending call in full: agent, tool, all parameters, workspace, sub-tasks that are waiting for it, digest and expiry.
pub(crate) fn approval_lines(pending: &PendingCall) -> Vec<String> {
    let approval = &pending.call.approval;
    let effect = approval.effect;
    let who = match &approval.agent {
        Some(name) => format!("{} ({})", one_line(name), effect.scope),
        None => "the plan".to_owned(),
    };
    let mark = style("!").yellow().bold();
    let (first, shown) = match &pending.proposal {
        Some(proposal) => (
            format!("{mark} {effect}: {who} proposes a {}", style("plan").bold()),
            proposal_lines(proposal),
        ),
        None => (
            format!(
                "{mark} {effect}: {who} wants to use {}",
                style(one_line(&approval.tool)).bold()
            ),
            parameter_lines(&approval.parameters),
        ),
    };
    let mut lines = vec![first];
    lines.extend(shown.into_iter().map(|line| format!("    {line}")));
    let mut fact = |name: &str, value: &str| {
        lines.push(format!("  {} {value}", style(format!("{name:<7}")).dim()));
    };
    fact("in", &one_line(&approval.workspace));
    for (number, subtask) in pending.affected_subtasks.iter().enumerate() {
        fact(if number == 0 { "for" } else { "" }, &one_line(subtask));
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

/// A plan that is waiting for approval: its summary, its tree, then the task or the calls of each sub-task in full.
fn proposal_lines(proposal: &Proposal) -> Vec<String> {
    let plan = &proposal.plan;
    let mut lines = block("", &plan.summary);
    lines.extend(proposal.tree.lines().map(escape_invisible));
    for subtask in &plan.subtasks {
        lines.push(format!("{}:", style(one_line(&subtask.id.0)).bold()));
        let work = match &subtask.work {
            Work::Agent { agent, task } => block(&format!("{}: ", one_line(agent)), task),
            Work::Calls { calls } => calls.iter().flat_map(call_lines).collect(),
        };
        lines.extend(work.into_iter().map(|line| format!("  {line}")));
    }
    lines
}

fn call_lines(call: &PlannedCall) -> Vec<String> {
    let parameters = parameter_lines(&call.parameters).into_iter();
    std::iter::once(one_line(&call.tool))
        .chain(parameters.map(|line| format!("  {line}")))
        .collect()
}

/// Formats text after a prefix, with each further line marked as a continuation.
fn block(prefix: &str, text: &str) -> Vec<String> {
    let mut lines = text.trim_end().split('\n').map(escape_invisible);
    let first = lines.next().unwrap_or_default();
    std::iter::once(format!("{prefix}{first}"))
        .chain(lines.map(|line| format!("{BLOCK}{line}")))
        .collect()
}

/// A question with its numbered choices. `agent` is the name of the agent that asks; `None` if the run asks.
pub(crate) fn question_lines(effect: EffectId, agent: Option<&str>, question: &Question) -> Vec<String> {
    let asker = agent.map(|agent| format!("{effect}: {} ({}) asks: ", one_line(agent), effect.scope));
    let asked = escape_invisible(&question.question);
    let mut text = format!("{}{asked}", asker.unwrap_or_default())
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

/// An open question with its numbered choices.
pub(crate) fn open_question_lines(asked: &OpenQuestion) -> Vec<String> {
    question_lines(asked.effect, asked.agent.as_deref(), &asked.question)
}

/// Pending requests, one line each.
pub(crate) fn request_summaries(requests: &PendingRequests) -> Vec<String> {
    let call = |pending: &PendingCall| {
        let approval = &pending.call.approval;
        format!("! {} {} {}", approval.effect, approval.tool, approval.parameters)
    };
    let question = |asked: &OpenQuestion| match &asked.agent {
        Some(agent) => format!("? {} {agent}: {}", asked.effect, asked.question.question),
        None => format!("? {}", asked.question.question),
    };
    let questions = requests.questions.iter().map(question);
    let lines = requests.calls.iter().map(call).chain(questions);
    let one_line = |line: String| {
        let line = sanitize(&line).replace(['\n', '\t'], " ");
        console::truncate_str(&line, SUMMARY_WIDTH, "…").into_owned()
    };
    lines.map(one_line).collect()
}

/// Pending requests in full, each with the command that answers it.
pub(crate) fn request_lines(run: RunId, requests: &PendingRequests) -> Vec<String> {
    let mut lines = Vec::new();
    let run = run.short();
    for pending in &requests.calls {
        let effect = pending.call.approval.effect;
        lines.extend(approval_lines(pending));
        lines.push(format!(
            "  dirigent approve {run} {} [--edit JSON | --reject [REASON] | --guide TEXT | --always CALLS]",
            EffectId { attempt: 0, ..effect }
        ));
        lines.extend(suggestion_lines(&pending.suggestions));
    }
    let named = requests.questions.len() > 1;
    for asked in &requests.questions {
        lines.extend(open_question_lines(asked));
        let id = EffectId {
            attempt: 0,
            ..asked.effect
        };
        lines.push(match named {
            true => format!("  dirigent answer {run} {id} \"…\""),
            false => format!("  dirigent answer {run} \"…\""),
        });
    }
    lines
}

/// Returns the lines that suggest patterns of calls to allow from now on, instead of only the pending call.
fn suggestion_lines(suggestions: &[CallPattern]) -> Vec<String> {
    let one_of = (!suggestions.is_empty()).then(|| "  with CALLS one of:".to_owned());
    let quoted = suggestions
        .iter()
        .map(|calls| format!("    {}", quote(&one_line(&calls.to_string()))));
    one_of.into_iter().chain(quoted).collect()
}

/// A decision in the past tense, such as `approved`.
pub(crate) fn decision_text(decision: &Decision) -> String {
    match &decision.answer {
        ApprovalAnswer::Approve => "approved".to_owned(),
        ApprovalAnswer::Edit { .. } => "approved with other parameters".to_owned(),
        ApprovalAnswer::Reject { reason: None } => "rejected".to_owned(),
        ApprovalAnswer::Reject { reason: Some(reason) } => format!("rejected: {}", sanitize(reason)),
        ApprovalAnswer::Guide { guidance } => {
            format!("not run; guidance for the agent: {}", sanitize(guidance))
        }
    }
}

/// Calls that the user has allowed by a rule.
pub(crate) fn allowed_text(calls: &str) -> String {
    format!("your rule allows from now on: {}", one_line(calls))
}

/// All parameters: a command as a command line, multi-line text line by line, everything else as JSON.
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

/// Formats a JSON value after a prefix. A nested value takes several lines.
fn json_lines(prefix: &str, value: &Value) -> Vec<String> {
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
        first.insert_str(0, prefix);
    }
    lines
}

/// The words of a command; `None` if the value is not a non-empty list of strings.
fn command_words(value: &Value) -> Option<Vec<&str>> {
    let words = value.as_array()?;
    let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
    words.filter(|words| !words.is_empty())
}

/// A command quoted as in a shell, to show where each word ends.
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

/// Text with its line breaks escaped.
pub(crate) fn one_line(text: &str) -> String {
    escape_invisible(text).replace('\n', "⟨U+000A⟩")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::sync::Arc;

    use dirigent::events::Timestamp;
    use dirigent::events::{Approval, Digest};
    use dirigent::report::WaitingCall;
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
            suggestions: Vec::new(),
        };
        let lines = approval_lines(&PendingCall {
            call,
            affected_subtasks,
            proposal: None,
            suggestions: Vec::new(),
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
    fn approve_3_parameters_cannot_imitate_the_dialog_or_control_the_terminal() {
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
        let lines = question_lines("run.4".parse().unwrap(), None, &question).join("\n");
        insta::assert_snapshot!(console::strip_ansi_codes(&lines), @r"
        ? Which name?
          Both are free.
            1  getPrice
            2  fetch⟨U+001B⟩Price
        ");
        let lines = question_lines("a3.7".parse().unwrap(), Some("explore\n"), &question);
        assert_eq!(
            console::strip_ansi_codes(&lines[0]),
            "? a3.7: explore⟨U+000A⟩ (a3) asks: Which name?"
        );
    }
}
