//! Plans for "Find all usages of function X and rename to Y" (PAOR-2).

use serde_json::{Value, json};

use crate::dialogue::{
    Dialogue, file, graph, list, listing, matches, plan_request, success, usages, with_list, with_similar,
};

const GOAL: &str = "Find all usages of function `parse` and rename it to `read`";

fn preview(from: &str, to: Option<&str>) -> Value {
    match to {
        Some(to) => json!({"from": from, "to": to, "preview": true}),
        None => json!({"from": from, "preview": true}),
    }
}

fn five_files() -> Value {
    success(usages(&[
        ("src/a.rs", 1, "pub fn parse() {"),
        ("src/b.rs", 2, "parse();"),
        ("src/c.rs", 3, "parse();"),
        ("src/d.rs", 4, "parse();"),
        ("tests/e.rs", 5, "parse();"),
    ]))
}

#[test]
fn paor_2_a_rename_is_searched_edited_checked_and_verified() {
    let mut lead = Dialogue::lead(&plan_request(GOAL, ""));
    lead.sees("rename_symbol", preview("parse", Some("read")), five_files())
        .sees(
            "file_operations",
            json!({"operation": "list", "path": ".", "depth": 3}),
            listing(&["Cargo.toml", "src/", "src/a.rs"]),
        );

    let plan = lead.plan();

    let rename = |paths: Value| {
        let parameters =
            json!({"from": "parse", "to": "read", "paths": paths, "preview": false, "allow_clash": true});
        format!("rename_symbol {parameters}")
    };
    assert_eq!(
        graph(&plan),
        [
            "explore <- []: explore".to_owned(),
            "baseline <- []: cargo check --all-targets; cargo test".to_owned(),
            format!(
                "edit-1 <- [explore, baseline]: {}",
                rename(json!(["src/a.rs", "src/b.rs"]))
            ),
            format!("edit-2 <- [explore, baseline]: {}", rename(json!(["src/c.rs"]))),
            format!("edit-3 <- [explore, baseline]: {}", rename(json!(["src/d.rs"]))),
            format!("edit-4 <- [explore, baseline]: {}", rename(json!(["tests/e.rs"]))),
            "check <- [edit-1, edit-2, edit-3, edit-4]: cargo check --all-targets; cargo test".to_owned(),
            "verify <- [check]: verify".to_owned(),
        ]
    );
    assert_eq!(
        plan["subtasks"][1]["calls"][0]["parameters"]["timeout_seconds"],
        600
    );
    assert_eq!(
        plan["summary"],
        "Rename `parse` to `read`: 5 usages in 5 files. Checked before and after by `cargo check --all-targets` and `cargo test`."
    );
}

#[test]
fn a_truncated_list_of_files_is_renamed_by_a_single_call() {
    let cut = "900 uses of `parse` in 300 files; only the first 1 are listed\n\nsrc/a.rs (1)\n1: parse();\n";
    let mut lead = Dialogue::lead(&plan_request(GOAL, ""));
    lead.sees("rename_symbol", preview("parse", Some("read")), success(cut))
        .sees(
            "file_operations",
            json!({"operation": "list", "path": ".", "depth": 3}),
            listing(&[]),
        );

    let plan = lead.plan();

    assert_eq!(
        graph(&plan)[1],
        r#"edit-1 <- [explore]: rename_symbol {"from":"parse","to":"read","preview":false,"allow_clash":true}"#
    );
}

/// The verification commands in a project of these files, whose usages are in `path`.
fn checks_of(files: &[&str], path: &str, more: &[(&str, Value, Value)]) -> Option<String> {
    let mut lead = Dialogue::lead(&plan_request(GOAL, ""));
    lead.sees(
        "rename_symbol",
        preview("parse", Some("read")),
        success(usages(&[(path, 1, "parse")])),
    )
    .sees(
        "file_operations",
        json!({"operation": "list", "path": ".", "depth": 3}),
        listing(files),
    );
    for (tool, parameters, result) in more {
        lead.sees(tool, parameters.clone(), result.clone());
    }
    let check = graph(&lead.plan())
        .into_iter()
        .find(|subtask| subtask.starts_with("check "))?;
    Some(check.split_once(": ").expect("work").1.to_owned())
}

