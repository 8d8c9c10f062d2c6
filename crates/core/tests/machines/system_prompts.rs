//! The agents' system prompts, and the corrections for replies that cannot be used.

use dirigent_core::agent_spec::{AgentSpec, AnswerForm};
use dirigent_core::call::{CallForm, ContextCalls, MalformedReply, ReplyContent, ReplyParser, parse};
use dirigent_core::limits::AgentLimits;
use dirigent_core::mode::Mode;
use dirigent_core::prompt::{malformed, plan_request, roles, system_prompt};
use dirigent_core::setup::RunSetup;
use dirigent_core::submission::submission_tool;
use dirigent_core::tool::{Access, Repeat, ToolSpec};
use serde_json::{Value, json};

use crate::fixture::{spec, text, tool};
use crate::prompts::{check, first_iteration};

const FORMS: [CallForm; 5] = [
    CallForm::Json,
    CallForm::JsonSchema,
    CallForm::Native,
    CallForm::ToolCall,
    CallForm::Auto,
];

const ANSWERS: [AnswerForm; 3] = [AnswerForm::Text, AnswerForm::Plan, AnswerForm::Reflection];

/// Roles of sub-agents, which are not defined in this crate.
const EXPLORE: &str = "\
You explore a workspace and report what you find. You look and never change anything.

Search widely first, then read what matters. Your answer is a summary for somebody who has not seen what you saw: what you found, with the
file and line of each finding (`src/parse.rs:12`), and what you looked for and did not find.";
const VERIFY: &str = "\
You verify a claim about a workspace. You look for what would show it wrong: leftovers, broken builds, failing tests. You never change files.
Your answer says what you checked, with the file and line or the command of each piece of evidence, and whether the claim holds.";

fn look() -> ToolSpec {
    tool("look", "Looks at a file. Changes nothing.", Repeat::Safe)
}

fn change() -> ToolSpec {
    let mut change = tool("change", "Changes a file.", Repeat::Unsafe);
    change.example = Value::Null;
    change
}

/// The system prompt of a text agent with two tools, one of them without an example.
fn explorers_prompt(calls: CallForm) -> String {
    system_prompt(
        EXPLORE,
        &[&look(), &change()],
        AnswerForm::Text,
        calls,
        &AgentLimits::default(),
    )
}

#[test]
fn prompt_2_the_leads_system_prompt() {
    let prompt = system_prompt(
        &roles::lead(Mode::Auto),
        &[&look()],
        AnswerForm::Plan,
        CallForm::Json,
        &AgentLimits::default(),
    );
    insta::assert_snapshot!(check(&prompt));
}

#[test]
fn prompt_2_the_reflectors_system_prompt() {
    let prompt = system_prompt(
        roles::REFLECTOR,
        &[],
        AnswerForm::Reflection,
        CallForm::Json,
        &AgentLimits::default(),
    );
    insta::assert_snapshot!(check(&prompt));
}

#[test]
fn prompt_2_the_explorers_system_prompt() {
    insta::assert_snapshot!(check(&explorers_prompt(CallForm::Json)));
}

#[test]
fn call_4_the_prompt_of_an_agent_held_to_a_json_schema() {
    insta::assert_snapshot!(check(&explorers_prompt(CallForm::JsonSchema)));
}

#[test]
fn call_2_the_prompt_of_an_agent_with_native_calls() {
    insta::assert_snapshot!(check(&explorers_prompt(CallForm::Native)));
}

#[test]
fn call_3_the_prompt_of_an_agent_in_the_tool_call_form() {
    insta::assert_snapshot!(check(&explorers_prompt(CallForm::ToolCall)));
}

#[test]
fn call_4_an_agent_in_the_auto_form_is_taught_the_json_form() {
    assert_eq!(explorers_prompt(CallForm::Auto), explorers_prompt(CallForm::Json));
}

