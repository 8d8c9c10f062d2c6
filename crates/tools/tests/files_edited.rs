//! `file_operations` with `edit`: what is replaced, what the agent is shown, and which edits are refused.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use crate::folder::file_calls::{complaint, edit, mode, version};
use crate::folder::{Folder, error, output, text};
use dirigent_core::tool::StateChange;
use dirigent_tools::{Tool, ToolContext, file_operations};
use serde_json::json;

#[tokio::test]
async fn loop_8_edit_replaces_the_one_place_and_shows_the_difference() {
    let folder = Folder::with(&[("a.rs", b"fn a() {\n    one();\n}\n")]);
    let plain = mode(&folder, "a.rs");
    let result = folder
        .call(file_operations(), edit("a.rs", "one();", "two();\n    three();"))
        .await;
    assert_eq!(
        std::fs::read_to_string(folder.path("a.rs")).unwrap(),
        "fn a() {\n    two();\n    three();\n}\n"
    );
    let diff =
        "--- a/a.rs\n+++ b/a.rs\n@@ -1,3 +1,4 @@\n fn a() {\n-    one();\n+    two();\n+    three();\n }\n";
    assert_eq!(
        result.changes,
        [StateChange::FileEdited {
            after: version(
                "b9ce3164ff7aad2aa659ac887c90e9a40c099372108f7079b26d15213b95976b",
                plain
            ),
            before: version(
                "31380e754b4c38afaf40501a8d1d20cfccaf8f0a57df3969dc791b8fa26a4bb8",
                plain
            ),
            path: "a.rs".to_owned(),
            diff: Some(diff.to_owned()),
        }]
    );
    assert_eq!(
        text(result),
        "Changed, from line 2\n1\tfn a() {\n2\t    two();\n3\t    three();\n4\t}"
    );
}

#[tokio::test]
async fn loop_8_edit_replaces_every_occurrence_if_replace_all_is_set() {
    let content = "use a;\r\nfn b() {\r\n    a();\r\n    a();\r\n}\r\n\r\n// a";
    let folder = Folder::with(&[("a.rs", content.as_bytes()), ("overlap", b"aaaaa")]);
    let all = |path: &str, old: &str, new: &str| json!({"operation": "edit", "path": path, "old": old, "new": new, "replace_all": true});
    let result = folder
        .call(file_operations(), all("a.rs", "a();", "c(\n1);"))
        .await;
    assert_eq!(
        text(result),
        "Replaced 2 occurrences, from line 3\n3\t    c(\n4\t1);\n5\t    c(\n6\t1);"
    );
    let result = folder.call(file_operations(), all("a.rs", "a", "ab")).await;
    assert_eq!(
        text(result),
        "Replaced 2 occurrences, from line 1\n1\tuse ab;\n…\n9\t// ab"
    );
    assert_eq!(
        std::fs::read_to_string(folder.path("a.rs")).unwrap(),
        "use ab;\r\nfn b() {\r\n    c(\r\n1);\r\n    c(\r\n1);\r\n}\r\n\r\n// ab"
    );
    output(folder.call(file_operations(), all("overlap", "aa", "b")).await);
    assert_eq!(std::fs::read_to_string(folder.path("overlap")).unwrap(), "bba");
    assert_eq!(
        complaint(&folder, all("overlap", "c", "d")).await,
        "`old` is not in `overlap`: read the file again and copy the text exactly"
    );
}

#[tokio::test]
async fn the_snippet_of_a_long_edit_is_bounded() {
    let lines: String = (1..=100).map(|number| format!("x {number}\n")).collect();
    let folder = Folder::with(&[("a", lines.as_bytes()), ("b", b"x"), ("c", &[b'x'; 40])]);
    let edit = async |path: &str, old: &str, new: &str| {
        let call = json!({"operation": "edit", "path": path, "old": old, "new": new, "replace_all": true});
        folder.call(file_operations(), call).await
    };
    let shown = text(edit("a", "x", "y").await);
    let shown: Vec<&str> = shown.lines().collect();
    assert_eq!(
        (shown.len(), shown[0]),
        (18, "Replaced 100 occurrences, from line 1")
    );
    assert_eq!((shown[8], shown[9], shown[10]), ("8\ty 8", "…", "93\ty 93"));
    assert_eq!(
        text(edit("b", "x", &"y".repeat(300)).await),
        format!("Replaced 1 occurrence, from line 1\n1\t{}…", "y".repeat(200))
    );
    assert_eq!(
        error(edit("c", "x", &"y".repeat(1024 * 1024)).await),
        "replacing 40 occurrences of `old` would make `c` larger than 16777216 bytes"
    );
}

