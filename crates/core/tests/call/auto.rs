//! Which replies are understood if no form was agreed on (CALL-4, CALL-5): the forms that small models use by themselves, and no others.

use dirigent_core::call::{CallForm, MalformedReply, ReplyContent};
use serde_json::{Value, json};

use super::{fault_in, one_call, said_in, text};

fn said(content: &str) -> Result<ReplyContent, MalformedReply> {
    said_in(CallForm::Auto, content)
}

fn fault(content: &str) -> String {
    fault_in(CallForm::Auto, content)
}

#[test]
fn call_4_auto_understands_the_forms_of_small_models() {
    for content in [
        r#"{"name": "list_files", "arguments": {"path": "src"}}"#,
        r#"{"name": "list_files", "parameters": {"path": "src"}}"#,
        r#"{"parameters": {"path": "src"}, "name": "list_files", "terminate": false}"#,
        r#"{"id": "call_1", "type": "function", "name": "list_files", "arguments": {"path": "src"}}"#,
        r#"{"name": "list_files", "arguments": "{\"path\": \"src\"}"}"#,
        r#"{"function": {"name": "list_files", "arguments": {"path": "src"}}}"#,
        r#"{"function": {"name": "list_files", "parameters": {"path": "src"}}}"#,
        r#"{"id": "call_1", "type": "function", "function": {"name": "list_files", "arguments": "{\"path\":\"src\"}"}}"#,
        r#"{"tool": "list_files", "parameters": {"path": "src"}}"#,
        r#"[{"name": "list_files", "arguments": {"path": "src"}}]"#,
        r#"{"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "list_files", "arguments": "{\"path\": \"src\"}"}}]}"#,
        r#"{"role": "assistant", "content": null, "tool_calls": [{"name": "list_files", "arguments": {"path": "src"}}]}"#,
        r#"{"function_call": {"name": "list_files", "arguments": "{\"path\": \"src\"}"}}"#,
        r#"{"functionCall": {"name": "list_files", "args": {"path": "src"}}}"#,
        r#"{"function": "list_files", "arguments": {"path": "src"}}"#,
        r#"{"tool_name": "list_files", "parameters": {"path": "src"}}"#,
        r#"{"tool"："list_files"，"parameters"：{"path"："src"}，}"#,
        r#"<function=list_files>{"path": "src"}</function>"#,
        r#"<tool_call><function=list_files>{"path": "src"}</function></tool_call>"#,
        r#"[TOOL_CALLS] [{"name": "list_files", "arguments": {"path": "src"}}]"#,
        r#"[TOOL_CALLS]list_files[ARGS]{"path": "src"}"#,
        r#"[TOOL_CALLS]list_files{"path": "src"}</s>"#,
        r#"<|tool_call|>[{"name": "list_files", "arguments": {"path": "src"}}]<|/tool_call|>"#,
        r#"<|python_tag|>{"name": "list_files", "parameters": {"path": "src"}}<|eom_id|>"#,
        r#"functools[{"name": "list_files", "arguments": {"path": "src"}}]"#,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>list_files\n```json\n{\"path\": \"src\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>list_files<｜tool▁sep｜>{\"path\": \"src\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.list_files:0<|tool_call_argument_begin|>{\"path\": \"src\"}<|tool_call_end|><|tool_calls_section_end|>",
        "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.list_files <|constrain|>json<|message|>{\"path\": \"src\"}<|call|>",
        "<|action_start|><|plugin|>{\"name\": \"list_files\", \"parameters\": {\"path\": \"src\"}}<|action_end|>",
        "```json\n{\n  \"name\": \"list_files\",\n  \"arguments\": {\n    \"path\": \"src\"\n  }\n}\n```\n\n\n",
        "<tool_call>\n{\"name\": \"list_files\", \"arguments\": {\"path\": \"src\"}}\n</tool_call>",
        "I look. <tool_call>{\"name\": \"list_files\", \"arguments\": {\"path\": \"src\"}}",
        "<tool_call>{\"tool\": \"list_files\", \"parameters\": {\"path\": \"src\"}}</tool_call>",
        "<tool_call>{\"tool_call\": {\"name\": \"list_files\", \"arguments\": {\"path\": \"src\"}}}</tool_call>",
        "<tool_call>{\"function\": {\"name\": \"list_files\", \"arguments\": {\"path\": \"src\"}}}</tool_call>",
        "<tool_call>{\"thought\": \"look\", \"name\": \"list_files\", \"arguments\": {\"path\": \"src\"}}</tool_call>",
        "<tool_call><tool_call> {\"name\": \"list_files\", \"arguments\": {\"path\": \"src\"}}}</tool_call>",
        "<think><tool_call>{\"name\": 1}</tool_call></think>{\"name\": \"list_files\", \"arguments\": {\"path\": \"src\"}}",
    ] {
        assert_eq!(
            said(content),
            one_call("list_files", json!({"path": "src"}), false),
            "{content}"
        );
    }
}

