//! APPROVE-1: the approval rules in a configuration.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;

use dirigent::Dirigent;
use dirigent::config::{Config, Sources};
use dirigent_tests::stage::block_on;
use serde_json::{Value, json};

use crate::agent_files::{Files, place, shown};

#[test]
fn approve_1_rules_of_all_files_are_shown_with_their_sources_and_journaled() {
    let place = place(
        "[approvals]\nallow = [\n  \"execute_command(command: cargo test*)\",\n]\nask = [\"execute_command\"]\ndeny = [\"execute_command(command: rm *)\"]\n",
    );
    fs::write(
        place.folder().join("more.toml"),
        "[approvals]\ndeny = [\"file_operations(operation: delete)\"]\n",
    )
    .unwrap();
    let checked = place
        .dirigent(["--config", "more.toml", "config", "check", "--offline", "--json"])
        .with_code(0);
    let checked: Value = serde_json::from_str(&checked.stdout).unwrap();
    let rules: Vec<String> = checked["settings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|setting| {
            format!(
                "{} {} {}",
                setting["key"],
                setting["value"],
                shown(&place, setting["from"].as_str().unwrap())
            )
        })
        .collect();
    assert_eq!(
        rules,
        [
            "\"approvals.allow\" \"execute_command(command: cargo test*)\" PLACE/home/.config/dirigent/dirigent.toml:3",
            "\"approvals.ask\" \"execute_command\" PLACE/home/.config/dirigent/dirigent.toml:5",
            "\"approvals.deny\" \"execute_command(command: rm *)\" PLACE/home/.config/dirigent/dirigent.toml:6",
            "\"approvals.deny\" \"file_operations(operation: delete)\" more.toml:2",
        ]
    );

    let goal = "Count the lines in notes.txt";
    let run = [
        "--config",
        "more.toml",
        "run",
        goal,
        "--workspace",
        "work",
        "--record",
        "run.jsonl",
    ];
    let ran = place.dirigent(run).with_code(0);
    assert!(ran.stderr.contains("Recorded in run.jsonl"), "{ran}");
    let recorded = fs::read_to_string(place.folder().join("run.jsonl")).unwrap();
    assert!(
        recorded
            .contains(r#"{"ruling":"deny","tool":"file_operations","parameters":{"operation":"delete"}}"#),
        "{recorded}"
    );
}

#[test]
fn approve_1_a_rule_that_can_never_match_is_an_error() {
    let mut told = String::new();
    for rules in [
        "deny = [\"exeute_command\"]",
        "deny = [\"execute_command(comand: rm *)\"]",
        "ask = [\"exce*\"]",
        "ask = [\"*(foo: rm)\"]",
        "ask = [\"*(operation: read, pattern: x)\"]",
        "deny = [\"file_operations(operation: remove)\"]",
        "deny = [\"file_*(operation: delte)\"]",
        "deny = [\"execute_command(\"]",
        "deny = [\n  \"search\",\n  7,\n]",
        "deny = \"search\"",
        "never = [\"search\"]",
    ] {
        let files = Files::new().with_config(&format!("[approvals]\n{rules}\n"));
        let error = match Config::load(&Sources::none().folder(files.path("user"))) {
            Ok(config) => block_on(Dirigent::builder().config(&config).check())
                .unwrap_err()
                .to_string(),
            Err(error) => error.to_string(),
        };
        let _ = writeln!(
            told,
            "{}",
            error.replace(files.folder.path().to_str().unwrap(), "")
        );
    }
    insta::assert_snapshot!("wrong_rules", told);
}

#[test]
fn mcp_2_a_rule_may_name_tools_of_a_service_that_is_added_later() {
    let rules = "[approvals]\nallow = [\"mcp__files__read_*\"]\ndeny = [\"mcp__files__*\"]\n";
    let files = Files::new().with_config(rules);
    let config = Config::load(&Sources::none().folder(files.path("user"))).unwrap();
    block_on(Dirigent::builder().config(&config).check()).unwrap();
}

#[test]
fn approve_1_a_rule_can_name_each_parameter_of_read_output() {
    let rules = "deny = [\"read_output(handle: a1.*, start_line: 1, end_line: 2, pattern: *, offset: 0, length: 9)\"]";
    let files = Files::new().with_config(&format!("[approvals]\n{rules}\n"));
    let config = Config::load(&Sources::none().folder(files.path("user"))).unwrap();
    block_on(Dirigent::builder().config(&config).check()).unwrap();
}

#[test]
fn approve_1_a_projects_configuration_sets_no_rules() {
    let place = place("");
    place.write(
        "dirigent.toml",
        "[approvals]\nallow = [\"*\"]\n[agents]\nproject = \"read-write\"\n",
    );
    let mut command = place.command(["config", "check", "--offline", "--json"]);
    command.current_dir(place.work());
    let checked = dirigent_tests::cli::ended(&mut command).with_code(0);
    let checked: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(checked["settings"], json!([]));
}
