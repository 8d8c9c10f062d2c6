//! Properties of every text in every form (CALL-4, CALL-5, CALL-7).

use dirigent_core::call::{CallForm, MalformedReply, ReplyContent};
use dirigent_core::message::ToolCall;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{FORMS, one_call, said_after, said_in};

/// Prose in which a call can still be recognized: the prose does not end within JSON or within thinking.
fn prose() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[^{\\[<\"]{0,20}",
        Just("{x}".to_owned()),
        Just("[1]".to_owned()),
        Just("```json\n".to_owned()),
        Just("\n```\n".to_owned()),
        Just("{\"a\": [1, \"}\"]}".to_owned()),
        Just("<think>{\"tool\": 1}</think>".to_owned()),
        Just("{{}}".to_owned()),
        Just("{\"".to_owned()),
        Just("a < b".to_owned()),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.join(" ") + "\n")
}

fn parameters() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let object = |value: BoxedStrategy<Value>| {
        proptest::collection::btree_map(any::<String>(), value, 0..4)
            .prop_map(|fields| Value::Object(fields.into_iter().collect()))
    };
    let value = leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            object(inner.boxed())
        ]
    });
    object(value.boxed())
}

/// The call in each form whose calls are in the text. Only the form of CALL-1 has `terminate`.
fn written(tool: &str, parameters: &Value, terminate: bool) -> Vec<(CallForm, Value)> {
    let json = json!({"tool": tool, "parameters": parameters, "terminate": terminate});
    let mut forms = vec![(CallForm::Json, json.clone()), (CallForm::JsonSchema, json)];
    if !terminate {
        let tool_call = json!({"tool_call": {"name": tool, "arguments": parameters}});
        forms.push((CallForm::ToolCall, tool_call));
    }
    forms
}

/// Typical pieces of replies, combined at random.
const BITS: &str = "(\\{|\\}|\\[|\\]|\"|'|:|,|\\\\| |\n|\t|<|0|1e9|true|True|None|null|\"tool\":|\"tool_call\":\\{|\"function\":\\{|\"name\":\"a\",|\
    \"arguments\":\\{|\"parameters\":\\{|\"terminate\":false|'tool':'a',|<tool_call>|</tool_call>|<think>|</think>\n|```json\n|\"answer\":\"|é|\u{feff}|\u{0}){0,40}";

/// Returns true if the calls occur in the text as JSON objects with the three fields, wherever they are. This check does not use the parser
/// under test.
fn stands_in(text: &str, said: &ReplyContent) -> bool {
    let ReplyContent::Calls(calls) = said else {
        return true;
    };
    let objects = text.match_indices('{').filter_map(|(place, _)| {
        serde_json::Deserializer::from_str(&text[place..])
            .into_iter::<Value>()
            .next()?
            .ok()
    });
    let objects: Vec<Value> = objects.collect();
    let stands = |call: &ToolCall| {
        objects.iter().any(|object| {
            object["tool"] == call.tool.as_str()
                && object["parameters"] == call.parameters
                && object["terminate"] == call.terminate
        })
    };
    calls
        .iter()
        .all(|call| call.parameters.is_object() && stands(call))
}