fn pytest_search(result: Value) -> (&'static str, Value, Value) {
    let pattern = r"^\s*(import pytest|from pytest)\b|^\[tool\.pytest";
    (
        "search",
        json!({"pattern": pattern, "literal": false, "max_results": 1}),
        result,
    )
}

#[test]
fn the_checks_depend_on_the_project() {
    let check = |files: &[&str], path: &str| checks_of(files, path, &[]);
    assert_eq!(
        check(&["go.mod", "a.go"], "a.go").as_deref(),
        Some("go vet ./...; go test ./...")
    );
    assert_eq!(
        check(&["a.py", "conftest.py", "tests/test_a.py"], "a.py").as_deref(),
        Some("python3 -B -m pytest -q -p no:cacheprovider")
    );
    assert_eq!(check(&["Cargo.toml", "tool.py"], "tool.py"), None);
    assert_eq!(check(&["README.md", "a.py"], "a.py"), None);
}

#[test]
fn python_tests_run_with_pytest_or_unittest() {
    let unittest = [pytest_search(matches(&[]))];
    assert_eq!(
        checks_of(&["a.py", "tests/test_a.py"], "a.py", &unittest).as_deref(),
        Some("python3 -B -m unittest discover -s tests")
    );
    assert_eq!(
        checks_of(
            &["a.py", "tests/__init__.py", "tests/test_a.py"],
            "a.py",
            &unittest
        )
        .as_deref(),
        Some("python3 -B -m unittest discover -s tests -t .")
    );
    assert_eq!(
        checks_of(&["src/a.py", "test_a.py"], "src/a.py", &unittest).as_deref(),
        Some("env PYTHONPATH=src python3 -B -m unittest discover")
    );
    let pytest = [pytest_search(matches(&[("tests/test_a.py", 1, "import pytest")]))];
    assert_eq!(
        checks_of(&["a.py", "tests/test_a.py"], "a.py", &pytest).as_deref(),
        Some("python3 -B -m pytest -q -p no:cacheprovider")
    );
}

