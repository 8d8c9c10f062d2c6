//! PROMPT-2: what each agent's model receives before any task, and its cost in tokens.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use dirigent::model::CallForm;
use dirigent::{AgentPrompt, Dirigent, PromptOptions};
use dirigent_tests::cli::Place;
use dirigent_tests::stage::block_on;
use serde_json::Value;

const FORMS: [(&str, CallForm); 4] = [
    ("json", CallForm::Json),
    ("json_schema", CallForm::JsonSchema),
    ("native", CallForm::Native),
    ("tool_call", CallForm::ToolCall),
];

fn prompts(calls: CallForm) -> Vec<AgentPrompt> {
    let options = PromptOptions {
        calls: Some(calls),
        ..PromptOptions::default()
    };
    block_on(Dirigent::builder().prompts(None, options)).unwrap()
}

/// The estimated tokens of each agent's system prompt and tools, by form.
fn tokens() -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut table: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (form, calls) in FORMS {
        for prompt in prompts(calls) {
            table
                .entry(prompt.agent)
                .or_default()
                .insert(form.to_owned(), prompt.tokens);
        }
    }
    table
}

/// `prompt-tokens.json` has the token counts that were last accepted. `DIRIGENT_UPDATE_TOKENS=1` updates the file.
#[test]
fn prompt_2_no_prompt_grows_by_more_than_a_tenth_unnoticed() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/prompt-tokens.json");
    let now = tokens();
    if std::env::var_os("DIRIGENT_UPDATE_TOKENS").is_some() {
        std::fs::write(file, format!("{:#}\n", serde_json::json!(now))).unwrap();
    }
    let before: BTreeMap<String, BTreeMap<String, u64>> =
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    println!(
        "{:<12} {:>12} {:>12} {:>12} {:>12}",
        "agent", "json", "json_schema", "native", "tool_call"
    );
    for (agent, forms) in &now {
        let row: Vec<String> = forms.values().map(|tokens| format!("{tokens:>12}")).collect();
        println!("{agent:<12} {}", row.join(" "));
        for (form, tokens) in forms {
            let limit = before[agent][form] * 11 / 10;
            assert!(
                *tokens <= limit,
                "{agent}, {form}: {tokens} tokens, more than {limit}"
            );
        }
    }
}

/// The names of an agent's tools, in the order of its prompt.
fn tool_names(prompt: &AgentPrompt) -> Vec<&str> {
    prompt.tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn flow_3_tools_are_ordered_by_category_in_requests_and_prompts() {
    let lead = [
        "apply_patch",
        "file_operations",
        "search",
        "find_definition",
        "list_symbols",
        "rename_symbol",
        "execute_command",
        "git",
        "http_request",
        "read_output",
        "ask_user",
        "delegate",
        "give_up",
        "submit_plan",
    ];
    let native = prompts(CallForm::Native);
    assert_eq!(tool_names(&native[0]), lead);
    // Each agent has its tools in the same order in every run, whatever the order in its file.
    for (agent, again) in native.iter().zip(prompts(CallForm::Native)) {
        let expected = lead.iter().filter(|name| tool_names(agent).contains(name));
        let mut expected: Vec<&str> = expected.copied().collect();
        if agent.agent == "reflector" {
            expected.push("submit_reflection");
        }
        assert_eq!(tool_names(agent), expected, "{}", agent.agent);
        assert_eq!(agent.tools, again.tools);
    }
    let text = &prompts(CallForm::Json)[0].system;
    let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(headings, lead);
}

#[test]
fn prompt_2_an_agents_prompt_and_native_tools_can_be_seen() {
    let place = Place::new();
    let shown = place.dirigent(["prompts", "show", "--enhanced", "--form", "native", "--json"]);
    let shown: Value = serde_json::from_str(&shown.with_code(0).stdout).unwrap();
    assert_eq!(shown["calls"], "native");
    let names: Vec<&str> = shown["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert!(
        names.contains(&"submit_plan") && names.contains(&"search"),
        "{names:?}"
    );

    let text = place
        .dirigent(["prompts", "show", "--agent", "explore", "--form", "json"])
        .with_code(0);
    assert!(
        text.stdout.starts_with("You explore a workspace"),
        "{}",
        text.stdout
    );
    assert!(text.stdout.contains("\n## search\n"), "{}", text.stdout);

    let missing = place
        .dirigent(["prompts", "show", "--enhanced", "--workspace", "nowhere"])
        .with_code(2);
    assert!(
        missing.stderr.contains("there is no such folder"),
        "{}",
        missing.stderr
    );

    let unknown = place
        .dirigent(["prompts", "show", "--enhanced", "--agent", "boss"])
        .with_code(2);
    assert!(
        unknown.stderr.contains("use one of lead, reflector, "),
        "{}",
        unknown.stderr
    );
}
