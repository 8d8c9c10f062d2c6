//! Calls in the JSON form, and native calls (CALL-1, CALL-2, CALL-5, CALL-7).

use dirigent_core::call::{CallForm, MalformedReply, ReplyContent, parse, read_arguments};
use dirigent_core::message::{FinishReason, MalformedCall, ModelReply};
use serde_json::json;

use super::{FORMS, call, one_call, reply, said_in, text};

/// The content of a reply in the JSON form. A schema for the reply makes no difference.
fn said(content: &str) -> Result<ReplyContent, MalformedReply> {
    let said = said_in(CallForm::Json, content);
    assert_eq!(said_in(CallForm::JsonSchema, content), said, "{content}");
    said
}

/// The error of a malformed reply.
fn fault(content: &str) -> String {
    said(content).expect_err(content).to_string()
}

const LIST: &str = r#"{"tool": "list_files", "parameters": {"path": "src"}, "terminate": false}"#;

fn list() -> Result<ReplyContent, MalformedReply> {
    one_call("list_files", json!({"path": "src"}), false)
}

#[test]
fn call_1_the_object_alone_is_a_call() {
    assert_eq!(said(LIST), list());
    assert_eq!(
        said(r#"{"terminate":true,"parameters":{},"tool":"done"}"#),
        one_call("done", json!({}), true)
    );
}

#[test]
fn call_1_other_fields_are_ignored() {
    let content =
        r#"{"thought": "look", "tool": "list_files", "parameters": {"path": "src"}, "terminate": false}"#;
    assert_eq!(said(content), list());
}

#[test]
fn call_1_each_missing_or_mistyped_field_is_named() {
    insta::assert_snapshot!(fault(r#"{"tool": "list_files"}"#), @"your tool call has missing or wrong fields: `parameters` is missing: it must be an object; `terminate` is missing: it must be true or false, without quotes");
    insta::assert_snapshot!(fault(r#"{"tool": "a", "parameters": [], "terminate": "true"}"#), @"your tool call has missing or wrong fields: `parameters` must be an object, but is a list; `terminate` must be true or false, without quotes, but is a string");
    insta::assert_snapshot!(fault(r#"{"parameters": {}, "terminate": 1}"#), @"your tool call has missing or wrong fields: `tool` is missing: it must be a string; `terminate` must be true or false, without quotes, but is a number");
}

#[test]
fn call_1_a_key_given_twice_is_malformed() {
    insta::assert_snapshot!(fault(r#"{"tool": "a", "tool": "b", "parameters": {}, "terminate": false}"#), @"your tool call is not valid JSON: the key `tool` occurs twice at line 1 column 20");
    insta::assert_snapshot!(fault(r#"{"tool": "a", "t\u006fol": "a", "parameters": {}, "terminate": false}"#), @"your tool call is not valid JSON: the key `tool` occurs twice at line 1 column 25");
    insta::assert_snapshot!(fault(r#"{"tool": "a", "parameters": {"p": [{"q": 1, "q": 1}]}, "terminate": false}"#), @"your tool call is not valid JSON: the key `q` occurs twice at line 1 column 47");
}

#[test]
fn call_5_a_call_is_found_in_any_surroundings() {
    for content in [
        format!("I will look.\n{LIST}\n"),
        format!("```json\n{LIST}\n```"),
        format!("```\n{LIST}\n```"),
        format!("~~~{LIST}~~~"),
        format!("<think>What to do?</think>{LIST}"),
        format!("<thinking>\n{{\"a\": [1, {{\n</thinking>\n\n{LIST}"),
        format!("<THINK>What to do?</THINK>{LIST}"),
        format!("<reasoning effort=\"high\">{LIST} or not?</reasoning>\n{LIST}"),
        format!("[THINK]What to do?[/THINK]{LIST}"),
        format!("<thought>{{\"tool\": \"b\"}}</thought> <analysis>One.</analysis>{LIST}"),
        format!("<|channel|>analysis<|message|>{{\"tool\": \"b\"}}<|end|>{LIST}"),
        format!("◁think▷What to do?◁/think▷{LIST}"),
        format!("<|begin_of_thought|>What?<|end_of_thought|>{LIST}"),
        format!("<seed:think>What?</seed:think>{LIST}"),
        format!("<thinking>Closed by another tag</think>\n{LIST}"),
        format!("It was opened in the prompt.\n[/THINK]\n{LIST}"),
        format!("It was opened in the prompt: {{\"tool\": 1}}\n</think>\n{LIST}"),
        format!("\u{feff}{LIST}"),
        format!("\0\u{1}{LIST}\0"),
        format!("Braces {{like these}}, [these] and {{}} are prose: {LIST}"),
        format!("An object {{\"a\": [true, null, -1.5e3]}} first, then {LIST}."),
        format!("A stray {{\" hides nothing: {LIST}"),
        format!("fn main() {{ let a = [1, 2]; }} {LIST}"),
        format!("It's 5 < 6 {LIST}"),
        format!("{LIST}\n{LIST}"),
        r#"{ "to\u006fl" : "list_files","parameters":{"path":"s\u0072c"} ,"terminate" :false }"#.to_owned(),
    ] {
        assert_eq!(said(&content), list(), "{content}");
    }
}

#[test]
fn call_5_strings_and_escapes_are_respected() {
    let content = r#"{"tool": "edit", "parameters": {"text": "fn a() { \"}\\\" } <think> \\", "line": "[{\n"}, "terminate": false}"#;
    let parameters = json!({"text": "fn a() { \"}\\\" } <think> \\", "line": "[{\n"});
    assert_eq!(said(content), one_call("edit", parameters, false));
}

#[test]
fn call_5_json_that_is_not_a_call_is_text() {
    for content in [
        "",
        "Just text.",
        "{\"answer\": 42}",
        r#"{"config": [{"tool": "list_files", "parameters": {}, "terminate": true}]}"#,
        r#"{"a": {"tool": "list_files", "parameters": {}, "terminate": true}}"#,
        r#"{"Tool": "x", "tools": ["tool"], "a": "tool"}"#,
        r#"The "tool": "hammer" is {not} here, [nor here"#,
        "{\"unfinished\": [1, 2",
        "{\"lone\": \"\\ud800\", \"huge\": 1e999, \"long\": 123456789012345678901234567890}",
        r#"{"tool": 7, "parameters": {}, "terminate": false}"#,
        r#"{"tool": null, "parameters": {}, "terminate": 1}"#,
        r#"{"tool": {"name": "hammer"}, "price": 3}"#,
        r#"{"tool": ["hammer", "saw"]}"#,
        r#"[{"tool": "hammer"}, {"tool": "saw"}]"#,
        "if (a < b) { return \"<think\"; }",
    ] {
        assert_eq!(said(content), text(content), "{content}");
    }
}

#[test]
fn call_5_a_call_inside_thinking_does_not_count() {
    assert_eq!(
        said(&format!("<think>{LIST}</think> Nothing to do. ")),
        text("Nothing to do.")
    );
    assert_eq!(said(&format!("{LIST}\n</think>\nDone.")), text("Done."));
    let in_the_middle = format!("First <think>{LIST}</think> last");
    assert_eq!(said(&in_the_middle), text(&in_the_middle));
    let unclosed = format!("Well. <think>Perhaps {LIST}");
    assert_eq!(said(&unclosed), text(&unclosed));
}

#[test]
fn call_5_a_tag_mentioned_in_an_answer_hides_no_text() {
    let answer = "Text before `</think>` and after `<think>` is passed over.";
    assert_eq!(said(answer), text(answer));
}

#[test]
fn call_5_different_calls_are_ambiguous_and_equal_calls_run_once() {
    let reordered = r#"{"terminate": false, "parameters": {"path": "src"}, "tool": "list_files"}"#;
    assert_eq!(said(&format!("{LIST} or {reordered}")), list());
    let other = r#"{"tool": "execute_sql", "parameters": {}, "terminate": false}"#;
    let tools = vec!["list_files".to_owned(), "execute_sql".to_owned()];
    assert_eq!(
        said(&format!("{LIST} and {other}")),
        Err(MalformedReply::Ambiguous { tools })
    );
    insta::assert_snapshot!(fault(&format!("{LIST} and {other}")), @"your reply has 2 different tool calls (to `list_files` and `execute_sql`), and none was executed: if you mean them all, send nothing but one array, `[{…}, {…}]`; otherwise make one call");
}

#[test]
fn call_5_calls_on_lines_of_their_own_are_the_array_of_them() {
    let other = r#"{"tool": "execute_sql", "parameters": {}, "terminate": false}"#;
    let last = other.replace("false", "true");
    let array = said(&format!("[{LIST}, {other}, {LIST}, {last}]"));
    assert!(array.is_ok(), "{array:?}");
    for reply in [
        format!("{LIST}\n{other}\n{LIST}\n{last}"),
        format!("<think>Both.</think>\n```json\n{LIST}\n\n{other}\n{LIST}\n{last}\n```"),
        // A call that is repeated at once runs once.
        format!("{LIST}\n{LIST}\n{other}\n{LIST}\n{last}"),
    ] {
        assert_eq!(said(&reply), array, "{reply}");
    }
    for reply in [
        format!("{LIST}, {other}"),
        format!("First:\n{LIST}\n{other}"),
        format!("{LIST}\nthen\n{other}"),
        format!("{LIST}\n{other}\nBoth are done."),
        format!("```json\n{LIST}\n```\n```json\n{other}\n```"),
        format!("{LIST}\n[{other}, {last}]"),
        format!("{last}\n{LIST}"),
    ] {
        assert!(!matches!(said(&reply), Ok(ReplyContent::Calls(_))), "{reply}");
    }
}

#[test]
fn call_5_a_broken_or_unfinished_call_is_malformed_not_text() {
    insta::assert_snapshot!(fault(r#"{"tool": "a", "parameters": {"#), @"your tool call is not valid JSON: it is not closed: a quote, bracket or brace is missing at its end");
    insta::assert_snapshot!(fault(r#"I say {"tool": "a"#), @"your tool call is not valid JSON: it is not closed: a quote, bracket or brace is missing at its end");
    insta::assert_snapshot!(fault(r#"{"tool": "a", "parameters": {...}, "terminate": false}"#), @r#"your tool call is not valid JSON: it is invalid after `{"tool": "a", "parameters": {`, at `...}, "terminate": false}`"#);
    insta::assert_snapshot!(fault(r#"{"tool": "a", "parameters": {"x": 'y'}, "terminate": false}"#), @r#"your tool call is not valid JSON: it is invalid after `ol": "a", "parameters": {"x": `, at `'y'}, "terminate": false}`"#);
    insta::assert_snapshot!(fault(r#"{"tool": "a", "parameters": {}, "terminate": False}"#), @r#"your tool call is not valid JSON: it is invalid after `parameters": {}, "terminate": `, at `False}`"#);
    insta::assert_snapshot!(fault(r#"{"tool": "a", "parameters": {}, "terminate": false,}"#), @r#"your tool call is not valid JSON: it is invalid after `ters": {}, "terminate": false,`, at `}`"#);
    insta::assert_snapshot!(fault("{\"tool\": \"a\", \"parameters\": {\"text\": \"one\ntwo\"}, \"terminate\": false}"), @r#"your tool call is not valid JSON: a string contains a line break or another control character, after `", "parameters": {"text": "one`: write `\n` for a line break"#);
}

#[test]
fn call_5_each_kind_of_invalid_value_has_its_own_error() {
    let with =
        |value: &str| format!(r#"{{"tool": "a", "parameters": {{"x": {value}}}, "terminate": false}}"#);
    insta::assert_snapshot!(fault(&with("123456789012345678901234567890")), @"your tool call is not valid JSON: the number `123456789012345678901234567890` is too large to represent exactly: write it as a string");
    insta::assert_snapshot!(fault(&with("1e999")), @"your tool call is not valid JSON: number out of range at line 1 column 39");
    insta::assert_snapshot!(fault(&with("01")), @"your tool call is not valid JSON: invalid number at line 1 column 36");
    insta::assert_snapshot!(fault(&with(r#""\ud800""#)), @"your tool call is not valid JSON: unexpected end of hex escape at line 1 column 42");
    insta::assert_snapshot!(fault(&with(r#""\x""#)), @"your tool call is not valid JSON: invalid escape at line 1 column 37");
    insta::assert_snapshot!(fault(&with("\"\0\"")), @r#"your tool call is not valid JSON: a string contains a line break or another control character, after `l": "a", "parameters": {"x": "`: write `\n` for a line break"#);
    insta::assert_snapshot!(fault(&with("\u{feff}1")), @r#"your tool call is not valid JSON: it is invalid after `ol": "a", "parameters": {"x": `, at `﻿1}, "terminate": false}`"#);
    assert_eq!(
        said(&with(r#""\u0000""#)),
        one_call("a", json!({"x": "\0"}), false)
    );
    assert_eq!(
        said(&with(r#""\ud83d\ude00""#)),
        one_call("a", json!({"x": "😀"}), false)
    );
    assert_eq!(
        said(&with("18446744073709551615")),
        one_call("a", json!({"x": u64::MAX}), false)
    );
    assert_eq!(
        said(&with("-9223372036854775808")),
        one_call("a", json!({"x": i64::MIN}), false)
    );
}

#[test]
fn call_5_nesting_is_bounded() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"tool": "a", "parameters": {{"x": {open}{close}}}, "terminate": false}}"#)
    };
    // The call and its parameters are two levels of nesting.
    assert!(matches!(said(&nested(62)), Ok(ReplyContent::Calls(_))));
    assert_eq!(
        fault(&nested(63)),
        "your tool call is not valid JSON: it is nested deeper than 64 levels"
    );
    // Not a call: it is nested too deeply.
    let deep = format!("{}{LIST}{}", "[".repeat(1000), "]".repeat(1000));
    assert_eq!(said(&deep), text(&deep));
}

#[test]
fn call_7_the_calls_of_a_truncated_reply_never_run() {
    for finish in [FinishReason::Length, FinishReason::Interrupted] {
        let native = ModelReply {
            calls: vec![call("a", json!({}), false)],
            ..reply("", finish)
        };
        for cut in [reply(LIST, finish), reply("Done.", finish), native] {
            for form in FORMS {
                assert_eq!(
                    parse(&cut, form),
                    Err(MalformedReply::CutShort { finish }),
                    "{form:?}"
                );
            }
        }
    }
    insta::assert_snapshot!(parse(&reply(LIST, FinishReason::Length), CallForm::Json).unwrap_err(), @"your reply was cut off at the token limit, so nothing in it was executed. Send it again, shorter");
    insta::assert_snapshot!(parse(&reply(LIST, FinishReason::Interrupted), CallForm::Json).unwrap_err(), @"your reply was interrupted before its end, so nothing in it was executed. Send it again");
}

#[test]
fn call_2_if_there_are_native_calls_only_these_count() {
    let calls = vec![call("b", json!({"x": 1}), false), call("c", json!({}), false)];
    for finish in [FinishReason::Stop, FinishReason::ToolCalls] {
        let reply = ModelReply {
            calls: calls.clone(),
            ..reply(LIST, finish)
        };
        for form in FORMS {
            assert_eq!(
                parse(&reply, form),
                Ok(ReplyContent::Calls(calls.clone())),
                "{form:?}"
            );
        }
    }
}

#[test]
fn call_2_one_malformed_call_keeps_all_calls_of_a_reply_from_running() {
    let broken = MalformedCall {
        name: "edit".to_owned(),
        arguments: r#"{"path": "a.rs", "text": "#.to_owned(),
        problem: read_arguments(r#"{"path": "a.rs", "text": "#).unwrap_err(),
    };
    let reply = ModelReply {
        calls: vec![call("b", json!({}), false)],
        malformed_calls: vec![broken.clone()],
        ..reply("", FinishReason::ToolCalls)
    };
    for form in FORMS {
        let fault = parse(&reply, form).unwrap_err();
        let calls = vec![broken.clone()];
        assert_eq!(fault, MalformedReply::UnreadableCalls { calls }, "{form:?}");
    }
    let fault = parse(&reply, CallForm::Native).unwrap_err();
    insta::assert_snapshot!(fault, @r#"your call of `edit` can't be read: its arguments are not valid JSON: it is not closed: a quote, bracket or brace is missing at its end. Its arguments were `{"path": "a.rs", "text": `. No call in your reply was executed: make them again, each with a JSON object as its arguments"#);
}

#[test]
fn call_2_arguments_are_an_object_or_nothing() {
    assert_eq!(
        read_arguments(r#" {"a": {"b": [1]}} "#),
        Ok(json!({"a": {"b": [1]}}))
    );
    assert_eq!(read_arguments("{}"), Ok(json!({})));
    assert_eq!(read_arguments(" \n"), Ok(json!({})));
}

#[test]
fn call_2_arguments_that_are_not_a_json_object_are_not_repaired() {
    let wrong = [
        "null",
        "[1]",
        r#""{}""#,
        "path: a",
        r#"{"a": 1"#,
        r#"{"a": 1,}"#,
        r#"{"a": 1, "a": 2}"#,
        r#"{"a": 123456789012345678901}"#,
        r#"{"a": 1} {"b": 2}"#,
    ];
    let problems: Vec<String> = wrong
        .iter()
        .map(|text| format!("{text} -> {}", read_arguments(text).unwrap_err()))
        .collect();
    insta::assert_snapshot!(problems.join("\n"), @r#"
    null -> its arguments must be an object, but are null
    [1] -> its arguments must be an object, but are a list
    "{}" -> its arguments must be an object, but are a string
    path: a -> its arguments are not a JSON object
    {"a": 1 -> its arguments are not valid JSON: it is not closed: a quote, bracket or brace is missing at its end
    {"a": 1,} -> its arguments are not valid JSON: it is invalid after `{"a": 1,`, at `}`
    {"a": 1, "a": 2} -> its arguments are not valid JSON: the key `a` occurs twice at line 1 column 12
    {"a": 123456789012345678901} -> its arguments are not valid JSON: the number `123456789012345678901` is too large to represent exactly: write it as a string
    {"a": 1} {"b": 2} -> there is text after its arguments: ` {"b": 2}`
    "#);
}

#[test]
fn malformed_replies_have_a_json_form() {
    let fault = said(r#"{"tool": "a"}"#).unwrap_err();
    let json = serde_json::to_value(&fault).unwrap();
    assert_eq!(json["kind"], "wrong_fields");
    assert_eq!(serde_json::from_value::<MalformedReply>(json).unwrap(), fault);
}
