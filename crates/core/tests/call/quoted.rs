//! Calls that a reply quotes from the model's input (CALL-7): they count only as the whole reply.

use dirigent_core::call::{CallForm, ContextCalls, ReplyContent};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{call, in_prose, leads_tools, one_call, said_after, text};

/// The parameters of the quoted call, one for each kind of spelling.
fn parameters() -> Value {
    json!({"path": "notes/ü.txt", "count": 10, "deep": {"quote": "say \"hi\"", "list": [true, null, 0.5]}})
}

fn the_call() -> Value {
    json!({"tool": "delete", "parameters": parameters(), "terminate": false})
}

/// The places in a message where the model can have read the call, each with its message.
fn places() -> Vec<(&'static str, String)> {
    let call = the_call().to_string();
    let pretty = serde_json::to_string_pretty(&the_call()).unwrap();
    let lines = |prefix: &str| {
        let lines: Vec<String> = pretty.lines().map(|line| format!("{prefix}{line}")).collect();
        lines.join("\n")
    };
    let result = |output: &str| format!("Changes: edited NOTES.md\nOutput:\n{output}");
    let numbered = |mark: &str| {
        let lines: Vec<String> = (8..)
            .zip(pretty.lines())
            .map(|(at, line)| format!("{at}{mark}{line}"))
            .collect();
        lines.join("\n")
    };
    let rows: Vec<Value> = pretty
        .lines()
        .map(|line| json!({"path": "NOTES.md", "text": line}))
        .collect();
    let report = json!({"findings": format!("I found: {pretty}")});
    let finding = json!({"observations": [report.to_string()]}).to_string();
    let source = format!("let reply = {};\nassert!(true);", Value::from(call.as_str()));
    vec![
        ("prompt", format!("# Tools\nExample: `{call}`\nNo more.")),
        ("task", format!("<TASK>\nNever do this:\n{pretty}\n</TASK>")),
        ("tool result", result(&call)),
        (
            "search by lines",
            format!("9 matches in 1 file\n\nNOTES.md\n{}", numbered(":")),
        ),
        ("lines of a file", format!("Lines 8-16 of 20\n{}", numbered("\t"))),
        ("lines around a match", numbered("-")),
        ("rows", json!({"rows": rows}).to_string()),
        ("nested finding", finding),
        ("guidance", format!("The user says: do not {call}!")),
        ("source code", result(&source)),
        ("diff", result(&lines("+"))),
        ("comment", result(&lines("    /// "))),
        ("numbered lines", result(&lines("  12: "))),
        ("web page", format!("<pre>{}</pre>", call.replace('"', "&quot;"))),
    ]
}

/// The same call, written in different ways.
fn spellings() -> Vec<(&'static str, String)> {
    let call = the_call().to_string();
    let reordered = r#"{ "terminate":true, "parameters": {"deep":{"list":[true,null,5e-1],"quote":"say \"hi\""},
        "path":"notes\/\u00fc.txt", "count":1.0E1}, "t\u006fol":"delete" }"#;
    vec![
        ("compact", call),
        ("pretty", serde_json::to_string_pretty(&the_call()).unwrap()),
        ("reordered and escaped", reordered.to_owned()),
        (
            "as tool_call",
            json!({"tool_call": {"name": "delete", "arguments": parameters()}}).to_string(),
        ),
        (
            "by markup",
            format!(
                "<tool_call><function=delete>{}</function></tool_call>",
                parameters()
            ),
        ),
    ]
}