#[test]
fn npm_test_runs_if_there_is_a_test_script() {
    let check = |manifest: Value| {
        let read = json!({"operation": "read", "path": "package.json"});
        let content = file(&manifest.to_string());
        checks_of(
            &["package.json", "a.js"],
            "a.js",
            &[("file_operations", read, content)],
        )
    };
    assert_eq!(
        check(json!({"scripts": {"test": "node --test"}})).as_deref(),
        Some("npm test")
    );
    assert_eq!(
        check(json!({"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}})),
        None
    );
    assert_eq!(check(json!({"name": "a"})), None);
}

#[test]
fn without_any_check_the_plan_says_so_and_still_verifies() {
    let mut lead = Dialogue::lead(&plan_request(GOAL, ""));
    lead.sees(
        "rename_symbol",
        preview("parse", Some("read")),
        success(usages(&[("a.py", 1, "parse")])),
    )
    .sees(
        "file_operations",
        json!({"operation": "list", "path": ".", "depth": 3}),
        listing(&["a.py"]),
    );

    let plan = lead.plan();

    assert_eq!(
        graph(&plan),
        [
            "explore <- []: explore",
            r#"edit-1 <- [explore]: rename_symbol {"from":"parse","to":"read","paths":["a.py"],"preview":false,"allow_clash":true}"#,
            "verify <- [edit-1]: verify",
        ]
    );
    assert_eq!(
        plan["summary"],
        "Rename `parse` to `read`: 1 usage in 1 file. There is nothing here to build or test these files with, so only a search confirms the result."
    );
}

#[test]
fn paor_8_guidance_restricts_the_plan_and_is_named_in_it() {
    let guidance = "<GUIDANCE>\n1. search only in src/utils\n2. be quick\n</GUIDANCE>\n";
    let mut lead = Dialogue::lead(&plan_request(GOAL, guidance));
    lead.sees(
        "rename_symbol",
        json!({"from": "parse", "to": "read", "paths": ["src/utils"], "preview": true}),
        success(usages(&[("src/utils/a.rs", 1, "parse")])),
    )
    .sees(
        "file_operations",
        json!({"operation": "list", "path": ".", "depth": 3}),
        listing(&[]),
    );

    let plan = lead.plan();

    assert_eq!(plan["answers_guidance"], json!([1]));
    assert_eq!(
        plan["summary"],
        "Rename `parse` to `read` in `src/utils`: 1 usage in 1 file. There is nothing here to build or test these files with, \
         so only a search confirms the result. Guidance entries not followed: 2. The offline model does not understand them."
    );
    assert!(
        plan["subtasks"][0]["task"]
            .as_str()
            .expect("a task")
            .starts_with("Find all usages of `parse` in `src/utils`.")
    );
}

#[test]
fn guidance_can_exclude_a_folder_and_change_the_name() {
    let guidance = "<GUIDANCE>\n1. don't touch tests/\n2. call it load\n</GUIDANCE>\n";
    let mut lead = Dialogue::lead(&plan_request(GOAL, guidance));
    lead.sees("rename_symbol", preview("parse", Some("load")), five_files())
        .sees(
            "file_operations",
            json!({"operation": "list", "path": ".", "depth": 3}),
            listing(&[]),
        );

    let plan = lead.plan();

    assert_eq!(plan["answers_guidance"], json!([1, 2]));
    assert!(
        plan["summary"]
            .as_str()
            .expect("text")
            .starts_with("Rename `parse` to `load`, not in `tests`: 4 usages in 4 files.")
    );
}

/// The summary of a plan without sub-tasks.
fn no_work(lead: &Dialogue) -> String {
    let plan = lead.plan();
    assert_eq!(plan["subtasks"], json!([]));
    plan["summary"].as_str().expect("text").to_owned()
}

#[test]
fn a_rename_of_an_unknown_name_is_not_possible_and_similar_names_are_shown() {
    let none = with_similar(&usages(&[]), &["parse_all", "parser"]);
    let mut lead = Dialogue::lead(&plan_request(GOAL, ""));
    lead.sees("rename_symbol", preview("parse", Some("read")), success(none))
        .sees("rename_symbol", preview("read", None), success(usages(&[])));

    assert_eq!(
        no_work(&lead),
        "Not possible: there is no function or other symbol `parse`. Did you mean `parse_all` or `parser`? Nothing was changed."
    );
}

#[test]
fn paor_2_a_rename_of_a_missing_name_is_not_possible_even_if_the_new_name_exists() {
    let mut lead = Dialogue::lead(&plan_request(GOAL, ""));
    let nowhere = with_similar(&usages(&[]), &["parser", "read", "parse_all"]);
    lead.sees("rename_symbol", preview("parse", Some("read")), success(nowhere))
        .sees(
            "rename_symbol",
            preview("read", None),
            success(usages(&[("a.rs", 1, "read"), ("b.rs", 2, "read")])),
        );

    assert_eq!(
        no_work(&lead),
        "Not possible: there is no function or other symbol `parse`. Did you mean `parser` or `parse_all`? `read` exists, 2 times in \
         a.rs and b.rs: if `parse` was renamed before, nothing is left to do. Nothing was changed."
    );
}

#[test]
fn paor_2_the_user_decides_about_a_member_that_nothing_can_test() {
    let planned = |answers: &str, path: &str| {
        let found = usages(&[(path, 1, "function parse() {}"), (path, 2, "x.parse()")]);
        let found = with_list(&found, list::MEMBERS, &[&format!("{path}: 2")]);
        let mut lead = Dialogue::lead(&plan_request(GOAL, answers));
        lead.sees("rename_symbol", preview("parse", Some("read")), success(found))
            .sees(
                "file_operations",
                json!({"operation": "list", "path": ".", "depth": 3}),
                listing(&[path]),
            );
        lead
    };

    assert_eq!(
        no_work(&planned("", "a.js")),
        "For the user to decide: `parse` is used as a property, a keyword or a key, first at a.js:2 (`x.parse()`), where it may belong \
         to something else, and nothing here can test the result."
    );
    let anyway = format!(
        "<ANSWERS>\n{}\n</ANSWERS>\n",
        json!({"question": "Which?", "answer": "rename anyway"})
    );
    assert_eq!(graph(&planned(&anyway, "a.js").plan()).len(), 3);
    // A compiler verifies the change, whether or not it is installed.
    assert_eq!(graph(&planned("", "a.go").plan()).len(), 3);
}

#[test]
fn paor_2_a_name_of_a_library_is_not_renamed() {
    let mut lead = Dialogue::lead(&plan_request(GOAL, ""));
    let found = usages(&[("a.py", 1, "from json import parse")]);
    let found = with_list(&found, list::LIBRARY, &["a.py: 1"]);
    lead.sees("rename_symbol", preview("parse", Some("read")), success(found));

    assert_eq!(
        no_work(&lead),
        "Not possible: `parse` seems to belong to something outside of this workspace, first at a.py:1 (`from json import parse`). \
         A rename here would break it. Nothing was changed."
    );
}

/// The preview for a name that is defined nowhere.
fn undefined() -> Value {
    let found =
        "1 use of `parse` in 1 file; no searched file defines it\n\nsrc/a.rs (1)\n7: let x = y.parse();\n";
    let found = with_list(found, list::LIBRARY, &["src/a.rs: 7"]);
    success(with_similar(&found, &["parser", "read", "parse_all"]))
}

#[test]
fn paor_2_an_undefined_name_is_not_renamed_and_the_nearest_names_are_shown() {
    let mut lead = Dialogue::lead(&plan_request(GOAL, ""));
    lead.sees("rename_symbol", preview("parse", Some("read")), undefined());

    assert_eq!(
        no_work(&lead),
        "Not possible: `parse` seems to belong to something outside of this workspace, first at src/a.rs:7 (`let x = y.parse();`), \
         and nothing defines it. A rename here would break it. Did you mean `parser` or `parse_all`? Nothing was changed."
    );

    let mut lead = Dialogue::lead(&plan_request(&format!("{GOAL} in src"), ""));
    let scoped = json!({"from": "parse", "to": "read", "paths": ["src"], "preview": true});
    lead.sees("rename_symbol", scoped, undefined());
    assert!(no_work(&lead).contains("and nothing in `src` defines it."));
}

#[test]
fn paor_2_usages_left_by_an_earlier_iteration_are_renamed_despite_looking_foreign() {
    let left_by = |plan: &str| {
        let iteration = json!({"iteration": 1, "plan": plan, "verdict": "continue"});
        let sections = format!("<ITERATIONS>\n{iteration}\n</ITERATIONS>\n");
        let mut lead = Dialogue::lead(&plan_request(GOAL, &sections));
        lead.sees("rename_symbol", preview("parse", Some("read")), undefined());
        lead
    };

    let mut lead = left_by("Rename `parse` to `read`: 2 usages in 2 files.");
    lead.sees(
        "file_operations",
        json!({"operation": "list", "path": ".", "depth": 3}),
        listing(&["src/a.rs"]),
    );
    assert_eq!(
        graph(&lead.plan())[1],
        r#"edit-1 <- [explore]: rename_symbol {"from":"parse","to":"read","paths":["src/a.rs"],"preview":false,"allow_clash":true}"#
    );
    // An iteration that only asked the user has changed nothing.
    assert!(no_work(&left_by("For the user to decide: the new name.")).contains("nothing defines it"));
}

#[test]
fn paor_2_a_name_that_is_also_a_modules_name_is_not_renamed() {
    let mut lead = Dialogue::lead(&plan_request(GOAL, ""));
    let found = usages(&[("a.py", 2, "parse.parse()")]);
    let found = with_list(&found, list::MODULES, &["a.py:1:8: import parse"]);
    lead.sees("rename_symbol", preview("parse", Some("read")), success(found));

    assert_eq!(
        no_work(&lead),
        "Not possible: `parse` is also the name of a module, imported at a.py:1 (`import parse`). A rename matches names only: it \
         cannot distinguish the two, and it does not rename files. Nothing was changed."
    );
}

fn clashing() -> Value {
    let found = usages(&[("a.rs", 1, "parse")]);
    success(with_list(&found, list::CLASHES, &["b.rs:9:4: fn read() {}"]))
}

#[test]
fn the_user_decides_about_a_new_name_that_is_in_use() {
    let mut lead = Dialogue::lead(&plan_request(GOAL, ""));
    lead.sees("rename_symbol", preview("parse", Some("read")), clashing());

    assert_eq!(
        no_work(&lead),
        "For the user to decide: `read` is already in use, at b.rs:9 (`fn read() {}`), and could not be distinguished from the renamed `parse`."
    );
}

fn answered(answer: &str) -> Dialogue {
    let answers = format!(
        "<ANSWERS>\n{}\n</ANSWERS>\n",
        json!({"question": "Which?", "answer": answer})
    );
    Dialogue::lead(&plan_request(GOAL, &answers))
}

#[test]
fn paor_9_the_users_answer_about_a_name_in_use_decides_the_plan() {
    let list = json!({"operation": "list", "path": ".", "depth": 3});
    for answer in ["rename anyway", "yes", "go ahead"] {
        let mut anyway = answered(answer);
        anyway
            .sees("rename_symbol", preview("parse", Some("read")), clashing())
            .sees("file_operations", list.clone(), listing(&[]));
        assert_eq!(graph(&anyway.plan()).len(), 3, "{answer}");
    }
    for answer in ["load", "`load`", "call it load", "use load instead"] {
        let mut renamed = answered(answer);
        renamed
            .sees(
                "rename_symbol",
                preview("parse", Some("load")),
                success(usages(&[("a.rs", 1, "parse")])),
            )
            .sees("file_operations", list.clone(), listing(&[]));
        assert_eq!(graph(&renamed.plan()).len(), 3, "{answer}");
    }
    for answer in ["stop", "no"] {
        assert_eq!(
            no_work(&answered(answer)),
            "Not possible: you decided not to rename `parse`. Nothing was changed.",
            "{answer}"
        );
    }
    assert_eq!(
        no_work(&answered("use another name")),
        "For the user to decide: the new name of `parse`."
    );
}

#[test]
fn a_rename_to_an_invalid_identifier_is_not_possible() {
    let goal = "rename parse to 2fast";
    assert_eq!(
        no_work(&Dialogue::lead(&plan_request(goal, ""))),
        "Not possible: `2fast` is not a valid name: a name consists of letters, digits and `_`, and does not begin with a digit."
    );

    let mut keyword = Dialogue::lead(&plan_request("rename parse to match", ""));
    let refused = json!({"success": false, "error": "`match` is a keyword of Rust", "output": usages(&[("a.rs", 1, "parse")])});
    keyword.sees("rename_symbol", preview("parse", Some("match")), refused);
    assert_eq!(
        no_work(&keyword),
        "Not possible: `parse` can't be renamed to `match`: `match` is a keyword of Rust. Nothing was changed."
    );
}

#[test]
fn the_lead_gives_up_a_refused_plan_with_the_reason() {
    let mut lead = answered("stop");
    lead.gets_message("The plan can't be used: `explore` is no agent.");

    assert_eq!(
        no_work(&lead),
        "Not possible: the plan was not accepted: The plan can't be used: `explore` is no agent."
    );
}