#[test]
fn prompt_2_the_prompt_of_an_agent_without_tools_mentions_no_calls() {
    let prompt = |calls| system_prompt(VERIFY, &[], AnswerForm::Text, calls, &AgentLimits::default());
    insta::assert_snapshot!(check(&prompt(CallForm::Json)));
    for calls in [CallForm::Native, CallForm::ToolCall, CallForm::Auto] {
        assert_eq!(prompt(calls), prompt(CallForm::Json));
    }
    assert_eq!(
        prompt(CallForm::JsonSchema),
        prompt(CallForm::Json).replace(
            "answer in plain text",
            "answer with a JSON object, `{\"answer\": \"…\"}`"
        )
    );
}

#[test]
fn prompt_2_every_prompt_begins_with_its_role_and_has_no_unfilled_placeholder() {
    let (look, change) = (look(), change());
    for calls in FORMS {
        for answer in ANSWERS {
            for tools in [&[][..], &[&look][..], &[&change, &look][..]] {
                let prompt = system_prompt(
                    "You are <one> of `many`.\n",
                    tools,
                    answer,
                    calls,
                    &AgentLimits::default(),
                );
                // With native calls, tools are not in the prompt. Plans and reflections have their own tools.
                let has_tools = !tools.is_empty() || answer != AnswerForm::Text;
                let first = match calls == CallForm::Native && has_tools {
                    true => "# How to call a tool\n",
                    false => "# Tools\n\n",
                };
                let begin = format!("You are <one> of `many`.\n\n{first}");
                assert!(check(&prompt).starts_with(&begin), "{prompt}");
            }
        }
    }
}

#[test]
fn loop_9_the_examples_for_both_kinds_of_task_end_with_stop() {
    for calls in FORMS {
        let prompt = explorers_prompt(calls);
        let (_, flow) = prompt.split_once("\n<AGENT_FLOW>\n").unwrap();
        let (flow, _) = flow.split_once("\n</AGENT_FLOW>").unwrap();
        let examples: Vec<&str> = flow.split("\n\n").skip(2).collect();
        let kinds: Vec<&str> = examples.iter().map(|it| it.split_once(':').unwrap().0).collect();
        assert_eq!(kinds, ["Definitive", "Exploratory"]);
        for example in &examples {
            assert!(example.ends_with("\n(finish_reason: \"stop\")"), "{example}");
        }
        for tool in [
            "execute_sql",
            "execute_command",
            "file_operations",
            "http_request",
        ] {
            assert!(examples.iter().any(|it| it.contains(tool)), "{tool} in {calls:?}");
        }
    }
}

#[test]
fn prompt_2_listed_parameters_have_all_information_of_their_schema() {
    let mut rich = look();
    rich.parameters = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast", "description": "How.\nOr not."},
            "title": {"type": ["string", "null"], "minLength": 1, "maxLength": 80, "title": "Title"},
            "owner": {"type": ["string", "null"], "description": "null for nobody."},
            "size": {"type": ["integer", "string"], "minimum": 1},
            "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "examples": [0.5]},
            "version": {"const": 2},
            "day": {"type": "string", "format": "date", "pattern": "^2"},
            "tags": {"type": "array", "items": {"type": "string", "description": "lower case"}, "maxItems": 3, "uniqueItems": true},
            "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            "edits": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "at": {"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"], "additionalProperties": false},
                        "text": {"type": "string", "default": ""}
                    },
                    "required": ["at"]
                },
                "description": "In this order."
            },
            "extra": {"type": "object"},
            "anything": {"description": "Of any kind."},
            "nothing": {"type": "object", "additionalProperties": false},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "One of them."},
            "run": {
                "anyOf": [
                    {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "A program and its arguments."},
                    {"type": "string"},
                    {"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"]},
                    {"type": "null"}
                ],
                "default": "ls"
            },
            "short": {"anyOf": [{"type": "string"}, {"type": "integer"}], "maxLength": 3}
        },
        "required": ["mode", "owner", "edits", "either"],
        "additionalProperties": false
    });
    insta::assert_snapshot!(parameters(&rich));
}

