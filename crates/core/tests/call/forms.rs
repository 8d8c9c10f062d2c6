//! The forms of calls other than JSON, and the rules for each of them (CALL-2, CALL-3, CALL-4, CALL-5, CALL-7).

use dirigent_core::call::{CallForm, MalformedReply, ReplyContent, parse};
use dirigent_core::message::{FinishReason, ModelReply};
use serde_json::json;

use super::{FORMS, call, fault_in, in_prose, one_call, reply, said_in, text};

const JSON: &str = r#"{"tool": "list_files", "parameters": {"path": "src"}, "terminate": false}"#;
const TOOL_CALL: &str = r#"{"tool_call": {"name": "list_files", "arguments": {"path": "src"}}}"#;

fn list() -> Result<ReplyContent, MalformedReply> {
    one_call("list_files", json!({"path": "src"}), false)
}

#[test]
fn call_2_in_the_native_form_text_never_contains_calls() {
    for content in [
        JSON,
        TOOL_CALL,
        r#"{"tool": "broken", "parameters":"#,
        "I saw <tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_call> in it.",
        "{\"answer\": \"yes\"}",
    ] {
        assert_eq!(said_in(CallForm::Native, content), text(content));
    }
    assert_eq!(
        said_in(CallForm::Native, &format!("<think>{JSON}</think> Done.\n")),
        text("Done.")
    );
}

#[test]
fn call_2_several_native_calls_are_allowed_and_stay_in_order() {
    let calls = vec![call("b", json!({"x": 1}), false), call("a", json!({}), false)];
    let native = ModelReply {
        calls: calls.clone(),
        ..reply(JSON, FinishReason::ToolCalls)
    };
    for form in FORMS {
        assert_eq!(
            parse(&native, form),
            Ok(ReplyContent::Calls(calls.clone())),
            "{form:?}"
        );
    }
}

#[test]
fn call_3_the_field_tool_call_is_a_call_that_never_terminates() {
    for content in [
        TOOL_CALL.to_owned(),
        format!("I will look.\n```json\n{TOOL_CALL}\n```"),
        format!("<think>{{\"tool_call\": 1}}</think>{TOOL_CALL}"),
        format!("{TOOL_CALL} {TOOL_CALL}"),
        r#"{"thought": "look", "tool_call": {"id": "c1", "name": "list_files", "arguments": {"path": "src"}, "terminate": true}, "terminate": true}"#.to_owned(),
        r#"{"tool_call": {"name": "list_files", "arguments": "{\"path\": \"src\"}"}}"#.to_owned(),
    ] {
        assert_eq!(said_in(CallForm::ToolCall, &content), list(), "{content}");
        assert_eq!(said_in(CallForm::Auto, &content), list(), "{content}");
    }
}