#[test]
fn call_1_auto_reads_a_boolean_terminate_and_refuses_a_string() {
    for content in [
        r#"{"tool": "done", "parameters": {}, "terminate": true}"#,
        r#"{"name": "done", "arguments": {}, "terminate": true}"#,
        r#"{"function": {"name": "done", "arguments": {}}, "terminate": true}"#,
    ] {
        assert_eq!(said(content), one_call("done", json!({}), true), "{content}");
        let with_string = content.replace("true", "\"true\"");
        assert_eq!(
            fault(&with_string),
            "your tool call has missing or wrong fields: `terminate` must be true or false, without quotes, but is a string"
        );
    }
}

#[test]
fn call_5_an_object_with_a_name_that_is_not_a_call_is_text() {
    for content in [
        r#"{"name": "my-app", "version": "1.0.0", "dependencies": {}}"#,
        r#"{"name": "my-app", "version": "1.0.0", "parameters": {"port": 80}}"#,
        r#"{"name": "Ada", "arguments": "none"}"#,
        r#"{"name": "Ada", "arguments": ""}"#,
        r#"{"name": "f", "parameters": ["a", "b"]}"#,
        r#"{"name": ["f"], "parameters": {}}"#,
        r#"{"name": "f", "arguments": {}, "parameters": {}}"#,
        r#"{"name": "f", "type": "method", "parameters": {}}"#,
        r#"{"name": "f", "description": "Does f.", "parameters": {}}"#,
        r#"{"name": "f", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}"#,
        r#"{"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": {}}}"#,
        r#"{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}"#,
        r#"{"function": "sin(x)"}"#,
        r#"{"function": {"body": "x"}}"#,
        r#"{"calls": [{"name": "f", "arguments": {}}]}"#,
        r#"{"name": "my-app", "scripts": {"build":"#,
        r#"{"name": "my-app", 'scripts': {}}"#,
        "{'a': 'b'}",
        "Models write `<tool_call>` and `</tool_call>` around it.",
    ] {
        assert_eq!(said(content), text(content), "{content}");
    }
}