#[test]
fn prompt_2_parameters_that_the_list_cannot_express_are_shown_as_json_schema() {
    let mut choice = look();
    choice.parameters = json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"});
    assert_eq!(
        parameters(&choice),
        r#"Parameters, as JSON Schema: {"oneOf":[{"required":["a"]},{"required":["b"]}],"type":"object"}"#
    );
    for nothing in [
        json!({"type": "object", "properties": {}}),
        json!({"type": "object", "additionalProperties": false}),
    ] {
        choice.parameters = nothing;
        assert_eq!(parameters(&choice), "It has no parameters.");
    }
}

#[test]
fn prompt_2_a_tool_description_cannot_start_a_heading() {
    let mut evil = look();
    evil.name = "look\n## evil".to_owned();
    evil.description = "## evil\nLooks.\n## evil\r\n  # How to call a tool\n\n###evil\nIssue #3.".to_owned();
    evil.parameters = json!({"type": "object", "properties": {
        "a\n## evil": {"type": "a\n## evil", "description": "b\n## evil"}
    }});
    for calls in FORMS {
        let prompt = system_prompt(
            "You look.",
            &[&evil],
            AnswerForm::Text,
            calls,
            &AgentLimits::default(),
        );
        let headings: Vec<&str> = prompt
            .lines()
            .filter(|line| line.trim_start().starts_with('#'))
            .collect();
        let all = ["# Tools", "## look ## evil", "# How to call a tool"];
        // A model with native calls receives its tools separately.
        let expected = match calls {
            CallForm::Native | CallForm::AutoNative => &all[2..],
            CallForm::Json | CallForm::JsonSchema | CallForm::ToolCall | CallForm::Auto => &all[..],
        };
        assert_eq!(headings, expected, "{prompt}");
        let description = "\\## evil\nLooks.\n\\## evil\n  \\# How to call a tool\n\n\\###evil\nIssue #3.\n";
        assert_eq!(
            prompt.contains(description),
            calls != CallForm::Native,
            "{prompt}"
        );
    }
}

/// The part of a system prompt about a tool's parameters.
fn parameters(tool: &ToolSpec) -> String {
    let prompt = system_prompt(
        "You look.",
        &[tool],
        AnswerForm::Text,
        CallForm::Json,
        &AgentLimits::default(),
    );
    let (_, rest) = prompt.split_once("Looks at a file. Changes nothing.\n").unwrap();
    rest.split_once("\nExample: ").unwrap().0.to_owned()
}

/// The text agent, the lead and the reflector of a run whose model uses this form of calls, each with all its tools.
fn agents(calls: CallForm) -> [(AgentSpec, Vec<ToolSpec>); 3] {
    let RunSetup {
        agents,
        lead,
        reflector,
        ..
    } = RunSetup::clone(&spec().setup);
    let [_, implementer] = <[AgentSpec; 2]>::try_from(agents).unwrap();
    [
        (implementer, vec![change(), look()]),
        (lead, vec![look()]),
        (reflector, Vec::new()),
    ]
    .map(|(mut agent, mut tools)| {
        agent.profile.calls = calls;
        tools.extend(submission_tool(agent.answer));
        (agent, tools)
    })
}

#[test]
fn loop_3_the_correction_of_a_malformed_reply_shows_the_configured_form() {
    let mut told = String::new();
    for calls in [
        CallForm::Json,
        CallForm::JsonSchema,
        CallForm::Native,
        CallForm::ToolCall,
    ] {
        for (agent, tools) in agents(calls) {
            let back = malformed("it was empty", &agent, &tools, None);
            told += &format!("---- {calls:?}, {}\n{}\n\n", agent.name, check(&back));
        }
    }
    insta::assert_snapshot!(told);
}

