//! Which calls run, need approval or are denied by rules about commands and paths, and which rule takes precedence (APPROVE-1).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use dirigent_core::approval::{Approval, Digest};
use dirigent_core::call::SUBMIT_PLAN;
use dirigent_core::id::EffectId;
use dirigent_core::policy::{CallPattern, Policy, PolicyDecision, Rule, Ruling};
use dirigent_core::time::Timestamp;
use dirigent_core::tool::{Access, ParameterValues, Repeat, ToolCategory, ToolSpec};
use proptest::prelude::{prop_assert_eq, proptest};
use serde_json::{Value, json};

fn execute_command(requires_approval: bool) -> ToolSpec {
    ToolSpec {
        category: ToolCategory::Other,
        changes_where: None,
        read_only: None,
        name: "execute_command".to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        repeat: Repeat::Unsafe,
        access: Access::ReadOnly,
        requires_approval,
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    }
}

pub(crate) fn policy(rules: &[(Ruling, &str)]) -> Policy {
    let rule = |(ruling, calls): &(Ruling, &str)| Rule {
        ruling: *ruling,
        calls: calls.parse().unwrap(),
    };
    Policy {
        rules: rules.iter().map(rule).collect(),
    }
}

fn ruling(rules: &[(Ruling, &str)], command: Value) -> Ruling {
    ruling_of(
        &policy(rules),
        &execute_command(true),
        &json!({"command": command}),
    )
}

/// Returns true if a rule for commands with this pattern matches the command.
pub(crate) fn fits(ruling: Ruling, pattern: &str, command: &Value) -> bool {
    let calls = CallPattern {
        tool: "execute_command".to_owned(),
        parameters: BTreeMap::from([("command".to_owned(), pattern.to_owned())]),
    };
    Rule { ruling, calls }.matches(
        "execute_command",
        &json!({"command": command}),
        "/home/me/project",
    )
}

fn ruling_of(policy: &Policy, tool: &ToolSpec, parameters: &Value) -> Ruling {
    match policy.decide(tool, parameters, "/home/me/project") {
        PolicyDecision::Allow => Ruling::Allow,
        PolicyDecision::Ask => Ruling::Ask,
        PolicyDecision::Deny(_) => Ruling::Deny,
    }
}

#[test]
fn approve_1_without_a_matching_rule_the_tool_itself_decides() {
    let rules = [
        (Ruling::Deny, "write_file"),
        (Ruling::Allow, "execute_command(command: cargo test*)"),
    ];
    let parameters = json!({"command": ["ls"]});
    assert_eq!(
        ruling_of(&policy(&rules), &execute_command(true), &parameters),
        Ruling::Ask
    );
    assert_eq!(
        ruling_of(&policy(&rules), &execute_command(false), &parameters),
        Ruling::Allow
    );
}

#[test]
fn approve_1_a_rule_allows_cargo_test_with_any_arguments_but_not_rm() {
    let rules = [
        (Ruling::Allow, "execute_command(command: cargo test*)"),
        (Ruling::Deny, "execute_command(command: rm *)"),
    ];
    assert_eq!(ruling(&rules, json!(["cargo", "test", "--quiet"])), Ruling::Allow);
    assert_eq!(ruling(&rules, json!(["cargo", "build"])), Ruling::Ask);
    assert_eq!(ruling(&rules, json!(["rm", "-rf", "x"])), Ruling::Deny);
    assert_eq!(ruling(&rules, json!("cargo test")), Ruling::Allow);
}

