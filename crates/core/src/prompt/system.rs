//! System prompts (PROMPT-2), and corrections of replies that do not follow them (LOOP-3).

use serde_json::{Value, json};

use super::shorten::READ_OUTPUT;
use super::{parameters, render};
use crate::agent_spec::{AgentSpec, AnswerForm};
use crate::call::CallForm;
use crate::limits::AgentLimits;
use crate::submission::submission_tool;
use crate::text::one_line;
use crate::tool::ToolSpec;

/// The parameter of files and folders that several tools have. The system prompt explains it once.
const PATHS: &str = "paths";

/// Renders an agent's system prompt (PROMPT-2): role, tools, call form, when to finish (LOOP-9), limits (LOOP-2), and for an agent whose answer
/// the user reads, diagrams. `tools` are the agent's tools without its terminating tool, which this function adds.
///
/// With native tools, the provider sends the tools' descriptions, so the prompt contains only names and examples. The prompt of an agent
/// without tools does not mention calls.
pub fn system_prompt(
    role: &str,
    tools: &[&ToolSpec],
    answer: AnswerForm,
    calls: CallForm,
    limits: &AgentLimits,
) -> String {
    let submission = submission_tool(answer);
    let terminating = submission.as_ref().filter(|_| ends_work(answer));
    let has_read_output = tools.iter().any(|tool| tool.name == READ_OUTPUT);
    let has_paths = tools
        .iter()
        .any(|tool| tool.parameters["properties"].get(PATHS).is_some());
    let for_user = answers_user(answer);
    let may_change = for_user || tools.iter().any(|tool| tool.may_change());
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| (*tool, Terminates::No))
        .chain(submission.iter().map(|tool| (tool, terminates(answer))))
        .map(|(tool, terminates)| tool_values(tool, terminates))
        .collect();
    render(
        "system",
        json!({
            "role": role.trim_end(),
            "tools": tools,
            "form": form_name(calls),
            "has_read_output": has_read_output,
            "has_paths": has_paths,
            "may_change": may_change,
            "for_user": for_user,
            "terminating": terminating.map(|tool| &tool.name),
            "text_allowed": answer.allows_text(),
            "max_turns": limits.max_turns,
            "timeout": limits.timeout.to_string(),
        }),
    )
}

/// Renders the message that announces an agent's last turn (LOOP-2).
pub(crate) fn last_turn(spec: &AgentSpec) -> String {
    render(
        "last_turn",
        json!({
            "form": form_name(spec.profile.calls),
            "terminating": submission_tool(spec.answer).map(|tool| tool.name),
            "text_allowed": spec.answer.allows_text(),
        }),
    )
}

/// Renders the message that follows a reply with a call within prose, because the call may be a quotation (CALL-7).
pub fn call_in_prose() -> String {
    render("call_in_prose", json!({}))
}

/// Renders the correction of a malformed reply (LOOP-3): the error, and the call form with an example. The example calls the tool `meant`;
/// if `meant` is `None`, the first tool with an example, preferably not the terminating tool. `tools` are all tools that the agent may
/// call, including its terminating tool.
pub fn malformed(error: &str, spec: &AgentSpec, tools: &[ToolSpec], meant: Option<&str>) -> String {
    let submission = submission_tool(spec.answer).map(|tool| tool.name);
    let terminating = submission.as_ref().filter(|_| ends_work(spec.answer));
    let terminates = |tool: &ToolSpec| {
        if submission.as_deref() == Some(tool.name.as_str()) {
            terminates(spec.answer)
        } else {
            Terminates::No
        }
    };
    let with_example = || tools.iter().filter(|tool| !tool.example.is_null());
    let shown = match meant {
        Some(meant) => with_example().find(|tool| tool.name == meant),
        None => with_example()
            .find(|tool| matches!(terminates(tool), Terminates::No))
            .or_else(|| with_example().next()),
    };
    let shown = shown.map(|tool| tool_values(tool, terminates(tool)));
    let names: Vec<String> = tools.iter().map(|tool| one_line(&tool.name)).collect();
    render(
        "malformed",
        json!({
            "error": error,
            "tools": names,
            "shown": shown,
            "form": form_name(spec.profile.calls),
            "terminating": terminating,
            "text_allowed": spec.answer.allows_text(),
        }),
    )
}

/// Whether a valid call of a tool becomes the agent's answer.
#[derive(Clone, Copy)]
enum Terminates {
    Yes,
    No,
}

/// Returns true if the agent ends with its submission. A lead does not end with its plan: it receives the plan's result
/// (LEAD-1).
fn ends_work(answer: AnswerForm) -> bool {
    match answer {
        AnswerForm::Text | AnswerForm::Plan => false,
        AnswerForm::Reflection => true,
    }
}

/// Returns true if the user reads the agent's answer, which is the case only for a lead.
fn answers_user(answer: AnswerForm) -> bool {
    match answer {
        AnswerForm::Plan => true,
        AnswerForm::Text | AnswerForm::Reflection => false,
    }
}

/// Whether the agent's submission terminates.
fn terminates(answer: AnswerForm) -> Terminates {
    if ends_work(answer) {
        Terminates::Yes
    } else {
        Terminates::No
    }
}

fn tool_values(tool: &ToolSpec, terminates: Terminates) -> Value {
    json!({
        "name": one_line(&tool.name),
        "description": without_headings(&tool.description),
        "parameters": parameters::listed(&tool.parameters_for_model()),
        "example": tool.example,
        "terminates": matches!(terminates, Terminates::Yes),
    })
}

/// Escapes lines of a tool's description that look like Markdown headings, because in the template a heading starts the next tool.
fn without_headings(description: &str) -> String {
    let description = description.replace("\r\n", "\n");
    let lines = description.split(['\n', '\r']).map(|line| {
        let start = line.trim_start();
        match start.strip_prefix('#') {
            Some(rest) => format!("{}\\#{rest}", &line[..line.len() - start.len()]),
            None => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the name of the call form in templates.
pub(super) fn form_name(calls: CallForm) -> &'static str {
    match calls {
        CallForm::Json | CallForm::Auto => "json",
        CallForm::JsonSchema => "json_schema",
        CallForm::Native | CallForm::AutoNative => "native",
        CallForm::ToolCall => "tool_call",
    }
}