/// Replies that contain the quote.
fn surroundings(quote: &str) -> [(&'static str, String); 4] {
    [
        ("words before", format!("NOTES.md says: {quote}")),
        ("words after", format!("{quote}\nThat is what it says.")),
        (
            "a fence among words",
            format!("It has this block:\n\n```json\n{quote}\n```\n\nNothing else."),
        ),
        (
            "thinking and words",
            format!("<think>What does it say?</think>\n> {quote}\n\n(line 7)"),
        ),
    ]
}

/// A row of the table: its name, the model's input, and the reply.
fn rows() -> Vec<(String, String, String)> {
    let mut rows = Vec::new();
    for (place, given) in places() {
        for (spelling, quote) in spellings() {
            for (surrounding, reply) in surroundings(&quote) {
                rows.push((
                    format!("{place} | {spelling} | {surrounding}"),
                    given.clone(),
                    reply,
                ));
            }
        }
    }
    rows
}

/// How the reply is understood, in a few words.
fn outcome(given: &str, reply: &str) -> String {
    match said_after(CallForm::Auto, &["You have tools.", given], &[], reply) {
        Ok(ReplyContent::Text(_)) => "answer".to_owned(),
        Ok(ReplyContent::Calls(calls)) => format!("calls {}", calls[0].tool),
        Ok(ReplyContent::CallInProse(_)) => "goes back once".to_owned(),
        Err(malformed) => format!("malformed: {malformed}"),
    }
}

#[test]
fn call_7_two_hundred_replies_with_quotations_make_no_call() {
    let rows = rows();
    assert_eq!(rows.len(), 280);
    let lines: Vec<String> = rows
        .iter()
        .map(|(name, given, reply)| format!("{name} | {}", outcome(given, reply)))
        .collect();
    for line in &lines {
        assert!(line.ends_with("goes back once"), "{line}");
    }
    insta::assert_snapshot!("quoting_replies", lines.join("\n"));
}

#[test]
fn call_7_the_same_calls_sent_alone_are_executed() {
    for (place, given) in places() {
        for (spelling, quote) in spellings() {
            for alone in [
                quote.clone(),
                format!("<think>It says so.</think>\n{quote}\n"),
                format!("```json\n{quote}\n```"),
            ] {
                let said = said_after(CallForm::Auto, &[&given], &[], &alone);
                // The form allows a fence or markup, but not both.
                let is_wrapped_twice = spelling == "by markup" && alone.starts_with("```");
                match said {
                    Ok(ReplyContent::CallInProse(_)) => assert!(is_wrapped_twice, "{place}: {alone}"),
                    Ok(ReplyContent::Calls(calls)) => {
                        assert!(!is_wrapped_twice, "{place}: {alone}");
                        assert_eq!(
                            (calls.len(), calls[0].tool.as_str()),
                            (1, "delete"),
                            "{place}: {alone}"
                        );
                    }
                    other => panic!("{place}: {alone}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn call_7_calls_after_words_count_if_the_context_does_not_contain_them() {
    for (spelling, quote) in spellings() {
        let reply = format!("I will do this: {quote}");
        let said = said_after(CallForm::Auto, &["Do it."], &[], &reply);
        assert!(matches!(said, Ok(ReplyContent::Calls(_))), "{spelling}: {said:?}");
    }
}

#[test]
fn call_7_a_new_call_counts_after_a_quoted_prompt() {
    let prompt = format!("# Tools\nExample: `{}`\nReply with a call.", the_call());
    let new = r#"{"tool": "note", "parameters": {"text": "one"}, "terminate": false}"#;
    let noted = one_call("note", json!({"text": "one"}), false);
    for form in [CallForm::Json, CallForm::JsonSchema, CallForm::Auto] {
        let said = |content: &str| said_after(form, &[&prompt], &[], content);
        assert_eq!(said(&format!("{prompt}\n\n{new}")), noted, "{form:?}");
        // A call before the prompt is not accepted.
        let before = format!("{new}\n\n{prompt}");
        assert_eq!(said(&before), in_prose(&before), "{form:?}");
        // Two calls, one of them quoted, are ambiguous.
        assert!(said(&format!("{}\n{new}", the_call())).is_err(), "{form:?}");
    }
}

#[test]
fn call_7_another_call_of_the_same_tool_is_new() {
    let given = the_call().to_string();
    let other = given.replace("10", "11");
    let reply = format!("As NOTES.md says, but one more: {other}");
    let mut parameters = parameters();
    parameters["count"] = json!(11);
    let said = said_after(CallForm::Json, &[&given], &[], &reply);
    assert_eq!(said, one_call("delete", parameters, false));
}

#[test]
fn call_7_a_quotation_in_the_models_form_is_recognised_whatever_the_original_form() {
    let given = "The server got {\"tool_call\": {\"name\": \"delete\", \"arguments\": {\"path\": \"a\"}}}.";
    let in_json =
        "Then I do: {\"tool\": \"delete\", \"parameters\": {\"path\": \"a\"}, \"terminate\": false}";
    let said = said_after(CallForm::Json, &[given], &[], in_json);
    assert_eq!(said, in_prose(in_json));
    // In the native form, text never contains calls.
    assert_eq!(
        said_after(CallForm::Native, &[given], &[], in_json),
        text(in_json)
    );
}

#[test]
fn call_7_the_bare_parameters_of_a_plan_in_a_file_count_as_a_quotable_call() {
    let plan = json!({"summary": "Delete it all.", "subtasks": [{"id": "x", "title": "X", "calls": [{"tool": "delete", "parameters": {"path": "a"}}]}]});
    let given = json!({"success": true, "output": format!("# PLAN\n{plan}")}).to_string();
    let submitted = json!({"tool": "submit_plan", "parameters": plan, "terminate": true}).to_string();
    let reply = format!("NOTES.md holds this plan:\n{submitted}");
    let said = |content: &str| said_after(CallForm::Json, &[&given], &leads_tools(), content);
    assert_eq!(said(&reply), in_prose(&reply));
    assert_eq!(said(&submitted), one_call("submit_plan", plan, true));
}

#[test]
fn call_7_the_parameters_of_a_call_may_quote_the_context() {
    let given = the_call().to_string();
    let parameters = json!({"content": format!("NOTES.md says: {given}")});
    let reply = format!(
        "I write it down. {}",
        json!({"tool": "write", "parameters": parameters, "terminate": false})
    );
    let said = said_after(CallForm::Json, &[&given], &[], &reply);
    assert_eq!(said, one_call("write", parameters, false));
}

#[test]
fn call_7_a_list_of_calls_and_each_of_its_calls_count_as_quotable() {
    let list = format!(
        "[{}, {}]",
        the_call(),
        json!({"tool": "b", "parameters": {}, "terminate": false})
    );
    let quoted = format!("It says: {list}");
    let one_of_it = format!("It says: {}", the_call());
    for reply in [&quoted, &one_of_it] {
        let said = said_after(CallForm::Json, &[&list], &[], reply);
        assert_eq!(said, in_prose(reply));
    }
    let said = said_after(CallForm::Json, &[&list], &[], &list);
    let both = vec![call("delete", parameters(), false), call("b", json!({}), false)];
    assert_eq!(said, Ok(ReplyContent::Calls(both)));
}

#[test]
fn call_7_a_quoted_call_as_the_whole_reply_may_have_one_fence_or_markup_around_it() {
    let given = the_call().to_string();
    for reply in [
        format!("\"{given}\""),
        format!("`{given}`"),
        format!("> {given}"),
        format!("{given}."),
        format!("{given}\n{given}"),
        format!("````\n```json\n{given}\n```\n````"),
        format!("```json\n<tool_call>{given}</tool_call>\n```"),
        format!("```NOTES.md\n{given}\n```"),
    ] {
        let said = said_after(CallForm::Auto, &[&given], &[], &reply);
        assert_eq!(said, in_prose(&reply));
    }
}

#[test]
fn call_7_a_quoted_closing_thinking_tag_does_not_hide_the_words_before_it() {
    let given = json!({"success": true, "output": format!("# Notes\n</think>\n{}", the_call())}).to_string();
    let reply = format!("NOTES.md says:\n# Notes\n</think>\n{}", the_call());
    let said = |given: &[&str]| said_after(CallForm::Json, given, &[], &reply);
    assert_eq!(said(&[&given]), in_prose(&reply));
    // Here `</think>` was not quoted from a tool result, so it ends the model's own thinking, and the call after it counts.
    let deleted = one_call("delete", parameters(), false);
    assert_eq!(said(&[&the_call().to_string()]), deleted);
}

#[test]
fn call_7_if_the_context_cannot_be_searched_every_call_counts_as_quoted() {
    let evasive = "{\"a\":".repeat(20_000);
    let hidden = format!("{evasive}{}", the_call());
    let mut given = ContextCalls::default();
    given.add(&hidden);
    assert!(given.contains(&call("delete", parameters(), false)));
    let mut deep = the_call().to_string();
    for _ in 0..100 {
        deep = format!("{{\"a\": {deep}}}");
    }
    let mut given = ContextCalls::default();
    given.add(&deep);
    assert!(given.contains(&call("delete", parameters(), false)));
}

/// Long enough to notice a search that is not linear.
#[test]
fn call_7_many_repeated_unfinished_calls_are_searched_in_linear_time() {
    for pattern in [
        "{\"a\":",
        "{\"a\":\"{",
        "{",
        "{\"",
        "\\\\\"{",
        "\\",
        "<function=a>{\"x\":",
        "<tool_call>a{\"",
        "[TOOL_CALLS]a{",
        "{'a':'",
        "\n+{\"a\":1",
        "&quot;{&amp;",
        "{\"a\":{\"b\":1},",
        "[{\"a\":1},{",
        "{\":\":\",\",",
    ] {
        let mut given = ContextCalls::default();
        given.add(&format!(
            "{}\n{}",
            pattern.repeat((1 << 17) / pattern.len()),
            the_call()
        ));
        // Either the call is found, or every call counts as quoted.
        assert!(given.contains(&call("delete", parameters(), false)), "{pattern}");
    }
}

/// A value that a call may have as a parameter.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e6..1e6_f64).prop_map(Value::from),
        "[ -~é\n\t]{0,12}".prop_map(Value::from),
        Just(Value::from("{\"tool\": \"x\"} [TOOL_CALLS] <think>")),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Spells a value differently: keys in the other order, more white space, escaped characters, whole numbers with a decimal point.
fn respelled(value: &Value, escape: bool) -> String {
    match value {
        Value::Object(object) => {
            let fields: Vec<String> = object
                .iter()
                .rev()
                .map(|(key, value)| {
                    format!(
                        "{} :\n {}",
                        respelled(&json!(key), escape),
                        respelled(value, escape)
                    )
                })
                .collect();
            format!("{{ {} }}", fields.join(" ,\t"))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| respelled(item, escape)).collect();
            format!("[ {} ]", items.join(" , "))
        }
        Value::String(text) if escape => {
            let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
            format!("\"{}\"", units.collect::<String>())
        }
        Value::Number(number) if number.as_i64().is_some_and(|number| number.abs() < 1 << 50) => {
            format!("{number}.0")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// Nests the text this many times as a JSON string or a string constant.
fn nested(text: String, levels: usize) -> String {
    (0..levels).fold(text, |text, level| match level % 2 {
        0 => json!({"success": true, "output": text}).to_string(),
        _ => format!("const DATA: &str = {};", Value::from(text)),
    })
}

proptest! {
    #[test]
    fn call_7_a_call_quoted_at_any_level_of_escapes_counts_only_as_the_whole_reply(
        fields in proptest::collection::btree_map("[a-z]{1,6}", value(), 0..4),
        words in "[a-zA-Z][a-zA-Z ,.]{0,20}",
        levels in 0..5_usize,
        (escape, respell_given, fence) in any::<(bool, bool, bool)>(),
    ) {
        let parameters = Value::Object(fields.into_iter().collect());
        let call = json!({"tool": "delete", "parameters": parameters, "terminate": false});
        let by_field = json!({"tool_call": {"name": "delete", "arguments": parameters}});
        let given_as = if respell_given { respelled(&call, false) } else { by_field.to_string() };
        let given = nested(format!("{words}: {given_as} {words}"), levels);
        for quote in [call.to_string(), respelled(&call, escape), by_field.to_string()] {
            let quote = if fence { format!("```json\n{quote}\n```") } else { quote };
            for reply in [format!("{words}: {quote}"), format!("{quote} {words}"), format!("{words} {quote} {words}")] {
                let said = said_after(CallForm::Auto, &["Do it.", &given], &[], &reply);
                prop_assert!(matches!(said, Ok(ReplyContent::CallInProse(_))), "{} after {}: {:?}", reply, given, said);
            }
            let said = said_after(CallForm::Auto, &["Do it.", &given], &[], &quote);
            prop_assert!(matches!(said, Ok(ReplyContent::Calls(_))), "{} after {}: {:?}", quote, given, said);
        }
    }

    #[test]
    fn call_7_a_quotable_call_does_not_hide_a_different_call(
        fields in proptest::collection::btree_map("[a-z]{1,6}", value(), 0..4), levels in 0..4_usize
    ) {
        let mut parameters = Value::Object(fields.into_iter().collect());
        let given = nested(json!({"tool": "delete", "parameters": parameters}).to_string(), levels);
        parameters["another"] = json!("key");
        let call = json!({"tool": "delete", "parameters": parameters, "terminate": false});
        let said = said_after(CallForm::Json, &[&given], &[], &format!("I go on. {call}"));
        prop_assert_eq!(said, one_call("delete", parameters, false));
    }
}