#[test]
fn approve_1_deny_takes_precedence_then_rules_with_parameters_then_ask() {
    let named = "execute_command(command: rm *)";
    let rm = json!(["rm", "x"]);
    let check = |rules: &[(Ruling, &str)], expected: Ruling| assert_eq!(ruling(rules, rm.clone()), expected);
    check(&[(Ruling::Allow, named), (Ruling::Deny, "*")], Ruling::Deny);
    check(
        &[(Ruling::Ask, "execute_command"), (Ruling::Allow, named)],
        Ruling::Allow,
    );
    check(
        &[(Ruling::Ask, named), (Ruling::Allow, "execute_command")],
        Ruling::Ask,
    );
    check(
        &[(Ruling::Ask, "execute_command"), (Ruling::Allow, "execute_*")],
        Ruling::Ask,
    );
    check(&[(Ruling::Allow, named), (Ruling::Ask, named)], Ruling::Ask);
}

#[test]
fn ask_and_deny_rules_parse_shell_lines_and_allow_rules_do_not() {
    let rm = "execute_command(command: rm *)";
    for line in [
        "cd x && rm -rf y",
        "ls; rm  y",
        "echo $(rm y)",
        "a | rm y",
        "echo `rm y`",
        "a\nrm y",
        "{ rm y; }",
    ] {
        assert_eq!(
            ruling(&[(Ruling::Deny, rm)], json!(["sh", "-c", line])),
            Ruling::Deny,
            "{line}"
        );
        assert_eq!(
            ruling(
                &[(Ruling::Ask, rm), (Ruling::Allow, "*")],
                json!(["bash", "-lc", line])
            ),
            Ruling::Ask
        );
    }
    assert_eq!(
        ruling(&[(Ruling::Deny, rm)], json!(["sh", "-c", "echo rm y"])),
        Ruling::Ask
    );
    assert_eq!(
        ruling(&[(Ruling::Deny, rm)], json!(["echo", "a; rm y"])),
        Ruling::Ask
    );
    let echo = "execute_command(command: echo *)";
    assert_eq!(
        ruling(&[(Ruling::Allow, echo)], json!(["sh", "-c", "echo a"])),
        Ruling::Ask
    );
    assert_eq!(
        ruling(&[(Ruling::Allow, echo)], json!(["echo", "a;", "rm", "y"])),
        Ruling::Allow
    );
}

#[test]
fn approve_1_rules_that_deny_a_shell_also_match_string_commands() {
    for pattern in ["sh *", "sh -c *", "sh*", "*sh -c*"] {
        for command in [json!(["sh", "-c", "echo hi"]), json!("echo hi")] {
            assert!(fits(Ruling::Deny, pattern, &command), "{pattern} {command}");
        }
        assert!(!fits(Ruling::Allow, pattern, &json!("echo hi")), "{pattern}");
    }
    let rm = "rm *";
    for line in [
        "rm -rf x",
        "cd a && rm -rf x",
        "echo $(rm -rf x)",
        "true\nrm -rf x",
        "r\\m -rf x",
        "sh -c 'rm -rf x'",
    ] {
        assert!(fits(Ruling::Deny, rm, &json!(line)), "{line}");
    }
    let of_another: CallPattern = "file_operations(path: sh*)".parse().unwrap();
    let rule = Rule {
        ruling: Ruling::Deny,
        calls: of_another,
    };
    assert!(!rule.matches("file_operations", &json!({"path": "a"}), "/work"));
}

#[test]
fn lead_2_a_tool_may_ask_about_some_of_its_calls_and_rules_come_first() {
    let tool = ToolSpec {
        name: "execute_sql".to_owned(),
        approval_where: Some(ParameterValues {
            parameter: "operation".to_owned(),
            values: vec!["change".to_owned()],
        }),
        ..execute_command(false)
    };
    let change = json!({"operation": "change", "connection": "app"});
    let query = json!({"connection": "app"});
    let decide = |rules: &Policy, parameters: &Value| rules.decide(&tool, parameters, "/work");
    assert_eq!(decide(&policy(&[]), &change), PolicyDecision::Ask);
    assert_eq!(decide(&policy(&[]), &query), PolicyDecision::Allow);
    let allowed = policy(&[(Ruling::Allow, "execute_sql(connection: app)")]);
    assert_eq!(decide(&allowed, &change), PolicyDecision::Allow);
    let asked = policy(&[(Ruling::Ask, "execute_sql")]);
    assert_eq!(decide(&asked, &query), PolicyDecision::Ask);
}