proptest! {
    #[test]
    fn call_7_a_quoted_call_among_words_is_never_executed(content in BITS) {
        for form in FORMS {
            let Ok(ReplyContent::Calls(calls)) = said_in(form, &content) else { continue };
            let given: Vec<String> = calls
                .iter()
                .map(|call| json!({"output": json!({"tool": call.tool, "parameters": call.parameters}).to_string()}).to_string())
                .collect();
            let given: Vec<&str> = given.iter().map(String::as_str).collect();
            // A closing tag makes the words before it count as thinking.
            let words = if content.contains("</think>") { "" } else { "The file says: " };
            let quoting = format!("{words}{content} It does.");
            let said = said_after(form, &given, &[], &quoting);
            prop_assert!(!matches!(said, Ok(ReplyContent::Calls(_))), "{:?}", said);
        }
    }

    #[test]
    fn call_5_no_reply_makes_the_parser_panic(content in any::<String>()) {
        for form in FORMS {
            let _ = said_in(form, &content);
        }
    }

    #[test]
    fn call_5_no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for form in FORMS {
            let _ = said_in(form, &String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn call_5_the_native_form_has_no_call_in_its_text(content in BITS) {
        for form in FORMS {
            match said_in(form, &content) {
                Ok(ReplyContent::Calls(calls)) => {
                    prop_assert!(form != CallForm::Native);
                    prop_assert!(calls.iter().all(|call| call.parameters.is_object()));
                }
                Ok(ReplyContent::CallInProse(_)) => prop_assert!(form != CallForm::Native),
                Ok(ReplyContent::Text(_)) | Err(_) => {}
            }
        }
    }

    #[test]
    fn call_1_the_json_form_accepts_only_objects_with_its_three_fields(content in BITS) {
        for form in [CallForm::Json, CallForm::JsonSchema] {
            if let Ok(said) = said_in(form, &content) {
                prop_assert!(stands_in(&content, &said), "{:?}", said);
            }
        }
    }

    #[test]
    fn call_5_a_json_call_after_prose_keeps_its_tool_and_parameters(
        before in prose(), tool in any::<String>(), parameters in parameters(), terminate in any::<bool>()
    ) {
        for (form, call) in written(&tool, &parameters, terminate) {
            for json in [call.to_string(), serde_json::to_string_pretty(&call).unwrap()] {
                let content = format!("{before}{json}");
                let with_words_after = format!("<think>Hm.</think>{content}\nThen I go on.");
                for form in [form, CallForm::Auto] {
                    prop_assert_eq!(said_in(form, &content), one_call(&tool, parameters.clone(), terminate));
                    let said = said_in(form, &with_words_after);
                    prop_assert!(matches!(said, Ok(ReplyContent::CallInProse(_))), "{:?}", said);
                }
            }
        }
    }

    #[test]
    fn call_5_a_json_call_by_name_after_prose_keeps_its_tool_and_parameters(
        before in prose(), tool in any::<String>(), parameters in parameters()
    ) {
        let by_name = json!({"name": tool, "arguments": parameters});
        let as_text = json!({"name": tool, "arguments": parameters.to_string()});
        let function = json!({"function": by_name});
        for call in [by_name, as_text, function] {
            for content in [format!("{before}{call}"), format!("{before}<tool_call>{call}</tool_call>\n")] {
                prop_assert_eq!(said_in(CallForm::Auto, &content), one_call(&tool, parameters.clone(), false));
            }
        }
    }

    #[test]
    fn call_5_a_call_with_python_literals_is_equal_to_the_json_call(
        text in any::<String>(), number in any::<i64>(), flag in any::<bool>()
    ) {
        let parameters = json!({"text": text, "list": [number, flag, null]});
        let quoted = json!(text).to_string();
        let single = quoted[1..quoted.len() - 1].replace("\\\"", "\"").replace('\'', "\\'");
        let flag = if flag { "True" } else { "False" };
        let content = format!("{{'tool': 'a', 'parameters': {{'text': '{single}', 'list': [{number}, {flag}, None,]}},}}");
        prop_assert_eq!(said_in(CallForm::Auto, &content), one_call("a", parameters, false));
    }

    #[test]
    fn call_7_a_truncated_call_is_never_executed(parameters in parameters(), cut in any::<prop::sample::Index>()) {
        let mut written = written("a", &parameters, true);
        written.extend(self::written("a", &parameters, false));
        written.push((CallForm::Auto, json!({"name": "a", "arguments": parameters})));
        written.push((CallForm::Auto, json!({"function": {"name": "a", "arguments": parameters}})));
        for (form, call) in written {
            let call = call.to_string();
            let places: Vec<usize> = call.char_indices().map(|(place, _)| place).collect();
            let cut = &call[..places[cut.index(places.len())]];
            for form in [form, CallForm::Auto] {
                for content in [cut.to_owned(), format!("<tool_call>{cut}"), cut.replace('"', "'")] {
                    prop_assert!(!matches!(said_in(form, &content), Ok(ReplyContent::Calls(_))), "{} in {:?}", content, form);
                }
            }
        }
    }
}

/// Long enough to notice a parser that is not linear. The benchmark `parser` measures a megabyte.
const LONG: usize = 1 << 16;

#[test]
fn call_5_many_repeated_unfinished_json_values_are_not_a_call() {
    for pattern in [
        "{\"\":",
        "{\"a{\":",
        "[",
        "{",
        "{\"",
        "\"{",
        "[\"[",
        "<",
        "<think>",
        "</think>\n",
        "\\",
        "\0",
        "{\":\":\",\",",
        "{\"x\":\"{\",",
        "[{\"[{\",",
        "{\"a\":\"<think>\"",
        "```json\n",
        "```json\n{",
        "<tool_call>",
        "<tool_call> ",
        "{'",
        "{'a':",
        "{'a':'",
        "{\"a\":True,\"b\":",
        "{\"name\":",
        "[TOOL_CALLS",
        "<think></reasoning>",
        "<a ",
        "◁",
        "<|channel|>analysis",
    ] {
        let content = pattern.repeat(LONG / pattern.len());
        for form in FORMS {
            match said_in(form, &content) {
                Ok(ReplyContent::Text(_)) => {}
                Err(MalformedReply::OnlyThinking) => assert_eq!(pattern, "<think>"),
                Err(MalformedReply::Unreadable) => assert_eq!(pattern.trim_end(), "<tool_call>"),
                other => panic!("{pattern} in {form:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn call_5_many_repeated_unfinished_calls_are_malformed() {
    for (pattern, form) in [
        ("{\"tool\":", CallForm::Json),
        ("{'tool':None,'", CallForm::Json),
        ("{\"tool\":\"a\"}", CallForm::Json),
        ("{\"tool\":\"a\",\"b\":", CallForm::Json),
        ("{\"tool\":\"{\"tool\":\"", CallForm::Json),
        ("[{\"tool\":\"a\",\"b\":", CallForm::Json),
        ("{\"tool_call\":{", CallForm::ToolCall),
        ("{\"tool_call\":'", CallForm::ToolCall),
        ("<tool_call>{", CallForm::Auto),
        ("<tool_call>{'a':", CallForm::Auto),
        ("{'tool':'", CallForm::Auto),
        ("{\"name\":\"a\",\"arguments\":", CallForm::Auto),
        ("{\"name\":\"a\",\"arguments\":None,\"id\":", CallForm::Auto),
        ("{\"function\":", CallForm::Auto),
    ] {
        let content = pattern.repeat(LONG / pattern.len());
        for form in [form, CallForm::Auto] {
            assert!(said_in(form, &content).is_err(), "{pattern} in {form:?}");
        }
    }
}
