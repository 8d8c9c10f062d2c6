//! Which calls run, need approval or are denied, and the text form of call patterns (APPROVE-1).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use dirigent_core::policy::{CallPattern, Policy, PolicyDecision, Rule, Ruling};
use dirigent_core::tool::{Access, ParameterValues, Repeat, ToolCategory, ToolSpec};
use proptest::prelude::{any, prop_assert_eq, proptest};
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

fn policy(rules: &[(Ruling, &str)]) -> Policy {
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
fn fits(ruling: Ruling, pattern: &str, command: &Value) -> bool {
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
fn rules_that_ask_or_deny_parse_shell_lines_and_rules_that_allow_do_not() {
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
fn approve_1_rules_that_ask_or_deny_normalize_paths() {
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
fn approve_1_rules_that_ask_or_deny_find_a_command_after_other_commands() {
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
        "the user's policy denies `execute_command` with command `rm *`"
    );
    let rule = rules.rule("write_file", &json!({}), "/").unwrap();
    assert_eq!(rule.to_string(), "the user's policy asks before `write_file`");
}

#[test]
fn a_pattern_with_many_stars_is_matched_in_linear_time() {
    let pattern = format!("execute_command(command: {}b)", "a*".repeat(200));
    let text = "a".repeat(200_000);
    assert_eq!(ruling(&[(Ruling::Deny, &pattern)], json!(text)), Ruling::Ask);
}

#[test]
fn rules_are_serialized_and_parsed_as_json() {
    let rules = policy(&[
        (Ruling::Deny, "execute_command(command: rm *)"),
        (Ruling::Allow, "search"),
    ]);
    let form = json!([
        {"ruling": "deny", "tool": "execute_command", "parameters": {"command": "rm *"}},
        {"ruling": "allow", "tool": "search"},
    ]);
    assert_eq!(serde_json::to_value(&rules).unwrap(), form);
    assert_eq!(serde_json::from_value::<Policy>(form).unwrap(), rules);
}

#[test]
fn an_invalid_rule_is_refused_with_the_reason() {
    let problem = |text: &str| text.parse::<CallPattern>().unwrap_err().problem;
    assert_eq!(problem(" "), "the tool's name is missing");
    assert_eq!(problem("(a: b)"), "the tool's name is missing");
    assert_eq!(problem("rm -rf"), "`rm -rf` is not a tool's name");
    assert_eq!(problem("run(command: a"), "the closing `)` at the end is missing");
    assert_eq!(
        problem("run()"),
        "expected a parameter and its pattern, such as `command: cargo test*`, but found ``"
    );
    assert_eq!(
        problem("run(cargo test)"),
        "expected a parameter and its pattern, such as `command: cargo test*`, but found `cargo test`"
    );
    assert_eq!(
        problem("run(a: b, c)"),
        "expected a parameter and its pattern, such as `command: cargo test*`, but found `c`"
    );
    assert_eq!(
        problem("run(a: )"),
        "a pattern is empty; use `*` to match any text"
    );
    assert_eq!(problem("run(a: b, a: c)"), "the parameter `a` occurs twice");
    assert_eq!(
        problem(r#"run(a: "b)"#),
        r#"`"b` does not begin with a JSON string"#
    );
    assert_eq!(problem(r#"run(a: "b" c)"#), "a comma is missing before `c`");
}

#[test]
fn several_parameters_and_awkward_patterns_have_a_text_form() {
    let check = |text: &str, pairs: &[(&str, &str)]| {
        let pattern: CallPattern = text.parse().unwrap();
        let pairs = pairs
            .iter()
            .map(|(name, pattern)| ((*name).to_owned(), (*pattern).to_owned()));
        assert_eq!(pattern.parameters, pairs.collect::<BTreeMap<_, _>>());
        assert_eq!(pattern.to_string(), text);
    };
    check("run", &[]);
    check("run(a: b c, d: e:(f))", &[("a", "b c"), ("d", "e:(f)")]);
    check(r#"run(a: "b, c", d: e,f)"#, &[("a", "b, c"), ("d", "e,f")]);
    check(r#"run(a: "", d: " x")"#, &[("a", ""), ("d", " x")]);
}

proptest! {
    #[test]
    fn any_pattern_is_parsed_to_the_same_pattern(first in any::<String>(), second in ".{0,8}") {
        let written = CallPattern {
            tool: "run".to_owned(),
            parameters: BTreeMap::from([("a".to_owned(), first), ("b".to_owned(), second)]),
        };
        prop_assert_eq!(written.to_string().parse::<CallPattern>().unwrap(), written);
    }

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

#[test]
fn approve_1_a_rule_that_allows_a_host_is_not_tricked_into_another() {
    let fits = |pattern: &str, url: &str| fits(Ruling::Allow, pattern, &json!(url));
    for pattern in ["https://docs.rs/*", "https://docs.rs*"] {
        for url in [
            "https://docs.rs/",
            "https://docs.rs",
            "HTTPS://Docs.RS:443/serde",
            "https://docs.rs/search?a=1&b=2;c|d",
            "https://docs.rs/a/../b",
            "https://docs.rs/https://x/",
        ] {
            assert!(fits(pattern, url), "{pattern} {url}");
        }
        for url in [
            "https://docs.rs.evil.example/",
            "https://docs.rs@evil.example/",
            "https://docs.rs:pw@evil.example/",
            "https://docs.rs\\@evil.example/",
            "https://docs.rs%2f@evil.example/",
            "https://user@docs.rs/",
            "https://docs.rs:8443/",
            "http://docs.rs/",
            "https://evil.example/https://docs.rs/",
            "https://evil.example/?https://docs.rs/",
            "https://evil.example\t/docs.rs/",
            "ftp://docs.rs/",
            "docs.rs/",
            "",
        ] {
            assert!(!fits(pattern, url), "{pattern} {url}");
        }
    }
}

#[test]
fn approve_1_a_star_in_a_host_or_path_matches_only_within_this_part() {
    let fits = |pattern: &str, url: &str| fits(Ruling::Allow, pattern, &json!(url));
    assert!(fits("https://*.example.com/*", "https://a.example.com/b"));
    for url in [
        "https://evil.example/.example.com/",
        "https://evil.example?.example.com/",
        "https://evil.example#.example.com/",
        "https://evil.example\\.example.com/",
        "https://evil.example:80@x.example.com/",
    ] {
        assert!(!fits("https://*.example.com/*", url), "{url}");
    }
    let public = "https://api.example/public/*";
    assert!(fits(public, "https://api.example/public/a"));
    for url in [
        "https://api.example/public/../private",
        "https://api.example/public/%2e%2E/private",
        "https://api.example/public/.\t./private",
        "https://api.example/public/..\\private",
        "https://api.example/public/..%2fprivate",
        "https://api.example/public/%2E.%5Cprivate",
        "https://api.example/public",
    ] {
        assert!(!fits(public, url), "{url}");
    }
    assert!(fits("https://*", "https://anything.example/at?all"));
    assert!(!fits("https://*", "http://anything.example/"));
    assert!(fits("https://a.example/x", "https://a.example/x"));
    assert!(!fits("https://a.example/x", "https://a.example/xy"));
}

#[test]
fn approve_1_a_rule_that_denies_a_host_does_so_in_every_spelling() {
    for url in [
        "https://evil.example",
        "HTTPS://EVIL.example/a",
        "https:evil.example/a",
        "https:\\\\evil.example\\a",
        "https://evil.example:443/a",
        " https://evil.example/a",
        "https://e\tvil.example/a",
        "https://evil%2eexample/a",
        "https://evil.example./a",
        "https://u@evil.example/a",
        "https://u:pw@EVIL.example.:443/a",
        "https://evil.example/#a",
    ] {
        for rule in [
            "https://evil.example/*",
            "https://Evil.Example/*",
            "*evil.example/*",
            "http*://evil.example*",
            "HTTPS://evil.example.:443/*",
        ] {
            assert!(fits(Ruling::Deny, rule, &json!(url)), "{rule} {url}");
            assert!(fits(Ruling::Ask, rule, &json!(url)), "{rule} {url}");
        }
    }
}

#[test]
fn approve_1_a_rule_that_denies_an_address_does_so_in_every_spelling() {
    for (rule, url) in [
        ("https://evil.example", "https://evil.example/"),
        ("https://evil.example", "https://evil.example"),
        ("https://evil.example/", "https://u@evil.example"),
        ("*evil.example", "https://evil.example./"),
        ("*.zip", "https://a.example/b.zip"),
        ("https://b\u{fc}cher.example/*", "https://xn--bcher-kva.example/a"),
        ("https://xn--bcher-kva.example/*", "https://B\u{dc}CHER.example/a"),
        (
            "https://*.b\u{fc}cher.example/*",
            "https://a.xn--bcher-kva.example/",
        ),
        ("https://api.x/admin*", "https://api.x/%61dmin"),
        ("https://api.x/%61dmin*", "https://api.x/admin/b"),
        ("*/admin*", "https://api.x/%61dmin"),
        ("https://api.x/a%2fb", "https://api.x/a%2Fb#c"),
        ("http*://api.x:443/*", "https://api.x/a"),
        ("http://127.0.0.1/*", "http://0x7f.1/a"),
    ] {
        assert!(fits(Ruling::Deny, rule, &json!(url)), "{rule} {url}");
        assert!(fits(Ruling::Ask, rule, &json!(url)), "{rule} {url}");
    }
    for (rule, url) in [
        ("https://evil.example", "https://evil.example/a"),
        ("https://evil.example/*", "http://evil.example/"),
        ("https://evil.example/*", "https://evil.example.org/"),
        ("https://evil.example/*", "https://evil.example@docs.rs/"),
        ("https://api.x/admin*", "https://api.x/%2561dmin"),
    ] {
        assert!(!fits(Ruling::Deny, rule, &json!(url)), "{rule} {url}");
    }
}

#[test]
fn approve_1_a_rule_that_allows_a_host_may_have_a_wildcard_in_its_scheme() {
    let fits = |pattern: &str, url: &str| fits(Ruling::Allow, pattern, &json!(url));
    for pattern in [
        "http*://docs.rs/*",
        "HTTP*://docs.rs*",
        "*://docs.rs/*",
        "HTTPS://docs.rs*",
        "h*s://Docs.rs*",
    ] {
        assert!(fits(pattern, "https://docs.rs/serde"), "{pattern}");
        for url in [
            "http://evil.example/://docs.rs/",
            "https://evil.example/://docs.rs/",
            "https://docs.rs.evil.example/",
            "HTTPS://docs.rs.evil.example/",
            "https://docs.rs@evil.example/",
        ] {
            assert!(!fits(pattern, url), "{pattern} {url}");
        }
    }
}

#[test]
fn approve_1_only_unambiguous_patterns_are_suggested() {
    let long = "x".repeat(201);
    for (tool, parameters, expected) in [
        (
            "execute_command",
            json!({"command": ["cargo", "test", "--quiet"]}),
            vec![
                "execute_command(command: cargo test --quiet)",
                "execute_command(command: cargo test *)",
                "execute_command",
            ],
        ),
        (
            "execute_command",
            json!({"command": "cargo test"}),
            vec!["execute_command(command: cargo test)", "execute_command"],
        ),
        // A shell would interpret the words of these lists.
        (
            "execute_command",
            json!({"command": ["echo", "$(id>x)", "y"]}),
            vec!["execute_command"],
        ),
        (
            "execute_command",
            json!({"command": ["grep", "a|sh", "y"]}),
            vec!["execute_command"],
        ),
        // The first two words do not say what these commands do.
        (
            "execute_command",
            json!({"command": "ls | head -3"}),
            vec!["execute_command(command: ls | head -3)", "execute_command"],
        ),
        (
            "execute_command",
            json!({"command": "python3 -c x"}),
            vec!["execute_command(command: python3 -c x)", "execute_command"],
        ),
        (
            "execute_command",
            json!({"command": "bash run.sh x"}),
            vec!["execute_command(command: bash run.sh x)", "execute_command"],
        ),
        (
            "execute_command",
            json!({"command": "git -C .. push"}),
            vec!["execute_command(command: git -C .. push)", "execute_command"],
        ),
        (
            "execute_command",
            json!({"command": "ls  -la x"}),
            vec!["execute_command(command: ls  -la x)", "execute_command"],
        ),
        (
            "execute_command",
            json!({"command": "ls *"}),
            vec!["execute_command"],
        ),
        (
            "execute_command",
            json!({"command": "ls\nrm x"}),
            vec!["execute_command"],
        ),
        (
            "execute_command",
            json!({"command": "make all", "working_directory": "docs"}),
            vec![
                "execute_command(command: make all, working_directory: docs)",
                "execute_command",
            ],
        ),
        (
            "execute_sql",
            json!({"operation": "schema", "connection": "app"}),
            vec!["execute_sql"],
        ),
        (
            "http_request",
            json!({"method": "GET", "url": "https://docs.rs/rig"}),
            vec![
                "http_request(method: GET, url: https://docs.rs/rig)",
                "http_request(method: GET, url: https://docs.rs/*)",
                "http_request",
            ],
        ),
        (
            "pay",
            json!({"to": "bob", "amount": 5}),
            vec!["pay(amount: 5, to: bob)", "pay"],
        ),
        ("pay", json!({"to": "bob", "note": long}), vec!["pay"]),
        ("pay", json!({"to": {"name": "bob"}}), vec!["pay"]),
        // The names of parameters come from the model, too.
        ("pay", json!({"": "bob"}), vec!["pay"]),
        ("pay", json!({"a ": "1", "a": "2"}), vec!["pay"]),
        ("pay", json!({"to: *, x": "bob"}), vec!["pay"]),
        ("pay", json!({"a\nb": "bob"}), vec!["pay"]),
    ] {
        let suggested = CallPattern::suggestions(tool, &parameters);
        let texts: Vec<String> = suggested.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{parameters}");
        for calls in suggested {
            let rule = Rule {
                ruling: Ruling::Allow,
                calls,
            };
            assert!(
                rule.matches(tool, &parameters, "/shop"),
                "{} and {parameters}",
                rule.calls
            );
        }
    }
    let deceiving = json!({"method": "GET", "url": "https://docs.rs@evil.example/x"});
    let texts: Vec<String> = CallPattern::suggestions("http_request", &deceiving)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(!texts.iter().any(|text| text.contains('*')), "{texts:?}");
}