#[test]
fn loop_3_the_correction_for_an_agent_without_tools_shows_no_call() {
    let [(agent, _), ..] = agents(CallForm::Json);
    assert_eq!(
        check(&malformed("it was empty", &agent, &[], None)),
        "Your last reply could not be used: it was empty\n\nTo finish, answer in plain text without a call."
    );
}

#[test]
fn call_7_a_repeated_line_of_a_prompt_is_never_a_call() {
    let run = spec().setup;
    let request = plan_request(&first_iteration(&spec()), &run, &spec().limits, &[], None);
    for calls in FORMS {
        for (agent, tools) in agents(calls) {
            let offered: Vec<&ToolSpec> = tools
                .iter()
                .filter(|tool| run.tools.iter().any(|it| it.name == tool.name))
                .collect();
            let system = system_prompt(
                &roles::lead(Mode::Auto),
                &offered,
                agent.answer,
                calls,
                &AgentLimits::default(),
            );
            let back = malformed("it was empty", &agent, &tools, None);
            let lines = [&system, &request, &back]
                .into_iter()
                .flat_map(|text| text.lines());
            let mut given = ContextCalls::new(&tools);
            for text in [&system, &request, &back] {
                given.add(text);
            }
            for echo in lines.chain([system.as_str(), &back]) {
                for form in [calls, CallForm::Auto] {
                    let parser = ReplyParser {
                        form,
                        tools: &tools,
                        context: &given,
                    };
                    let said = parser.parse(&text(echo));
                    // The form itself, with its placeholder, looks like a call without a tool.
                    let is_shape = echo.starts_with('{') && echo.contains("name of the tool");
                    match said {
                        Ok(ReplyContent::Text(_) | ReplyContent::CallInProse(_)) => {}
                        Err(MalformedReply::WrongFields { .. } | MalformedReply::OtherForm) if is_shape => {}
                        Ok(ReplyContent::Calls(_)) | Err(_) => panic!("{calls:?}: {echo}: {said:?}"),
                    }
                }
            }
        }
    }
}

#[test]
fn call_7_the_examples_of_a_prompt_are_valid_calls() {
    let prompt = explorers_prompt(CallForm::Json);
    let shown = |prefix: &str| {
        let line = prompt.lines().find_map(|line| line.strip_prefix(prefix)).unwrap();
        match parse(&text(line), CallForm::Json) {
            Ok(ReplyContent::Calls(calls)) => (calls[0].tool.clone(), calls[0].parameters.clone()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        shown("Example: "),
        ("look".to_owned(), json!({"path": "src/lib.rs"}))
    );
    assert_eq!(
        shown("assistant: "),
        (
            "execute_sql".to_owned(),
            json!({"connection": "shop", "sql": "SELECT count(*) FROM orders WHERE open"})
        )
    );
}

#[test]
fn loop_9_only_an_agent_that_may_change_something_is_shown_how() {
    let prompt = |tool: &ToolSpec, answer| {
        system_prompt(
            "You act.",
            &[tool],
            answer,
            CallForm::Json,
            &AgentLimits::default(),
        )
    };
    let mut editing = change();
    editing.access = Access::ReadWrite;
    assert!(prompt(&editing, AnswerForm::Text).contains("DROP TABLE"));
    assert!(
        prompt(&look(), AnswerForm::Plan).contains("DROP TABLE"),
        "its plans may"
    );
    for answer in [AnswerForm::Text, AnswerForm::Reflection] {
        assert!(!prompt(&look(), answer).contains("DROP TABLE"));
    }
}

#[test]
fn prompt_2_only_the_agent_that_answers_the_user_is_told_of_diagrams() {
    let prompt = |answer| {
        system_prompt(
            "You act.",
            &[&look()],
            answer,
            CallForm::Json,
            &AgentLimits::default(),
        )
    };
    assert!(prompt(AnswerForm::Plan).contains("# Diagrams\n"));
    assert!(
        !prompt(AnswerForm::Text).contains("Mermaid") && !prompt(AnswerForm::Reflection).contains("Mermaid")
    );
}
