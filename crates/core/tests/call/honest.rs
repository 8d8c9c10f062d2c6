//! Answers that mention calls, tools and JSON without making a call (CALL-5): in every form they remain text.

use dirigent_core::call::{CallForm, ReplyContent};

use super::{FORMS, leads_tools, said_after, text};

const ANSWERS: &[&str] = &[
    "Done.",
    "search and list_files are the tools that I used.",
    "search: the tool finds text in files.",
    "I used `search` with {\"pattern\": \"x\"} and found nothing.",
    "The function `search(pattern)` is defined in src/lib.rs:7.",
    "search(pattern) is called from three places:\n- a.rs\n- b.rs",
    "Models write `<tool_call>` and `</tool_call>` around a call.",
    "The tag <tool_call> opens a call, and </tool_call> closes it.",
    "Mistral's models write `[TOOL_CALLS]` before a list of calls.",
    "Text between `<think>` and `</think>` is skipped.",
    "I changed `Option<Reason>` to Option<Thought>, as the callers do.",
    "[Analysis](docs/analysis.md) has the figures, and errors[reason] the words.",
    "[Analysis] The parser is linear.",
    "The type is Vec<Analysis>, and <reason> is a tag of ours.",
    "{\"answer\": 42}",
    "{\"name\": \"my-app\", \"version\": \"1.0.0\", \"dependencies\": {}}",
    "{\"name\": \"Ada\", \"arguments\": {\"age\": 36}, \"born\": 1815}",
    "```json\n{\"verdict\": \"fine\", \"files\": [\"a.rs\"]}\n```",
    "{\"summary\": \"All is well.\", \"files\": 3}",
    "The plan has a `summary` and `subtasks`: {\"summary\": \"x\", \"subtasks\": []} is the least.",
    "{\"tools\": [\"hammer\", \"saw\"]}",
    "[1, 2, 3]",
    "[{\"path\": \"a.rs\", \"line\": 7}]",
    "{}",
    "[]",
    "{\"parameters\": {\"a\": 1}, \"returns\": \"int\"}",
    "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"Does f.\", \"parameters\": {}}}",
    "```rust\nfn main() {\n    let tool = Tool { name: \"hammer\" };\n}\n```",
    "```js\ncall({tool: name, parameters: args});\n```",
    "In JavaScript: `send({tool: 'hammer', parameters: {}})`, which returns a promise.",
    "```yaml\ntool: hammer\nparameters:\n  weight: 3\n```",
    "tool: hammer\nparameters: none",
    "Rust's `{name}` is a format argument; `{{name}}` is not.",
    "if (a < b) { return \"<think\"; }",
    "It ends with an open brace: {",
    "I would call a tool, but there is none for it.",
    "Vec<Tool> holds the tools; HashMap<String, Tool> finds them.",
    "<p>HTML has <function> nowhere.</p>",
    "Action: none is needed.",
    "flowchart TD\n  A[search] --> B{found?}\n  B -->|yes| C[answer]",
    "```mermaid\nflowchart TD\n  A[search] --> B{found?}\n```",
    "| tool | parameters |\n| --- | --- |\n| search | pattern |",
    "The reply was `{\"tool\": 7}`, which is no call.",
];

#[test]
fn call_5_an_answer_that_only_mentions_calls_is_text_in_every_form() {
    for answer in ANSWERS {
        for form in FORMS {
            assert_eq!(
                said_after(form, &[], &leads_tools(), answer),
                text(answer),
                "{form:?}"
            );
        }
    }
}

/// Prose that looks like thinking tags does not hide a call after it (LOOP-3).
#[test]
fn loop_3_words_that_look_like_thinking_tags_do_not_hide_a_call() {
    for words in [
        "I change `Option<Reason>` first.",
        "See [Analysis](a.md).",
        "errors[reason] is wrong.",
        "Vec<Think> is the type.",
        "It has <reflection> inside.",
    ] {
        let reply = format!("{words}\n{{\"tool\": \"search\", \"parameters\": {{}}, \"terminate\": false}}");
        let said = said_after(CallForm::Json, &[], &leads_tools(), &reply);
        assert!(matches!(said, Ok(ReplyContent::Calls(_))), "{words}: {said:?}");
    }
}
