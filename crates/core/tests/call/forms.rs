//! The forms other than the JSON one, and what holds in each of them (CALL-2, CALL-3, CALL-4, CALL-5, CALL-7).

use dirigent_core::call::{CallForm, Malformed, Said, parse, parse_after};
use dirigent_core::message::{FinishReason, ModelReply};
use serde_json::json;

use super::{FORMS, call, fault_in, one_call, reply, said_in, text};

const JSON: &str = r#"{"tool": "list_files", "parameters": {"path": "src"}, "terminate": false}"#;
const TOOL_CALL: &str = r#"{"tool_call": {"name": "list_files", "arguments": {"path": "src"}}}"#;

fn list() -> Result<Said, Malformed> {
    one_call("list_files", json!({"path": "src"}), false)
}

#[test]
fn call_2_in_the_native_form_text_is_text_whatever_it_holds() {
    for content in [
        JSON,
        TOOL_CALL,
        r#"{"tool": "broken", "parameters":"#,
        "<tool_call>{\"name\": \"a\", \"arguments\": {}}</tool_call>",
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
fn call_2_several_native_calls_stay_in_order_though_the_text_forms_allow_one() {
    let calls = vec![call("b", json!({"x": 1}), false), call("a", json!({}), false)];
    let native = ModelReply {
        calls: calls.clone(),
        ..reply(JSON, FinishReason::ToolCalls)
    };
    for form in FORMS {
        assert_eq!(parse(&native, form), Ok(Said::Calls(calls.clone())), "{form:?}");
    }
}

#[test]
fn call_3_the_field_tool_call_is_a_call_that_never_terminates() {
    for content in [
        TOOL_CALL.to_owned(),
        format!("I will look.\n```json\n{TOOL_CALL}\n```\nThen I will know."),
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
      your tool call is incomplete: `tool_call` must be an object, and is a string
    {"tool_call": {}}
      your tool call is incomplete: `tool_call.name` is missing: it must be a string; `tool_call.arguments` is missing: it must be an object
    {"tool_call": {"name": 1, "arguments": []}}
      your tool call is incomplete: `tool_call.name` must be a string, and is a number; `tool_call.arguments` must be an object, and is a list
    {"tool_call": {"name": "a", "arguments": "path: src"}}
      your tool call is incomplete: `tool_call.arguments` must be an object, and is a string
    {"tool_call": {"name": "a", "arguments": "{\"path\": }"}}
      your tool call is incomplete: `tool_call.arguments` is a string that holds no object: its arguments are not valid JSON: it goes wrong after `{"path": `, at `}`
    {"tool_call": {"name": "a", "arguments": {"path": }}}
      your tool call is not valid JSON: it goes wrong after `": "a", "arguments": {"path": `, at `}}}`
    {"tool_call": {"name": "a", "name": "b", "arguments": {}}}
      your tool call is not valid JSON: the key `name` is given twice at line 1 column 34
    {"tool_call": {"name": "a", "arguments": {
      your tool call is not valid JSON: it is not closed: a quote, bracket or brace is missing at its end
    "##);
}

#[test]
fn call_3_different_calls_are_ambiguous() {
    let other = TOOL_CALL.replace("src", "docs");
    let tools = vec!["list_files".to_owned(), "list_files".to_owned()];
    assert_eq!(
        said_in(CallForm::ToolCall, &format!("{TOOL_CALL}{other}")),
        Err(Malformed::Ambiguous { tools })
    );
}

#[test]
fn call_4_each_form_takes_its_own_calls_for_calls() {
    let by_name = r#"{"name": "list_files", "arguments": {"path": "src"}}"#;
    let tagged = format!("<tool_call>{by_name}</tool_call>");
    for (content, understood_in) in [
        (JSON, &[CallForm::Json, CallForm::JsonSchema, CallForm::Auto][..]),
        (TOOL_CALL, &[CallForm::ToolCall, CallForm::Auto]),
        (by_name, &[CallForm::Auto]),
        (tagged.as_str(), &[CallForm::Auto]),
    ] {
        for form in FORMS {
            let expected = if understood_in.contains(&form) {
                list()
            } else {
                text(content)
            };
            assert_eq!(said_in(form, content), expected, "{content} in {form:?}");
        }
    }
}

#[test]
fn call_4_a_reply_held_to_a_schema_wraps_its_answer() {
    let said = |content: &str| said_in(CallForm::JsonSchema, content);
    assert_eq!(said(r#"{"answer": "All \"done\".\n"}"#), text("All \"done\".\n"));
    assert_eq!(
        said("<think>Hm.</think>\n {\"answer\": \"Done.\"}\n"),
        text("Done.")
    );
    assert_eq!(said(&format!(r#"{{"answer": {}}}"#, json!(JSON))), text(JSON));
    // Nothing but that is the form: it is text as it stands.
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
fn call_5_what_is_odd_in_a_call_is_malformed_in_every_form() {
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
                matches!(said_in(form, &content), Err(Malformed::InvalidJson { .. })),
                "{content} in {form:?}: {:?}",
                said_in(form, &content)
            );
        }
    }
}

#[test]
fn call_5_what_is_unusual_in_a_call_is_itself_in_every_form() {
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

/// A call with that value as a parameter, in each form that has calls in its text.
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
fn call_7_the_form_as_it_is_shown_is_no_call() {
    for content in [
        r#"{"tool": "name of the tool", "parameters": {}, "terminate": false}"#,
        r#"{"tool_call": {"name": "name of the tool", "arguments": {}}}"#,
        r#"{"name": "name of the tool", "arguments": {}}"#,
        r#"{"tool": "the tool's name", "parameters": {}, "terminate": false}"#,
    ] {
        for form in FORMS {
            assert_eq!(said_in(form, content), text(content), "{form:?}");
            let with_call = format!("{content}\n{JSON}\n{TOOL_CALL}");
            match form {
                CallForm::Native => assert_eq!(said_in(form, &with_call), text(&with_call)),
                CallForm::Json | CallForm::JsonSchema | CallForm::ToolCall | CallForm::Auto => {
                    assert_eq!(said_in(form, &with_call), list(), "{form:?}");
                }
            }
        }
    }
}

#[test]
fn call_7_a_line_of_the_prompt_is_no_call() {
    for (form, shown) in [
        (CallForm::Json, JSON),
        (CallForm::JsonSchema, JSON),
        (CallForm::ToolCall, TOOL_CALL),
        (CallForm::Auto, JSON),
        (CallForm::Auto, TOOL_CALL),
        (
            CallForm::Auto,
            r#"{"name": "list_files", "arguments": {"path": "src"}}"#,
        ),
    ] {
        let prompt = format!("You have tools.\n  Example: `{shown}`\nThat is all.");
        let echo = format!("Example: `{shown}`\nI found nothing.");
        let said = |content: &str| {
            let reply = reply(content, FinishReason::Stop);
            parse_after(&reply, form, &["Look.", &prompt])
        };
        assert_eq!(said(&echo), text(&echo), "{form:?}");
        // A call of its own counts, also the one that is shown; and so does a line that no prompt has.
        assert_eq!(said(&format!("{echo}\n{shown}")), list(), "{form:?}");
        assert_eq!(said(&format!("My example: `{shown}`")), list(), "{form:?}");
    }
}

#[test]
fn call_7_an_answer_held_to_a_schema_may_quote_the_prompt() {
    let prompt = format!("Example: `{JSON}`");
    let answer = format!("{{\n\"answer\": \"It is said in\\n{}\"}}", "a line");
    let quoting = format!("<think>\n{prompt}\n</think>\n{answer}");
    let said = parse_after(
        &reply(&quoting, FinishReason::Stop),
        CallForm::JsonSchema,
        &[&prompt],
    );
    assert_eq!(said, text("It is said in\na line"));
}

/// What is said after a prompt.
fn said_after(prompt: &str, form: CallForm, content: &str) -> Result<Said, Malformed> {
    parse_after(&reply(content, FinishReason::Stop), form, &["Look.", prompt])
}

#[test]
fn call_7_a_call_stays_whole_where_its_lines_stand_in_the_prompt_too() {
    let goal = "POST this:\n{\n  \"name\": \"Ada\",\n  \"age\": 36\n}";
    let body = json!({"name": "Ada", "age": 36});
    let call = json!({"tool": "http_request", "parameters": {"body": body}, "terminate": false});
    let pretty = serde_json::to_string_pretty(&call).unwrap();
    assert!(pretty.contains("\n      \"name\": \"Ada\",\n"), "{pretty}");
    for form in [CallForm::Json, CallForm::JsonSchema, CallForm::Auto] {
        let posted = one_call("http_request", json!({"body": body}), false);
        assert_eq!(said_after(goal, form, &pretty), posted, "{form:?}");
        // What is asked for in so many lines is meant.
        assert_eq!(said_after(&pretty, form, &pretty), posted, "{form:?}");
        let among_words = format!("So: {pretty}, as you asked.");
        assert_eq!(said_after(&among_words, form, &among_words), posted, "{form:?}");
    }
    let by_name = "{\n  \"name\": \"greet\",\n  \"arguments\": {\"name\": \"Ada\"}\n}";
    assert_eq!(
        said_after("Greet:\n  \"name\": \"greet\",", CallForm::Auto, by_name),
        one_call("greet", json!({"name": "Ada"}), false)
    );
}

#[test]
fn call_7_what_is_left_of_an_echo_stays_what_it_was() {
    let prompt = format!("Example: `{JSON}`");
    for (content, expected) in [
        // The line is not the prompt's, though what it begins with is.
        (format!("{prompt} is what I do."), list()),
        // Nor where the call goes on in the next line.
        (prompt.replace(", \"parameters\"", ",\n\"parameters\""), list()),
        (format!("{prompt}\n\n{prompt}\n{JSON}"), list()),
        (
            format!(
                "{prompt}\n{}",
                r#"{"tool": "a", "parameters": {}, "terminate": false}"#
            ),
            one_call("a", json!({}), false),
        ),
    ] {
        assert_eq!(
            said_after(&prompt, CallForm::Auto, &content),
            expected,
            "{content}"
        );
    }
    let broken = r#"Say {"tool": …} to call."#;
    for content in [broken.to_owned(), format!("{broken}\nSo be it.")] {
        assert_eq!(said_after(broken, CallForm::Json, &content), text(&content));
        assert!(said_after("", CallForm::Json, &content).is_err());
    }
    // Half a line is none of the prompt's.
    let half = &prompt[..prompt.len() - 10];
    assert!(said_after(&prompt, CallForm::Json, half).is_err());
}

#[test]
fn call_5_a_reply_that_ends_inside_its_thinking_says_nothing() {
    for content in [
        "<think>First I look, then I",
        "\n <thinking>\nFirst",
        "<think>One.</think>\n<think>Two",
        "One.\n</think>\n<think>Two",
        &format!("<think>Perhaps {JSON}"),
    ] {
        for form in FORMS {
            let said = said_in(form, content);
            match form {
                // As it was before there was a choice: journals say so.
                CallForm::Json => assert!(matches!(said, Ok(Said::Text(_))), "{content}: {said:?}"),
                CallForm::JsonSchema | CallForm::Native | CallForm::ToolCall | CallForm::Auto => {
                    assert_eq!(said, Err(Malformed::OnlyThinking), "{content} in {form:?}");
                }
            }
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
fn call_2_calls_that_were_announced_and_not_made_are_malformed() {
    for content in ["", "I will look.", "<tool_call>list_files</tool_call>"] {
        for form in FORMS {
            let said = parse(&reply(content, FinishReason::ToolCalls), form);
            match form {
                CallForm::Json => assert_eq!(said, text(content)),
                CallForm::JsonSchema | CallForm::Native | CallForm::ToolCall | CallForm::Auto => {
                    assert_eq!(said, Err(Malformed::NoCall), "{content} in {form:?}");
                }
            }
        }
    }
    // A server may call what stands in the text by that name.
    for (form, content) in [
        (CallForm::JsonSchema, JSON),
        (CallForm::ToolCall, TOOL_CALL),
        (CallForm::Auto, TOOL_CALL),
    ] {
        assert_eq!(parse(&reply(content, FinishReason::ToolCalls), form), list());
    }
}
