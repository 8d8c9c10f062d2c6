//! Every fault of a reply in every form (LOOP-3, CALL-5), with its outcome: understood, sent back, or text.

use dirigent_core::call::{CallForm, MalformedReply, ReplyContent};

use super::{FORMS, leads_tools, said_after};

/// Replies with their faults. None of those that are clearly meant as a call may count as an answer.
const FAULTS: &[(&str, &str)] = &[
    (
        "own: JSON",
        r#"{"tool": "search", "parameters": {"pattern": "x"}, "terminate": false}"#,
    ),
    (
        "own: JSON without `terminate`",
        r#"{"tool": "search", "parameters": {"pattern": "x"}}"#,
    ),
    (
        "own: tool_call",
        r#"{"tool_call": {"name": "search", "arguments": {"pattern": "x"}}}"#,
    ),
    (
        "list of JSON calls",
        r#"[{"tool": "search", "parameters": {"pattern": "x"}, "terminate": false}, {"tool": "list_files", "parameters": {"path": "."}, "terminate": false}]"#,
    ),
    (
        "list, an earlier one terminates",
        r#"[{"tool": "search", "parameters": {}, "terminate": true}, {"tool": "list_files", "parameters": {}, "terminate": false}]"#,
    ),
    (
        "list by name",
        r#"[{"name": "search", "arguments": {"pattern": "x"}}]"#,
    ),
    (
        "tool_calls",
        r#"{"tool_calls": [{"id": "1", "type": "function", "function": {"name": "search", "arguments": "{\"pattern\": \"x\"}"}}]}"#,
    ),
    (
        "function",
        r#"{"function": {"name": "search", "arguments": {"pattern": "x"}}}"#,
    ),
    (
        "function as a string",
        r#"{"function": "search", "arguments": {"pattern": "x"}}"#,
    ),
    (
        "function_call",
        r#"{"function_call": {"name": "search", "arguments": "{\"pattern\": \"x\"}"}}"#,
    ),
    (
        "name and arguments",
        r#"{"name": "search", "arguments": {"pattern": "x"}}"#,
    ),
    (
        "name and parameters in a fence",
        "```json\n{\"name\": \"search\", \"parameters\": {\"pattern\": \"x\"}}\n```",
    ),
    (
        "tool_name",
        r#"{"tool_name": "search", "parameters": {"pattern": "x"}, "terminate": false}"#,
    ),
    (
        "tool_use",
        r#"{"type": "tool_use", "name": "search", "input": {"pattern": "x"}}"#,
    ),
    (
        "recipient_name",
        r#"{"recipient_name": "functions.search", "parameters": {"pattern": "x"}}"#,
    ),
    (
        "action",
        r#"{"action": "search", "action_input": {"pattern": "x"}}"#,
    ),
    ("the tool as a key", r#"{"search": {"pattern": "x"}}"#),
    (
        "no tool",
        r#"{"parameters": {"pattern": "x"}, "terminate": false}"#,
    ),
    ("parameters alone", r#"{"parameters": {"pattern": "x"}}"#),
    (
        "tool without parameters",
        r#"{"tool": "search", "terminate": false}"#,
    ),
    (
        "parameters as a string",
        r#"{"tool": "search", "parameters": "x", "terminate": false}"#,
    ),
    (
        "terminate as a string",
        r#"{"tool": "search", "parameters": {}, "terminate": "false"}"#,
    ),
    (
        "a key given twice",
        r#"{"tool": "search", "tool": "search", "parameters": {}, "terminate": false}"#,
    ),
    (
        "<tool_call> JSON",
        "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"pattern\": \"x\"}}\n</tool_call>",
    ),
    (
        "<tool_call> JSON after words",
        "I look.\n<tool_call>\n{\"name\": \"search\", \"arguments\": {\"pattern\": \"x\"}}\n</tool_call>",
    ),
    (
        "tool_call after words",
        r#"I look. {"tool_call": {"name": "search", "arguments": {"pattern": "x"}}}"#,
    ),
    (
        "tool_calls and words after it",
        r#"{"tool_calls": [{"name": "search", "arguments": {}}]} is what I do."#,
    ),
    (
        "<tool_call> JSON and words after it",
        "<tool_call>{\"name\": \"search\", \"arguments\": {}}</tool_call>\nI wait.",
    ),
    (
        "<tool_call> the own form",
        "<tool_call>{\"tool\": \"search\", \"parameters\": {\"pattern\": \"x\"}, \"terminate\": false}</tool_call>",
    ),
    ("<tool_call> name only", "<tool_call>search</tool_call>"),
    ("<tool_call> cut", "<tool_call>\n{\"name\": \"search\", \"argu"),
    (
        "<tool_call><function=> JSON",
        "<tool_call><function=search>{\"pattern\": \"x\"}</function></tool_call>",
    ),
    (
        "<tool_call><function=> XML",
        "<tool_call>\n<function=search>\n<parameter=pattern>\nx\n</parameter>\n</function>\n</tool_call>",
    ),
    (
        "<function=> JSON",
        "<function=search>{\"pattern\": \"x\"}</function>",
    ),
    (
        "<function=> XML after words",
        "I look.\n\n<function=search>\n<parameter=pattern>x</parameter>\n</function>",
    ),
    (
        "<tool_call> with <arg_key>",
        "<tool_call>search\n<arg_key>pattern</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
    ),
    (
        "<invoke>",
        "<function_calls>\n<invoke name=\"search\">\n<parameter name=\"pattern\">x</parameter>\n</invoke>\n</function_calls>",
    ),
    (
        "[TOOL_CALLS] list",
        "[TOOL_CALLS] [{\"name\": \"search\", \"arguments\": {\"pattern\": \"x\"}}]",
    ),
    (
        "[TOOL_CALLS] name",
        "[TOOL_CALLS]search[ARGS]{\"pattern\": \"x\"}",
    ),
    (
        "<|tool_call|>",
        "<|tool_call|>[{\"name\": \"search\", \"arguments\": {\"pattern\": \"x\"}}]<|/tool_call|>",
    ),
    (
        "<|python_tag|> JSON",
        "<|python_tag|>{\"name\": \"search\", \"parameters\": {\"pattern\": \"x\"}}",
    ),
    (
        "<|python_tag|> Python",
        "<|python_tag|>search.call(pattern=\"x\")",
    ),
    (
        "DeepSeek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{\"pattern\": \"x\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "functools",
        "functools[{\"name\": \"search\", \"arguments\": {\"pattern\": \"x\"}}]",
    ),
    ("tool_code", "```tool_code\nsearch(pattern=\"x\")\n```"),
    (
        "tool_code after words",
        "I look.\n```tool_code\nprint(search(pattern=\"x\"))\n```",
    ),
    (
        "commentary channel",
        "<|channel|>commentary to=functions.search <|constrain|>json<|message|>{\"pattern\": \"x\"}<|call|>",
    ),
    ("applied", "search({\"pattern\": \"x\"})"),
    ("applied in Python", "[search(pattern=\"x\")]"),
    (
        "name, then arguments",
        "search\n```json\n{\"pattern\": \"x\"}\n```",
    ),
    (
        "Action:",
        "Thought: I look.\nAction: search\nAction Input: {\"pattern\": \"x\"}",
    ),
    (
        "full-width colons",
        "{\"tool\"：\"search\"，\"parameters\"：{\"pattern\"：\"x\"}，\"terminate\"：false}",
    ),
    (
        "curly quotes",
        "{“tool”: “search”, “parameters”: {“pattern”: “x”}, “terminate”: false}",
    ),
    (
        "curly quotes after words",
        "I look: {“tool”: “search”, “parameters”: {“pattern”: “x”}, “terminate”: false}",
    ),
    (
        "curly quotes in values",
        "{\"tool\": “search”, \"parameters\": {\"pattern\": “x”}, \"terminate\": false}",
    ),
    (
        "no quotes",
        "{tool: search, parameters: {pattern: x}, terminate: false}",
    ),
    (
        "no quotes around keys",
        "{tool: \"search\", parameters: {pattern: \"x\"}, terminate: false}",
    ),
    (
        "no quotes around the tool",
        "{\"tool\": search, \"parameters\": {\"pattern\": \"x\"}, \"terminate\": false}",
    ),
    (
        "single quotes",
        "{'tool': 'search', 'parameters': {'pattern': 'x'}, 'terminate': False}",
    ),
    (
        "no first brace",
        "\"tool\": \"search\", \"parameters\": {\"pattern\": \"x\"}, \"terminate\": false}",
    ),
    (
        "YAML",
        "tool: search\nparameters:\n  pattern: x\nterminate: false",
    ),
    ("bare plan", "{\"summary\": \"Look.\", \"subtasks\": []}"),
    (
        "bare plan in a fence",
        "```json\n{\"summary\": \"Look.\", \"subtasks\": []}\n```",
    ),
    ("cut after the brace", "{"),
    ("cut in the first key", "{\"to"),
    ("cut after the first key", "{\"tool\""),
    ("cut in the tool", "{\"tool\": \"sea"),
    (
        "cut in the parameters",
        "```json\n{\"tool\": \"search\", \"parameters\": {\"patt",
    ),
    (
        "cut, parameters first",
        "{\"parameters\": {\"pattern\": \"x\"}, \"ter",
    ),
    (
        "garbled",
        "{\"tool\":{\"tool\":\"sea\"search\",\"pararch\",\"parameters\":{}}meters\":{}}\n\n. . .",
    ),
    (
        "list, cut",
        "[{\"tool\": \"search\", \"parameters\": {}, \"terminate\": false}, {\"tool\":",
    ),
    (
        "the form alone",
        "{\"tool\": \"name of the tool\", \"parameters\": {}, \"terminate\": false}",
    ),
    ("thinking alone", "<think>I call {\"tool\": \"search\"}"),
    (
        "thinking alone, other tags",
        "<REASONING effort=\"low\">I call {\"tool\": \"search\"}",
    ),
    (
        "two different calls",
        "{\"tool\": \"search\", \"parameters\": {}, \"terminate\": false}\n{\"tool\": \"list_files\", \"parameters\": {}, \"terminate\": false}",
    ),
    (
        "a call with words after it",
        "{\"tool\": \"search\", \"parameters\": {}, \"terminate\": false}\nI wait for the result.",
    ),
];

/// Replies without a fault: objects in prose that match no form of calls, and JSON that is an answer.
const ANSWERS: &[(&str, &str)] = &[
    (
        "a tool that is a number",
        r#"{"tool": 7, "parameters": {}, "terminate": false}"#,
    ),
    (
        "tools in a list",
        r#"[{"tool": "hammer", "price": 3}, {"tool": "saw", "price": 4}]"#,
    ),
    (
        "a name and parameters among words",
        r#"The config is `{"name": "search", "parameters": {"port": 80}}`, in app.json."#,
    ),
    (
        "a call nested in other JSON",
        r#"{"config": [{"tool": "search", "parameters": {}, "terminate": true}]}"#,
    ),
];

fn outcome(form: CallForm, content: &str) -> String {
    match said_after(form, &[], &leads_tools(), content) {
        Ok(ReplyContent::Calls(calls)) => {
            let tools: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
            format!("calls {}", tools.join(", "))
        }
        Ok(ReplyContent::CallInProse(_)) => "back once".to_owned(),
        Ok(ReplyContent::Text(_)) => "answer".to_owned(),
        Err(malformed) => match malformed {
            MalformedReply::CutShort { .. } => "back: cut short",
            MalformedReply::OnlyThinking => "back: only thinking",
            MalformedReply::NoCall => "back: no call",
            MalformedReply::InvalidJson { .. } => "back: invalid JSON",
            MalformedReply::WrongFields { .. } => "back: wrong fields",
            MalformedReply::OtherForm => "back: other form",
            MalformedReply::Unreadable => "back: unreadable",
            MalformedReply::BareParameters { .. } => "back: bare parameters",
            MalformedReply::UnreadableCalls { .. } => "back: unreadable calls",
            MalformedReply::Ambiguous { .. } => "back: ambiguous",
        }
        .to_owned(),
    }
}

#[test]
fn loop_3_every_fault_in_every_form() {
    let mut table = vec![format!(
        "fault | {}",
        FORMS.map(|form| format!("{form:?}")).join(" | ")
    )];
    for (fault, content) in FAULTS.iter().chain(ANSWERS) {
        table.push(format!(
            "{fault} | {}",
            FORMS.map(|form| outcome(form, content)).join(" | ")
        ));
    }
    insta::assert_snapshot!("faults_in_forms", table.join("\n"));
}

#[test]
fn loop_3_text_that_is_clearly_meant_as_a_call_is_never_an_answer() {
    for (fault, content) in FAULTS {
        for form in FORMS.into_iter().filter(|form| *form != CallForm::Native) {
            assert_ne!(outcome(form, content), "answer", "{fault} in {form:?}");
        }
    }
}