#[test]
fn call_3_each_missing_or_mistyped_field_is_named() {
    let faults = [
        r#"{"tool_call": "list_files"}"#,
        r#"{"tool_call": {}}"#,
        r#"{"tool_call": {"name": 1, "arguments": []}}"#,
        r#"{"tool_call": {"name": "a", "arguments": "path: src"}}"#,
        r#"{"tool_call": {"name": "a", "arguments": "{\"path\": }"}}"#,
        r#"{"tool_call": {"name": "a", "arguments": {"path": }}}"#,
        r#"{"tool_call": {"name": "a", "name": "b", "arguments": {}}}"#,
        r#"{"tool_call": {"name": "a", "arguments": {"#,
    ]
    .map(|content| format!("{content}\n  {}", fault_in(CallForm::ToolCall, content)));
    insta::assert_snapshot!(faults.join("\n"), @r##"
    {"tool_call": "list_files"}
      your tool call has missing or wrong fields: `tool_call` must be an object, but is a string
    {"tool_call": {}}
      your tool call has missing or wrong fields: `tool_call.name` is missing: it must be a string; `tool_call.arguments` is missing: it must be an object
    {"tool_call": {"name": 1, "arguments": []}}
      your tool call has missing or wrong fields: `tool_call.name` must be a string, but is a number; `tool_call.arguments` must be an object, but is a list
    {"tool_call": {"name": "a", "arguments": "path: src"}}
      your tool call has missing or wrong fields: `tool_call.arguments` must be an object, but is a string
    {"tool_call": {"name": "a", "arguments": "{\"path\": }"}}
      your tool call has missing or wrong fields: `tool_call.arguments` is a string without a JSON object: its arguments are not valid JSON: it is invalid after `{"path": `, at `}`
    {"tool_call": {"name": "a", "arguments": {"path": }}}
      your tool call is not valid JSON: it is invalid after `": "a", "arguments": {"path": `, at `}}}`
    {"tool_call": {"name": "a", "name": "b", "arguments": {}}}
      your tool call is not valid JSON: the key `name` occurs twice at line 1 column 34
    {"tool_call": {"name": "a", "arguments": {
      your tool call is not valid JSON: it is not closed: a quote, bracket or brace is missing at its end
    "##);
}

#[test]
fn call_3_different_calls_are_ambiguous() {
    let other = TOOL_CALL.replace("src", "docs");
    let tools = vec!["list_files".to_owned(), "list_files".to_owned()];
    assert_eq!(
        said_in(CallForm::ToolCall, &format!("{TOOL_CALL} or {other}")),
        Err(MalformedReply::Ambiguous { tools })
    );
}

#[test]
fn call_4_calls_of_another_form_are_neither_executed_nor_an_answer() {
    let by_name = r#"{"name": "list_files", "arguments": {"path": "src"}}"#;
    let tagged = format!("<tool_call>{by_name}</tool_call>");
    let other_form = || Err(MalformedReply::OtherForm);
    for (content, understood_in, in_native, elsewhere) in [
        (
            JSON,
            &[CallForm::Json, CallForm::JsonSchema, CallForm::Auto][..],
            text(JSON),
            other_form(),
        ),
        (
            TOOL_CALL,
            &[CallForm::ToolCall, CallForm::Auto],
            text(TOOL_CALL),
            other_form(),
        ),
        // Many objects have a `name`, and no tool of the model has this one.
        (by_name, &[CallForm::Auto], text(by_name), text(by_name)),
        (tagged.as_str(), &[CallForm::Auto], other_form(), other_form()),
    ] {
        for form in FORMS {
            let expected = match form {
                form if understood_in.contains(&form) => list(),
                CallForm::Native => in_native.clone(),
                CallForm::Json
                | CallForm::JsonSchema
                | CallForm::ToolCall
                | CallForm::Auto
                | CallForm::AutoNative => elsewhere.clone(),
            };
            assert_eq!(said_in(form, content), expected, "{content} in {form:?}");
        }
    }
}

#[test]
fn call_4_a_reply_that_must_match_a_schema_wraps_its_answer() {
    let said = |content: &str| said_in(CallForm::JsonSchema, content);
    assert_eq!(said(r#"{"answer": "All \"done\".\n"}"#), text("All \"done\".\n"));
    assert_eq!(
        said("<think>Hm.</think>\n {\"answer\": \"Done.\"}\n"),
        text("Done.")
    );
    assert_eq!(said(&format!(r#"{{"answer": {}}}"#, json!(JSON))), text(JSON));
    // Only an object with exactly this field has the form; everything else remains text.
    for other in [
        r#"{"answer": 42}"#,
        r#"{"answer": "a", "why": "b"}"#,
        r#"{"answer": "a"} and more"#,
        r#"So {"answer": "a"}"#,
        r#"{"answer": "a", "answer": "b"}"#,
        r#"{"answer": "a"#,
        r#"{"Answer": "a"}"#,
    ] {
        assert_eq!(said(other), text(other));
    }
    for form in [
        CallForm::Json,
        CallForm::Native,
        CallForm::ToolCall,
        CallForm::Auto,
    ] {
        let answer = r#"{"answer": "Done."}"#;
        assert_eq!(said_in(form, answer), text(answer), "{form:?}");
    }
}

#[test]
fn call_5_invalid_values_in_a_call_are_malformed_in_every_form() {
    for odd in [
        "123456789012345678901234567890",
        "1e999",
        "01",
        r#""\ud800""#,
        r#""\x""#,
        "\"\0\"",
        "\0",
        "\u{feff}1",
        r#"{"a": 1, "a": 1}"#,
        &format!("{}{}", "[".repeat(64), "]".repeat(64)),
        "...",
        "{",
    ] {
        for (form, content) in calls_with(odd) {
            assert!(
                matches!(said_in(form, &content), Err(MalformedReply::InvalidJson { .. })),
                "{content} in {form:?}: {:?}",
                said_in(form, &content)
            );
        }
    }
}

#[test]
fn call_5_unusual_valid_values_in_a_call_are_kept_in_every_form() {
    for (unusual, value) in [
        (r#""\u0000""#, json!("\0")),
        ("\"\u{feff}\"", json!("\u{feff}")),
        (r#""\ud83d\ude00""#, json!("😀")),
        ("18446744073709551615", json!(u64::MAX)),
        ("\"<think> {[\"", json!("<think> {[")),
        ("\"it's 'so'\"", json!("it's 'so'")),
    ] {
        for (form, content) in calls_with(unusual) {
            let content = format!("\u{feff}\0{content}\0");
            let expected = one_call("a", json!({"x": value}), false);
            assert_eq!(said_in(form, &content), expected, "{content} in {form:?}");
        }
    }
}

/// A call with this value as a parameter, in each form whose calls are in the text.
fn calls_with(value: &str) -> [(CallForm, String); 6] {
    let json = format!(r#"{{"tool": "a", "parameters": {{"x": {value}}}, "terminate": false}}"#);
    let tool_call = format!(r#"{{"tool_call": {{"name": "a", "arguments": {{"x": {value}}}}}}}"#);
    let by_name = format!(r#"{{"name": "a", "arguments": {{"x": {value}}}}}"#);
    [
        (CallForm::Json, json.clone()),
        (CallForm::JsonSchema, json.clone()),
        (CallForm::ToolCall, tool_call.clone()),
        (CallForm::Auto, json),
        (CallForm::Auto, tool_call),
        (CallForm::Auto, by_name),
    ]
}

#[test]
fn call_7_the_call_form_with_its_placeholder_is_not_a_call() {
    for (form, shown, own) in [
        (
            CallForm::Json,
            r#"{"tool": "name of the tool", "parameters": {}, "terminate": false}"#,
            JSON,
        ),
        (
            CallForm::ToolCall,
            r#"{"tool_call": {"name": "name of the tool", "arguments": {}}}"#,
            TOOL_CALL,
        ),
        (
            CallForm::Auto,
            r#"{"tool": "the tool's name", "parameters": {}, "terminate": false}"#,
            JSON,
        ),
    ] {
        let explained = format!("The form is `{shown}`, and I need none.");
        assert_eq!(said_in(form, &explained), text(&explained), "{form:?}");
        assert!(
            matches!(said_in(form, shown), Err(MalformedReply::WrongFields { .. })),
            "{form:?}"
        );
        assert_eq!(said_in(form, &format!("{shown}\n{own}")), list(), "{form:?}");
    }
}

#[test]
fn call_7_a_call_followed_by_words_is_not_executed() {
    for (form, call) in [
        (CallForm::Json, JSON),
        (CallForm::JsonSchema, JSON),
        (CallForm::ToolCall, TOOL_CALL),
        (CallForm::Auto, JSON),
        (CallForm::Auto, TOOL_CALL),
        (
            CallForm::Auto,
            "<tool_call>{\"name\": \"list_files\", \"arguments\": {\"path\": \"src\"}}</tool_call>",
        ),
    ] {
        for content in [
            format!("{call}\nThen I will know."),
            format!("I look:\n```json\n{call}\n```\nThat is it."),
            format!("{call}{call} Twice."),
        ] {
            assert_eq!(said_in(form, &content), in_prose(&content), "{form:?}");
        }
        // Fences, markup, punctuation and special tokens do not count as prose.
        for after in [
            ".",
            "\n```",
            "</tool_call>",
            "<|im_end|>",
            "</s>",
            "\n<think>Right?</think>\n",
            "}",
        ] {
            assert_eq!(
                said_in(form, &format!("I look:\n{call}{after}")),
                list(),
                "{after} in {form:?}"
            );
        }
    }
}

#[test]
fn call_5_a_list_is_several_calls_in_order() {
    let (one, two) = (
        r#"{"tool": "a", "parameters": {"x": 1}, "terminate": false}"#,
        r#"{"tool": "b", "parameters": {}, "terminate": true}"#,
    );
    let both = vec![call("a", json!({"x": 1}), false), call("b", json!({}), true)];
    let list = format!("[{one},\n {two}]");
    for form in [CallForm::Json, CallForm::JsonSchema, CallForm::Auto] {
        for content in [list.clone(), format!("Both:\n```json\n{list}\n```")] {
            assert_eq!(
                said_in(form, &content),
                Ok(ReplyContent::Calls(both.clone())),
                "{content} in {form:?}"
            );
        }
    }
    let by_field = r#"[{"tool_call": {"name": "a", "arguments": {"x": 1}}}, {"tool_call": {"name": "b", "arguments": {}}}]"#;
    let both = vec![call("a", json!({"x": 1}), false), call("b", json!({}), false)];
    for form in [CallForm::ToolCall, CallForm::Auto] {
        assert_eq!(
            said_in(form, by_field),
            Ok(ReplyContent::Calls(both.clone())),
            "{form:?}"
        );
    }
    let faults = [
        format!("[{two}, {one}]"),
        format!("[{one}, {{\"tool\": \"b\"}}]"),
        format!("[{one}, 7]"),
        format!("[{one}, {{\"tool\":"),
        format!("[{one}, {{x}}]"),
    ]
    .map(|content| format!("{content}\n  {}", fault_in(CallForm::Json, &content)));
    insta::assert_snapshot!(faults.join("\n"), @r#"
    [{"tool": "b", "parameters": {}, "terminate": true}, {"tool": "a", "parameters": {"x": 1}, "terminate": false}]
      your tool call has missing or wrong fields: only the last of several calls may have `"terminate": true`
    [{"tool": "a", "parameters": {"x": 1}, "terminate": false}, {"tool": "b"}]
      your tool call has missing or wrong fields: item 2 of the list: `parameters` is missing: it must be an object; `terminate` is missing: it must be true or false, without quotes
    [{"tool": "a", "parameters": {"x": 1}, "terminate": false}, 7]
      your tool call has missing or wrong fields: item 2 of the list: it is a number
    [{"tool": "a", "parameters": {"x": 1}, "terminate": false}, {"tool":
      your tool call is not valid JSON: it is not closed: a quote, bracket or brace is missing at its end
    [{"tool": "a", "parameters": {"x": 1}, "terminate": false}, {x}]
      your tool call is not valid JSON: it is invalid after `x": 1}, "terminate": false}, {`, at `x}]`
    "#);
}

#[test]
fn call_5_a_reply_that_ends_inside_its_thinking_is_malformed() {
    for content in [
        "<think>First I look, then I",
        "\n <thinking>\nFirst",
        "<think>One.</think>\n<think>Two",
        "One.\n</think>\n<think>Two",
        &format!("<think>Perhaps {JSON}"),
    ] {
        for form in FORMS {
            let said = said_in(form, content);
            assert_eq!(said, Err(MalformedReply::OnlyThinking), "{content} in {form:?}");
        }
    }
    for content in ["The tag `<think>` opens it.", "Done. <think>Or not"] {
        for form in FORMS {
            assert_eq!(said_in(form, content), text(content), "{form:?}");
        }
    }
    let native = ModelReply {
        calls: vec![call("a", json!({}), false)],
        ..reply("<think>I call", FinishReason::ToolCalls)
    };
    assert_eq!(parse(&native, CallForm::Native), one_call("a", json!({}), false));
}

#[test]
fn call_2_a_reply_with_announced_but_missing_calls_is_malformed() {
    for content in ["", "I will look.", "{\"answer\": \"Done.\"}"] {
        for form in FORMS {
            let said = parse(&reply(content, FinishReason::ToolCalls), form);
            assert_eq!(said, Err(MalformedReply::NoCall), "{content} in {form:?}");
        }
    }
    // A server may report this finish reason although the call is in the text.
    for (form, content) in [
        (CallForm::Json, JSON),
        (CallForm::JsonSchema, JSON),
        (CallForm::ToolCall, TOOL_CALL),
        (CallForm::Auto, TOOL_CALL),
    ] {
        assert_eq!(parse(&reply(content, FinishReason::ToolCalls), form), list());
    }
}