#[test]
fn approve_1_rules_can_distinguish_the_connections_of_a_database_tool() {
    let rules = policy(&[
        (Ruling::Allow, "execute_sql"),
        (Ruling::Ask, "execute_sql(connection: prod*)"),
        (Ruling::Deny, "execute_sql(connection: prod-payments)"),
        (Ruling::Allow, "execute_sql(connection: prod-replica)"),
    ]);
    let tool = ToolSpec {
        name: "execute_sql".to_owned(),
        ..execute_command(false)
    };
    for (connection, expected) in [
        ("app", Ruling::Allow),
        ("prod", Ruling::Ask),
        ("production", Ruling::Ask),
        ("prod-payments", Ruling::Deny),
        // If two rules match the parameter, the one that requires approval applies.
        ("prod-replica", Ruling::Ask),
        ("not-prod", Ruling::Allow),
    ] {
        let parameters = json!({"connection": connection, "sql": "SELECT 1"});
        assert_eq!(ruling_of(&rules, &tool, &parameters), expected, "{connection}");
    }
}

#[test]
fn an_element_with_white_space_stays_one_element() {
    let rules = [(Ruling::Allow, "execute_command(command: cargo test*)")];
    assert_eq!(ruling(&rules, json!(["cargo test", "x"])), Ruling::Ask);
    let rules = [(
        Ruling::Allow,
        r"execute_command(command: git commit -m 'it'\''s done')",
    )];
    assert_eq!(
        ruling(&rules, json!(["git", "commit", "-m", "it's done"])),
        Ruling::Allow
    );
}

#[test]
fn an_absent_parameter_matches_nothing_and_non_text_is_compared_as_json() {
    let any = policy(&[(Ruling::Deny, "execute_command(timeout: *)")]);
    let tool = execute_command(false);
    assert_eq!(ruling_of(&any, &tool, &json!({})), Ruling::Allow);
    assert_eq!(ruling_of(&any, &tool, &json!({"timeout": 5})), Ruling::Deny);
    let five = policy(&[(Ruling::Deny, "execute_command(timeout: 5, deep: {\"a\":*})")]);
    assert_eq!(
        ruling_of(&five, &tool, &json!({"timeout": 5, "deep": {"a": [1]}})),
        Ruling::Deny
    );
    assert_eq!(
        ruling_of(&five, &tool, &json!({"timeout": 50, "deep": {"a": [1]}})),
        Ruling::Allow
    );
}

#[test]
fn approve_1_the_star_of_an_allow_rule_does_not_match_another_command() {
    let allows = |pattern: &str, command: Value| fits(Ruling::Allow, pattern, &command);
    assert!(allows("cargo test*", json!("cargo test --quiet")));
    for more in [
        "; rm x",
        " & rm x",
        "&& rm x",
        "|| rm x",
        " | sh",
        "\nrm x",
        " `rm x`",
        " $(rm x)",
        " <(rm x)",
        " >(rm x)",
        " > src/main.rs",
    ] {
        let line = format!("cargo test{more}");
        assert!(!allows("cargo test*", json!(line)), "{line}");
        assert!(!allows("sh -c 'cargo test*", json!(["sh", "-c", line])), "{line}");
    }
    // Operators in the pattern itself are allowed, and so is a pattern that matches everything.
    assert!(allows(
        "cd docs && cargo test*",
        json!("cd docs && cargo test -q")
    ));
    assert!(!allows(
        "cd docs && cargo test*",
        json!("cd docs && cargo test && rm x")
    ));
    assert!(allows("a; b", json!("a; b")));
    assert!(allows("*", json!("a; b")));
    // This command does not run in a shell.
    assert!(allows("grep *", json!(["grep", "a|b", "src"])));
}

