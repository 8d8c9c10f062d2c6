//! The text form of call patterns and rules, and the patterns that a user is offered for a call (APPROVE-1).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use dirigent_core::policy::{CallPattern, Policy, Rule, Ruling};
use proptest::prelude::{any, prop_assert_eq, proptest};
use serde_json::json;

use crate::policy::policy;

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
