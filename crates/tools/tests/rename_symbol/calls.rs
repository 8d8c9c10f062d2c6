//! Parameters, previews, clashes and access.

use dirigent_core::tool::Access;
use dirigent_tools::{Tool, ToolContext, rename_symbol};
use serde_json::json;

use super::{content, error, output, places, report, run, workspace};
use crate::folder::context;

#[test]
fn host_2_an_interrupted_rename_is_not_repeated_and_a_preview_is() {
    let repeat = &rename_symbol().spec().repeat;
    for parameters in [json!({"from": "old", "preview": true}), json!({"from": "old"})] {
        assert!(repeat.is_safe(&parameters), "{parameters}");
    }
    assert!(!repeat.is_safe(&json!({"from": "old", "to": "new", "preview": false})));
}

#[tokio::test]
async fn a_preview_changes_nothing_and_is_the_default() {
    let workspace = workspace(&[
        ("a.rs", "fn old() {}\n"),
        ("b.py", "old()\n"),
        ("notes.md", "old\n"),
    ]);
    let result = run(&workspace, json!({"from": "old"})).await;

    assert!(result.succeeded());
    assert_eq!(result.changes, []);
    assert_eq!(
        report(&result),
        &json!({
            "from": "old", "renamed": false, "occurrences": 2,
            "files": [
                {"path": "a.rs", "total": 1, "occurrences": [
                    {"line": 1, "column": 4, "text": "fn old() {}", "definition": true}]},
                {"path": "b.py", "total": 1, "occurrences": [{"line": 1, "column": 1, "text": "old()"}]}
            ],
            "totals": {"files": 2, "definitions": 1, "introductions": 1}
        })
    );
    assert_eq!(content(&workspace, "a.rs"), "fn old() {}\n");
}