#[tokio::test]
async fn edit_changes_only_a_text_that_occurs_once() {
    let text = "if a {\n    stop();\n}\nif b {\n    stop();\n}\n";
    let folder = Folder::with(&[("a.rs", text.as_bytes())]);
    let cases = [
        (
            edit("a.rs", "stop();", "go();"),
            "`old` is in `a.rs` 2 times, at lines 2, 5: include more surrounding lines so that it occurs once, or set `replace_all`",
        ),
        (
            edit("a.rs", "stopp();", "go();"),
            "`old` is not in `a.rs`; the most similar line is line 2: `stop();`. If you mean it, copy it exactly",
        ),
        (
            edit("a.rs", "if b {\n  stop();\n}", "go();"),
            "`old` is not in `a.rs`; lines 4 to 6 differ from `old` only in whitespace: copy them exactly",
        ),
        (
            edit("a.rs", "", "go();"),
            "`old` is empty: give the text to replace, or use `write` for the whole file",
        ),
        (
            edit("a.rs", "stop", "stop"),
            "`old` and `new` are the same: there is nothing to change",
        ),
        (
            json!({"operation": "edit", "path": "a.rs", "old": "stop"}),
            "`edit` needs `new`: the replacement, empty to delete the text",
        ),
    ];
    for (parameters, said) in cases {
        assert_eq!(complaint(&folder, parameters).await, said);
    }
    assert_eq!(std::fs::read_to_string(folder.path("a.rs")).unwrap(), text);
}

#[tokio::test]
async fn an_edit_with_escaped_brackets_is_answered_with_a_hint() {
    let folder = Folder::with(&[("p.md", b"<GOAL>\n{{ goal }}\n")]);
    assert_eq!(
        complaint(&folder, edit("p.md", r"\u003cGOAL>", r"\u003cTASK>")).await,
        r"`old` is not in `p.md`; it is with `<` for `\u003c`, as results show a `<` before some names: write `<` in `old` and `new`"
    );
}

#[tokio::test]
async fn missing_whitespace_has_no_similar_lines() {
    let folder = Folder::with(&[("f", b"one\n\ntwo\n")]);
    assert_eq!(
        complaint(&folder, edit("f", "\t\t", "x")).await,
        "`old` is not in `f`: read the file again and copy the text exactly"
    );
}

#[tokio::test]
async fn an_edit_of_a_file_that_was_never_read_says_so() {
    let folder = Folder::with(&[("f", b"one\n")]);
    let context = ToolContext {
        seen: Some(Arc::default()),
        ..folder.context()
    };
    let result = file_operations()
        .call(context, edit("f", "fn main() {", "x"))
        .await;
    assert_eq!(
        error(result),
        "`old` is not in `f`, and you have not read this file: read it and copy the text exactly"
    );
}

#[tokio::test]
async fn edit_counts_places_that_overlap() {
    let folder = Folder::with(&[("a", b"aaa")]);
    assert!(complaint(&folder, edit("a", "aa", "b")).await.contains("2 times"));
}

#[tokio::test]
async fn edit_keeps_encoding_and_line_endings() {
    let utf16 = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_be_bytes).collect() };
    let cases: [(&str, Vec<u8>, Vec<u8>); 5] = [
        (
            "crlf",
            b"a\r\none\r\nb\r\n".into(),
            b"a\r\ntwo\r\n\r\nb\r\n".into(),
        ),
        ("mixed", b"a\none\r\nb\r\n".into(), b"a\ntwo\r\n\r\nb\r\n".into()),
        ("marked", "\u{feff}one\nü".into(), "\u{feff}two\n\nü".into()),
        ("utf16", utf16("\u{feff}one\r\n"), utf16("\u{feff}two\r\n\r\n")),
        ("latin1", b"\xfc one\n\x80".into(), b"\xfc two\n\n\x80".into()),
    ];
    for (name, before, after) in cases {
        let folder = Folder::with(&[(name, &before)]);
        output(
            folder
                .call(file_operations(), edit(name, "one\n", "two\n\n"))
                .await,
        );
        assert_eq!(std::fs::read(folder.path(name)).unwrap(), after, "{name}");
    }
}
