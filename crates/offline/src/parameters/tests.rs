//! Which values the offline model finds in which sentences (FLOW-2).

use serde_json::json;

use super::*;

fn parameter(name: &str, kind: ParameterType, required: bool) -> ParameterLine {
    ParameterLine {
        name: name.to_owned(),
        kind,
        required,
        choices: Vec::new(),
        default: None,
        pattern: None,
        description: String::new(),
    }
}

fn choice_of(name: &str, choices: &[&str]) -> ParameterLine {
    ParameterLine {
        choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
        ..parameter(name, ParameterType::Choice, false)
    }
}

const CREATE: &str = "create_project: Creates a minimal project with a test in a new folder";
const RENAME: &str = "rename_symbol: Renames a function, type or variable with all its usages";
const REPLACE: &str = "replace_text: Replaces a text in all files";
const CHECKS: &str =
    "run_checks: Runs the project's tests or its build, or a command, and reports the result";
const DEPLOY: &str = "deploy: Deploys a service";

fn parameters(workflow: &str) -> Vec<ParameterLine> {
    use ParameterType::{Boolean, Integer, Path, String};
    match workflow {
        CREATE => vec![
            parameter("name", String, true),
            choice_of("language", &["rust", "python"]),
        ],
        RENAME => vec![
            parameter("name", String, true),
            parameter("new_name", String, true),
            parameter("place", Path, false),
        ],
        REPLACE => vec![
            parameter("old", String, true),
            parameter("new", String, true),
            parameter("place", Path, false),
        ],
        CHECKS => vec![
            choice_of("check", &["tests", "build"]),
            parameter("command", String, false),
        ],
        _ => vec![
            parameter("service", String, true),
            parameter("replicas", Integer, true),
            parameter("retries", Integer, false),
            parameter("dry_run", Boolean, false),
        ],
    }
}

/// Checks the values that are found in each sentence; `None` if none are.
fn check(workflow: &str, cases: &[(&str, Option<Value>)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(words, expected)| {
            let found = found(workflow, &parameters(workflow), words);
            let found = found.filter(|values| !values.is_empty()).map(Value::Object);
            (found != *expected).then(|| format!("{words}: {found:?}"))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn flow_2_names_choices_and_markers() {
    let python = || Some(json!({"name": "my-app", "language": "python"}));
    let only_name = || Some(json!({"name": "my-app"}));
    check(
        CREATE,
        &[
            ("a python package called my-app please", python()),
            ("Create a new Python project named `my-app`.", python()),
            ("python my-app", python()),
            ("my-app in python, please", python()),
            ("name my-app language python", python()),
            ("the name is my-app, the language is Python", python()),
            ("name: my-app, language: python", python()),
            ("name:my-app language:python", python()),
            ("创建一个叫my-app的python项目", python()),
            ("请用 python 新建一个名为「my-app」的项目", python()),
            ("语言用python，名字是my-app", python()),
            ("could you make a project called my-app?", only_name()),
            ("a project called test", Some(json!({"name": "test"}))),
            (
                "a python project foo",
                Some(json!({"name": "foo", "language": "python"})),
            ),
            // The user is told why this is no name.
            ("a project called My-App", Some(json!({"name": "My-App"}))),
            ("a python project", Some(json!({"language": "python"}))),
            // Two words could be the name.
            (
                "a python project my-app my-lib",
                Some(json!({"language": "python"})),
            ),
            // Words that are not understood.
            ("a cobol project called my-app", None),
            ("my-app cobol", None),
            ("not python, but rust: my-app", None),
            ("a rust or python project called my-app", None),
            ("a project called my-app, called my-lib", None),
            ("name my-app name my-lib", None),
            ("一个不用python的项目叫my-app", None),
        ],
    );
}

#[test]
fn flow_2_strings_in_order_and_paths_by_their_form() {
    let renamed = || Some(json!({"name": "parse_amount", "new_name": "parse_price"}));
    let in_src = || Some(json!({"name": "parse_amount", "new_name": "parse_price", "place": "src/"}));
    check(
        RENAME,
        &[
            ("rename parse_amount to parse_price in src/", in_src()),
            ("in src/ please rename parse_amount to parse_price", in_src()),
            ("在src/里把parse_amount改名为parse_price", in_src()),
            ("the function parse_amount to parse_price please", renamed()),
            ("把函数 parse_amount 重命名为 parse_price", renamed()),
            ("change the name of parse_amount to parse_price", renamed()),
            ("name is parse_amount and new name is parse_price", renamed()),
            (
                "rename foo to bar in src",
                Some(json!({"name": "foo", "new_name": "bar", "place": "src"})),
            ),
            (
                "please rename the function parse_amount",
                Some(json!({"name": "parse_amount"})),
            ),
            // The first word is the new name.
            ("rename it to parse_price", None),
            ("rename to parse_price the function parse_amount", None),
            ("rename parse_amount to parse_price in src/ and docs/", None),
            ("rename parse_amount to parse_price only in comments", None),
        ],
    );
    check(
        REPLACE,
        &[
            (
                "replace \"old text\" with \"new text\" in docs/",
                Some(json!({"old": "old text", "new": "new text", "place": "docs/"})),
            ),
            (
                "please replace colour with color in README.md",
                Some(json!({"old": "colour", "new": "color", "place": "README.md"})),
            ),
            (
                "replace `a/b` by `a/c` please",
                Some(json!({"old": "a/b", "new": "a/c"})),
            ),
            (
                "在 docs/ 中把“旧”替换为“新”",
                Some(json!({"old": "旧", "new": "新", "place": "docs/"})),
            ),
            ("use color instead of colour", None),
        ],
    );
}

#[test]
fn flow_2_numbers_and_switches() {
    check(
        DEPLOY,
        &[
            (
                "deploy web-1 with 3 replicas and two retries",
                Some(json!({"service": "web-1", "replicas": 3, "retries": 2})),
            ),
            (
                "the service web, replicas 3, as a dry run",
                Some(json!({"service": "web", "replicas": 3, "dry_run": true})),
            ),
            (
                "service web, 3 replicas, dry run",
                Some(json!({"service": "web", "replicas": 3, "dry_run": true})),
            ),
            (
                "service web, 3 replicas, no dry_run",
                Some(json!({"service": "web", "replicas": 3, "dry_run": false})),
            ),
            (
                "service web, replicas is three, dry run is off",
                Some(json!({"service": "web", "replicas": 3, "dry_run": false})),
            ),
            // It is unclear which parameter the number is for.
            ("deploy the service web 3 times", None),
        ],
    );
    check(
        CHECKS,
        &[
            ("run the tests", Some(json!({"check": "tests"}))),
            ("please run the test", Some(json!({"check": "tests"}))),
            ("run `make lint` please", Some(json!({"command": "make lint"}))),
            ("run the build and the tests", None),
            ("run the linter please", None),
        ],
    );
}

#[test]
fn flow_2_any_words_are_answered() {
    for words in [
        "",
        " ",
        "。",
        "「",
        "\"",
        "叫",
        "name",
        "name is",
        "called",
        "in",
        "不",
        "no",
        "的".repeat(500).as_str(),
    ] {
        let _ = found(CREATE, &parameters(CREATE), words);
        let _ = found(DEPLOY, &parameters(DEPLOY), words);
    }
}