#[tokio::test]
async fn a_model_reads_a_preview_as_text() {
    let workspace = workspace(&[
        ("a.py", "import old\nfrom library import old\nold(old)\n"),
        (
            "b: 1.rs",
            "// old: 1:2: string\nfn old() { \"old\"; }\nfn taken() { x.old() }\n",
        ),
        ("c.rs", "fn old( {\n"),
        ("d.rs", "\0"),
    ]);
    let preview = run(&workspace, json!({"from": "old", "to": "taken"})).await;
    insta::assert_snapshot!(output(&preview), @r#"
    Preview: nothing was changed. Renaming to `taken` would change 6 uses of `old` in 3 files

    a.py (3)
    2: from library import old
    3 (2): old(old)

    b: 1.rs (2)
    2 definition: fn old() { "old"; }
    3: fn taken() { x.old() }

    c.rs (1)
    1: fn old( {

    `taken` is in use already:
    b: 1.rs:3:4: fn taken() { x.old() }

    Uses that seem to belong to a library, which a rename would break:
    a.py: 2

    Imports of a module with this name, whose file keeps its name:
    a.py:1:8: import old

    Uses whose object or type the syntax does not show, so some may be other symbols:
    b: 1.rs: 3

    In comments and strings, which a rename leaves as they are:
    b: 1.rs:1:4: comment: // old: 1:2: string
    b: 1.rs:2:13: string: fn old() { "old"; }

    Files with syntax errors, where uses may be missed:
    c.rs

    Files that were not read:
    d.rs: `d.rs` is binary: it can be moved or deleted, but not read or edited as text
    "#);

    let refused = json!({"from": "old", "to": "taken", "preview": false});
    let refused = run(&workspace, refused).await;
    assert!(output(&preview).ends_with(output(&refused)), "{refused:?}");

    let unknown = run(&workspace, json!({"from": "taker"})).await;
    assert_eq!(
        output(&unknown),
        "No uses of `taker`\n\nNames similar to `taker`: `taken`\n\nFiles that were not read:\nd.rs: `d.rs` is binary: it can be moved \
         or deleted, but not read or edited as text\n"
    );
}

#[tokio::test]
async fn paths_limit_the_rename_but_not_the_search_for_clashes() {
    let workspace = workspace(&[
        ("src/a.rs", "fn old() {}\n"),
        ("src/deep/b.rs", "fn f() { old() }\n"),
        ("tests/c.rs", "fn f() { old() }\n"),
        ("tests/d.rs", "fn taken() {}\n"),
    ]);
    let paths = json!(["src"]);
    let result = run(
        &workspace,
        json!({"from": "old", "to": "taken", "paths": paths, "preview": false}),
    )
    .await;
    assert_eq!(report(&result)["clashes"][0]["path"], "tests/d.rs");
    assert!(!result.succeeded());

    let result = run(
        &workspace,
        json!({"from": "old", "to": "fresh", "paths": paths, "preview": false}),
    )
    .await;
    assert!(result.succeeded());
    assert_eq!(report(&result)["occurrences"], 2);
    assert_eq!(content(&workspace, "src/deep/b.rs"), "fn f() { fresh() }\n");
    assert_eq!(content(&workspace, "tests/c.rs"), "fn f() { old() }\n");
}

#[tokio::test]
async fn a_clash_is_refused_and_no_file_changes() {
    let files = [
        ("a.rs", "fn old() {}\n"),
        ("b.go", "package b\n\nvar taken = 1\n"),
    ];
    let workspace = workspace(&files);
    let parameters = json!({"from": "old", "to": "taken", "preview": false});
    let result = run(&workspace, parameters).await;

    assert_eq!(
        error(&result),
        "`taken` exists already (1 found, first in `b.go` line 3); nothing was changed: choose another name, or set \
         `allow_clash: true` to rename all the same"
    );
    assert_eq!(
        report(&result)["clashes"],
        json!([{"path": "b.go", "line": 3, "column": 5, "text": "var taken = 1"}])
    );
    assert_eq!(report(&result)["renamed"], false);
    assert_eq!(result.changes, []);
    for (path, before) in files {
        assert_eq!(content(&workspace, path), before);
    }
}

#[tokio::test]
async fn a_clash_is_shown_in_a_preview_and_accepted_with_allow_clash() {
    let workspace = workspace(&[("a.rs", "fn old() { taken() }\n")]);
    let preview = run(&workspace, json!({"from": "old", "to": "taken"})).await;
    assert!(preview.succeeded());
    assert_eq!(report(&preview)["totals"]["clashes"], 1);

    let meant = json!({"from": "old", "to": "taken", "preview": false, "allow_clash": true});
    assert!(run(&workspace, meant).await.succeeded());
    assert_eq!(content(&workspace, "a.rs"), "fn taken() { taken() }\n");
}

#[tokio::test]
async fn an_unknown_name_is_a_success_with_similar_names() {
    let workspace = workspace(&[
        (
            "a.rs",
            "fn parse_line() {}\nfn parse_lines() {}\nfn unlike() {}\n",
        ),
        ("b.js", "parseLine(); // parse_lane is not parse_lune\n"),
    ]);
    for parameters in [
        json!({"from": "parse_lane"}),
        json!({"from": "parse_lane", "to": "x", "preview": false}),
    ] {
        let result = run(&workspace, parameters).await;
        assert!(result.succeeded());
        assert_eq!(report(&result)["occurrences"], 0);
        assert_eq!(report(&result)["renamed"], false);
        assert_eq!(
            report(&result)["similar"],
            json!(["parseLine", "parse_line", "parse_lines"])
        );
        assert_eq!(places(&report(&result)["mentions"]), ["1:17"]);
    }
}

#[tokio::test]
async fn an_invalid_name_is_refused_with_the_reason() {
    let files = [
        ("a.rs", "fn old() {}\n"),
        ("b.py", "def thing(): pass\n"),
        ("c.js", "function item() {}\n"),
        ("d.go", "package d\n\nfunc act() {}\n"),
    ];
    let workspace = workspace(&files);
    for (from, to, expected) in [
        (
            "old",
            "match",
            "`match` is a keyword of Rust; nothing was changed: choose another name",
        ),
        (
            "old",
            "r#self",
            "`r#self` is not a raw identifier of Rust; nothing was changed: choose another name",
        ),
        (
            "old",
            "a$b",
            "`a$b` is not an identifier of Rust; nothing was changed: choose another name",
        ),
        (
            "thing",
            "lambda",
            "`lambda` is a keyword of Python; nothing was changed: choose another name",
        ),
        (
            "thing",
            "r#x",
            "`r#x` is not an identifier of Python; nothing was changed: choose another name",
        ),
        (
            "item",
            "class",
            "`class` is a keyword of JavaScript; nothing was changed: choose another name",
        ),
        (
            "act",
            "func",
            "`func` is a keyword of Go; nothing was changed: choose another name",
        ),
        (
            "old",
            "a b",
            "`to` is `a b`, which is not an identifier: give the name alone",
        ),
        (
            "old",
            "1st",
            "`to` is `1st`, which is not an identifier: give the name alone",
        ),
        (
            "old",
            "",
            "`to` is ``, which is not an identifier: give the name alone",
        ),
        ("old", "old", "`from` and `to` are both `old`"),
        (
            "m::old()",
            "x",
            "`from` is `m::old()`, which is not an identifier: give the name alone, such as `parse_line`",
        ),
    ] {
        let result = run(&workspace, json!({"from": from, "to": to, "preview": false})).await;
        assert_eq!(error(&result), expected);
    }
    for (path, before) in files {
        assert_eq!(content(&workspace, path), before);
    }
}

#[tokio::test]
async fn without_read_write_access_only_previews_are_possible() {
    let workspace = workspace(&[("a.rs", "fn old() {}\n")]);
    for access in [Access::ReadOnly, Access::Execute] {
        let context = ToolContext {
            access,
            ..context(workspace.path())
        };
        let rename = json!({"from": "old", "to": "fresh", "preview": false});
        let result = rename_symbol().call(context.clone(), rename).await;
        assert_eq!(
            error(&result),
            "this agent may not change files: `preview: false` is refused, nothing was changed"
        );
        assert_eq!(content(&workspace, "a.rs"), "fn old() {}\n");
        let preview = json!({"from": "old", "to": "fresh"});
        assert!(rename_symbol().call(context, preview).await.succeeded());
    }
}

#[tokio::test]
async fn a_rename_without_a_new_name_is_refused() {
    let workspace = workspace(&[("a.rs", "fn old() {}\n")]);
    let result = run(&workspace, json!({"from": "old", "preview": false})).await;
    assert_eq!(
        error(&result),
        "`to` is missing: give the new name, or ask for a preview"
    );
}

#[tokio::test]
async fn host_8_a_cancelled_rename_changes_nothing() {
    let workspace = workspace(&[("a.rs", "fn old() {}\n")]);
    let context = context(workspace.path());
    context.cancel.cancel();
    let rename = json!({"from": "old", "to": "fresh", "preview": false});
    let result = rename_symbol().call(context, rename).await;
    assert_eq!(error(&result), "cancelled before anything was changed");
    assert_eq!(content(&workspace, "a.rs"), "fn old() {}\n");
}