#[test]
fn approve_1_the_star_of_an_allow_rule_does_not_match_parent_folders() {
    let allows = |pattern: &str, path: &str| fits(Ruling::Allow, pattern, &json!(path));
    assert!(allows("docs/*", "docs/a..b/c.md"));
    for path in [
        "docs/../src/main.rs",
        "docs/..",
        "docs/a/../../src",
        "docs/./../src",
    ] {
        assert!(!allows("docs/*", path), "{path}");
    }
    assert!(!fits(
        Ruling::Allow,
        "cat docs/*",
        &json!(["cat", "docs/../src/main.rs"])
    ));
    assert!(allows("../shared/*", "../shared/a"));
    assert!(!allows("../shared/*", "../shared/../a"));
    assert!(allows("docs/../src", "docs/../src"));
}

#[test]
fn approve_1_ask_and_deny_rules_normalize_paths() {
    for path in [
        "src/main.rs",
        "./src/main.rs",
        "src//main.rs",
        "docs/../src/./main.rs",
        "../project/src/main.rs",
        "/home/me/project/src/main.rs",
        "/home/me//project/docs/../src/main.rs",
    ] {
        assert!(fits(Ruling::Deny, "src/*", &json!(path)), "{path}");
        assert!(fits(Ruling::Ask, "rm src/*", &json!(["rm", path])), "{path}");
        assert!(
            fits(
                Ruling::Ask,
                "rm src/*",
                &json!(["sh", "-c", format!("cd .; rm {path}")])
            ),
            "{path}"
        );
    }
    assert!(fits(Ruling::Deny, "/etc/*", &json!("../../../etc/passwd")));
    assert!(fits(Ruling::Deny, "../*", &json!("./docs/../../other")));
    for path in [
        "docs/src/main.rs",
        "/home/me/projects/src/main.rs",
        "../src/main.rs",
    ] {
        assert!(!fits(Ruling::Deny, "src/*", &json!(path)), "{path}");
    }
}

#[test]
fn approve_1_ask_and_deny_rules_find_a_command_anywhere_in_a_shell_line() {
    let denied = |command: &Value| fits(Ruling::Deny, "rm *", command);
    for line in [
        "for f in *.o; do rm $f; done",
        "if true; then rm x; else rm y; fi",
        "X=1 rm x",
        "! rm x",
        "sudo -u root rm x",
        "time env -i A=b nohup rm x",
        "ls | xargs rm",
        "f() { rm x; }",
        "'rm' x",
        "r\\m x",
        "bash -lc 'rm x'",
        "sh -c \"ls; sh -c 'rm x'\"",
    ] {
        assert!(denied(&json!(line)), "{line}");
        assert!(denied(&json!(["sh", "-c", line])), "{line}");
        assert!(
            denied(&json!(["ionice", "-c", "3", "sh", "-o", "errexit", "-c", line])),
            "{line}"
        );
    }
    for words in [
        json!(["ionice", "-c", "3", "sh", "-c", "rm x"]),
        json!(["sudo", "-n", "rm", "x"]),
        json!(["env", "A=b", "rm", "x"]),
        json!(["find", ".", "-exec", "rm", "{}", "+"]),
        json!(["rm", 5]),
    ] {
        assert!(denied(&words), "{words}");
    }
    for other in [
        json!("echo rm x"),
        json!(["echo", "a; rm x"]),
        json!("do echo rm x"),
        json!("rmdir x"),
    ] {
        assert!(!denied(&other), "{other}");
    }
}