#[test]
fn call_5_a_broken_call_by_name_is_malformed() {
    let faults = [
        r#"{"name": "f", "arguments": {"path": src}}"#,
        r#"{"name": "f", "arguments": {"path""#,
        r#"{"name": "f", "arguments": {"a": 1, "a": 2}}"#,
        r#"{"name": "f", "arguments": "{\"path\": \"src}"}"#,
        r#"{"function": {"name": "f", "arguments": {...}}}"#,
        r#"<tool_call>{"name": "f"}</tool_call>"#,
        r#"<tool_call>{"path": "src"}</tool_call>"#,
        r#"<tool_call>{"name": "f", "arguments": [1]}</tool_call>"#,
        "<tool_call>{name: f}</tool_call>",
    ]
    .map(|content| format!("{content}\n  {}", fault(content)));
    insta::assert_snapshot!(faults.join("\n"), @r##"
    {"name": "f", "arguments": {"path": src}}
      your tool call is not valid JSON: it is invalid after `": "f", "arguments": {"path": `, at `src}}`
    {"name": "f", "arguments": {"path"
      your tool call is not valid JSON: it is not closed: a quote, bracket or brace is missing at its end
    {"name": "f", "arguments": {"a": 1, "a": 2}}
      your tool call is not valid JSON: the key `a` occurs twice at line 1 column 39
    {"name": "f", "arguments": "{\"path\": \"src}"}
      your tool call has missing or wrong fields: `arguments` is a string without a JSON object: its arguments are not valid JSON: it is not closed: a quote, bracket or brace is missing at its end
    {"function": {"name": "f", "arguments": {...}}}
      your tool call is not valid JSON: it is invalid after `: {"name": "f", "arguments": {`, at `...}}}`
    <tool_call>{"name": "f"}</tool_call>
      your tool call has missing or wrong fields: `arguments` is missing: it must be an object
    <tool_call>{"path": "src"}</tool_call>
      your tool call has missing or wrong fields: `name` is missing: it must be a string; `arguments` is missing: it must be an object
    <tool_call>{"name": "f", "arguments": [1]}</tool_call>
      your tool call has missing or wrong fields: `arguments` must be an object, but is a list
    <tool_call>{name: f}</tool_call>
      your tool call is not valid JSON: it is invalid after `{`, at `name: f}</tool_call>`
    "##);
}

#[test]
fn call_5_different_calls_are_ambiguous_whatever_their_forms() {
    let same = r#"{"name": "a", "arguments": {}} <tool_call>{"name": "a", "arguments": {}}</tool_call>
        {"tool": "a", "parameters": {}, "terminate": false} {"tool_call": {"name": "a", "arguments": {}}}"#;
    assert_eq!(said(same), one_call("a", json!({}), false));
    let other = r#"<tool_call>{"name": "b", "arguments": {}}</tool_call>"#;
    let tools = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(
        said(&format!("{same}\n{other}")),
        Err(MalformedReply::Ambiguous { tools })
    );
}

#[test]
fn call_5_an_object_with_keys_of_several_forms_is_read_in_the_first_form() {
    for (content, tool) in [
        (
            r#"{"tool_call": {"name": "b", "arguments": {}}, "tool": "a", "parameters": {}, "terminate": false}"#,
            "a",
        ),
        (
            r#"{"name": "c", "arguments": {}, "tool_call": {"name": "b", "arguments": {}}}"#,
            "b",
        ),
        (
            r#"<tool_call>{"name": "d", "arguments": {}, "function": {"name": "c", "arguments": {}}}</tool_call>"#,
            "c",
        ),
    ] {
        assert_eq!(said(content), one_call(tool, json!({}), false), "{content}");
    }
}

/// The parameter of a call with this value, or the error.
fn parameter(value: &str) -> Result<Value, String> {
    let content = format!(r#"{{"tool": "a", "parameters": {{"x": {value}}}, "terminate": false}}"#);
    match said(&content) {
        Ok(ReplyContent::Calls(calls)) => Ok(calls[0].parameters["x"].clone()),
        Ok(ReplyContent::Text(text) | ReplyContent::CallInProse(text)) => panic!("text: {text}"),
        Err(malformed) => Err(malformed.to_string()),
    }
}

#[test]
fn call_5_auto_repairs_unambiguous_json() {
    for (written, value) in [
        ("'src'", json!("src")),
        (r#"'say "hi"'"#, json!("say \"hi\"")),
        (r#"'it\'s'"#, json!("it's")),
        (r#"'a\nb\\ \u00e9 \"'"#, json!("a\nb\\ é \"")),
        ("''", json!("")),
        ("True", json!(true)),
        ("[False, None]", json!([false, null])),
        ("'True'", json!("True")),
        ("[1, 2,]", json!([1, 2])),
        ("[1 , ]", json!([1])),
        ("{'a': {'b': 1,},}", json!({"a": {"b": 1}})),
        ("\"one\ntwo\tthree\r\"", json!("one\ntwo\tthree\r")),
        ("'{[<'", json!("{[<")),
        ("\"a, } ] ', None\"", json!("a, } ] ', None")),
    ] {
        assert_eq!(parameter(written), Ok(value), "{written}");
    }
    let python = "Here:\n{'tool': 'a', 'parameters': {'path': 'src', 'all': True}, 'terminate': False,}\n";
    assert_eq!(
        said(python),
        one_call("a", json!({"path": "src", "all": true}), false)
    );
    let tagged = "<tool_call>{'name': 'a', 'arguments': {'path': 'src'}}</tool_call>";
    assert_eq!(said(tagged), one_call("a", json!({"path": "src"}), false));
    let after_a_broken_one = "Not {'tool' but: {'name': 'a', 'arguments': {}}";
    assert_eq!(said(after_a_broken_one), one_call("a", json!({}), false));
}

#[test]
fn call_5_auto_never_invents_a_value() {
    let wrong = [
        "src",
        "{path: 1}",
        "",
        "[,]",
        "[1,,2]",
        "{,}",
        "[1 2]",
        "'a' 'b'",
        "'it's'",
        r#""say "hi"""#,
        r#""C:\dir""#,
        r#""\d+""#,
        r#""it\'s""#,
        "\"a\\\nb\"",
        "\"a\u{b}b\"",
        "'open",
        "[1, 2",
        "TRUE",
        "Nonesuch",
        "undefined",
        "NaN",
        "0x10",
        "1_000",
        "+1",
        ".5",
        "“src”",
        "1 // one",
        "...",
        "{'a': 1, \"a\": 2}",
        "123456789012345678901'",
    ];
    let faults = wrong.map(|value| {
        let fault = parameter(value).expect_err(value);
        format!(
            "{} -> {}",
            value.escape_debug(),
            fault.trim_start_matches("your tool call is not valid JSON: ")
        )
    });
    insta::assert_snapshot!(faults.join("\n"), @r##"
    src -> it is invalid after `ol": "a", "parameters": {"x": `, at `src}, "terminate": false}`
    {path: 1} -> it is invalid after `l": "a", "parameters": {"x": {`, at `path: 1}}, "terminate": false}`
     -> it is invalid after `ol": "a", "parameters": {"x": `, at `}, "terminate": false}`
    [,] -> it is invalid after `l": "a", "parameters": {"x": [`, at `,]}, "terminate": false}`
    [1,,2] -> it is invalid after `: "a", "parameters": {"x": [1,`, at `,2]}, "terminate": false}`
    {,} -> it is invalid after `l": "a", "parameters": {"x": {`, at `,}}, "terminate": false}`
    [1 2] -> it is invalid after `: "a", "parameters": {"x": [1 `, at `2]}, "terminate": false}`
    \'a\' \'b\' -> it is invalid after ` "a", "parameters": {"x": 'a' `, at `'b'}, "terminate": false}`
    \'it\'s\' -> it is invalid after ` "a", "parameters": {"x": 'it'`, at `s'}, "terminate": false}`
    \"say \"hi\"\" -> it is invalid after `a", "parameters": {"x": "say "`, at `hi""}, "terminate": false}`
    \"C:\\dir\" -> invalid escape at line 1 column 39
    \"\\d+\" -> invalid escape at line 1 column 37
    \"it\\\'s\" -> invalid escape at line 1 column 39
    \"a\\\nb\" -> a string contains a line break or another control character, after `: "a", "parameters": {"x": "a\`: write `\n` for a line break
    \"a\u{b}b\" -> a string contains a line break or another control character, after `": "a", "parameters": {"x": "a`: write `\n` for a line break
    \'open -> it is not closed: a quote, bracket or brace is missing at its end
    [1, 2 -> it is invalid after `"a", "parameters": {"x": [1, 2`, at `}, "terminate": false}`
    TRUE -> it is invalid after `ol": "a", "parameters": {"x": `, at `TRUE}, "terminate": false}`
    Nonesuch -> it is invalid after ` "a", "parameters": {"x": None`, at `such}, "terminate": false}`
    undefined -> it is invalid after `ol": "a", "parameters": {"x": `, at `undefined}, "terminate": false`
    NaN -> it is invalid after `ol": "a", "parameters": {"x": `, at `NaN}, "terminate": false}`
    0x10 -> it is invalid after `l": "a", "parameters": {"x": 0`, at `x10}, "terminate": false}`
    1_000 -> it is invalid after `l": "a", "parameters": {"x": 1`, at `_000}, "terminate": false}`
    +1 -> it is invalid after `ol": "a", "parameters": {"x": `, at `+1}, "terminate": false}`
    .5 -> it is invalid after `ol": "a", "parameters": {"x": `, at `.5}, "terminate": false}`
    “src” -> it is invalid after `ol": "a", "parameters": {"x": `, at `“src”}, "terminate": false}`
    1 // one -> it is invalid after `": "a", "parameters": {"x": 1 `, at `// one}, "terminate": false}`
    ... -> it is invalid after `ol": "a", "parameters": {"x": `, at `...}, "terminate": false}`
    {\'a\': 1, \"a\": 2} -> the key `a` occurs twice at line 1 column 46
    123456789012345678901\' -> it is invalid after `": {"x": 123456789012345678901`, at `'}, "terminate": false}`
    "##);
}

#[test]
fn call_5_only_the_auto_form_repairs_json() {
    let call = "{\"tool\": \"a\", \"parameters\": {\"x\": 'y'}, \"terminate\": false}";
    assert_eq!(said(call), one_call("a", json!({"x": "y"}), false));
    for form in [CallForm::Json, CallForm::JsonSchema] {
        assert!(matches!(
            said_in(form, call),
            Err(MalformedReply::InvalidJson { .. })
        ));
    }
    let call = "{\"tool_call\": {\"name\": \"a\", \"arguments\": {\"x\": 'y'}}}";
    assert_eq!(said(call), one_call("a", json!({"x": "y"}), false));
    assert!(matches!(
        said_in(CallForm::ToolCall, call),
        Err(MalformedReply::InvalidJson { .. })
    ));
}