#[test]
fn approve_1_the_order_of_fields_in_the_parameters_does_not_matter() {
    let pattern = r#"{"a":1,"b":{"c":2,"d":3}}"#;
    let given: Value = serde_json::from_str(r#"{"b": {"d": 3, "c": 2}, "a": 1}"#).unwrap();
    assert!(fits(Ruling::Deny, pattern, &given));
    assert!(fits(Ruling::Allow, pattern, &given));
}

#[test]
fn a_rule_is_described_to_the_model() {
    let rules = policy(&[
        (Ruling::Deny, "execute_command(command: rm *)"),
        (Ruling::Ask, "write_file"),
    ]);
    let rule = rules
        .rule("execute_command", &json!({"command": ["rm", "x"]}), "/")
        .unwrap();
    assert_eq!(
        rule.to_string(),
        "this run's rules deny `execute_command` with command `rm *`"
    );
    let rule = rules.rule("write_file", &json!({}), "/").unwrap();
    assert_eq!(rule.to_string(), "this run's rules ask before `write_file`");
}

#[test]
fn a_pattern_with_many_stars_is_matched_in_linear_time() {
    let pattern = format!("execute_command(command: {}b)", "a*".repeat(200));
    let text = "a".repeat(200_000);
    assert_eq!(ruling(&[(Ruling::Deny, &pattern)], json!(text)), Ruling::Ask);
}

proptest! {
    #[test]
    fn a_pattern_matches_texts_built_from_its_literal_parts(pieces in proptest::collection::vec("[ab]{0,3}", 2..5), fill in "[abc]{0,4}") {
        let command = Value::String(pieces.join(&fill));
        prop_assert_eq!(fits(Ruling::Allow, &pieces.join("*"), &command), true);
        prop_assert_eq!(fits(Ruling::Deny, &pieces.join("*"), &command), true);
    }

    #[test]
    fn a_pattern_with_a_letter_that_the_text_lacks_never_matches(
        before in "[ab*]{0,6}", after in "[ab*]{0,6}", text in "[ab ;|$(./-]{0,20}"
    ) {
        let pattern = format!("{before}x{after}");
        prop_assert_eq!(fits(Ruling::Allow, &pattern, &json!(text)), false);
        prop_assert_eq!(fits(Ruling::Deny, &pattern, &json!(text)), false);
        prop_assert_eq!(fits(Ruling::Deny, &pattern, &json!(["sh", "-c", text])), false);
    }
}

/// A call that waits for approval.
fn waiting(tool: &str, command: &str) -> Approval {
    Approval {
        effect: "a1.1".parse::<EffectId>().unwrap(),
        agent: None,
        tool: tool.to_owned(),
        parameters: json!({"command": command}),
        workspace: "/shop".to_owned(),
        asked_at: Timestamp(1),
        expires_at: None,
        digest: Digest(String::new()),
    }
}

#[test]
fn approve_1_only_rules_that_can_approve_a_waiting_call_are_suggested() {
    let asking = policy(&[(Ruling::Ask, "execute_command")]);
    let texts = |policy: &Policy, approval: &Approval| -> Vec<String> {
        let suggested = approval.suggestions(policy);
        suggested.iter().map(ToString::to_string).collect()
    };
    let ls = waiting("execute_command", "ls src");
    // A rule for the whole tool is not more specific than the rule that asks.
    assert_eq!(texts(&asking, &ls), ["execute_command(command: ls src)"]);
    let exactly = policy(&[(Ruling::Ask, "execute_command(command: ls*)")]);
    assert_eq!(texts(&exactly, &ls), Vec::<String>::new());
    for (policy, calls, approves) in [
        (&asking, "execute_command(command: ls src)", true),
        (&asking, "execute_command(command: ls docs)", false),
        (&asking, "execute_command", false),
        (&policy(&[]), "execute_command", true),
    ] {
        let calls: CallPattern = calls.parse().unwrap();
        assert_eq!(ls.is_approved_by(&calls, policy), approves, "{calls}");
    }
}

#[test]
fn lead_2_no_rule_approves_a_waiting_plan() {
    let plan = waiting(SUBMIT_PLAN, "ls");
    assert_eq!(plan.suggestions(&policy(&[])), []);
    let every: CallPattern = "*".parse().unwrap();
    assert!(!plan.is_approved_by(&every, &policy(&[])));
}
