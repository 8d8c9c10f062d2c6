//! The `file_operations` tool, called as an agent calls it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::MetadataExt;

use crate::folder::{Folder, error, numbered, output, text};
use dirigent_core::call::ToolSet;
use dirigent_core::message::ToolCall;
use dirigent_core::tool::{Access, FileVersion, StateChange};
use dirigent_tools::{Tool, file_operations};
use serde_json::{Value, json};

fn read(path: &str) -> Value {
    json!({"operation": "read", "path": path})
}

fn write(path: &str, content: &str) -> Value {
    json!({"operation": "write", "path": path, "content": content})
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"operation": "edit", "path": path, "old": old, "new": new})
}

fn delete(path: &str) -> Value {
    json!({"operation": "delete", "path": path})
}

fn rename(from: &str, to: &str) -> Value {
    json!({"operation": "move", "from": from, "to": to})
}

async fn complaint(folder: &Folder, parameters: Value) -> String {
    error(folder.call(file_operations(), parameters).await)
}

fn version(digest: &str, mode: u32) -> Option<FileVersion> {
    let digest = digest.to_owned();
    Some(FileVersion { digest, mode })
}

/// The permissions that the system's defaults give.
fn mode(folder: &Folder, path: &str) -> u32 {
    std::fs::metadata(folder.path(path)).unwrap().mode()
}

/// Everything in the folder, links not followed.
fn everything(folder: &Folder) -> Vec<String> {
    let root = folder.path("");
    let mut names: Vec<String> = ignore::WalkBuilder::new(&root)
        .standard_filters(false)
        .build()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .strip_prefix(&root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .filter(|name| !name.is_empty())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn read_returns_text_and_its_number_of_lines() {
    let folder = Folder::with(&[("src/a.rs", b"one\ntwo\nthree")]);
    let result = folder.call(file_operations(), read("./src/a.rs")).await;
    assert_eq!(
        text(result),
        "Lines 1-3 of 3; no line break at the end\n1\tone\n2\ttwo\n3\tthree"
    );
    let plain = json!({"operation": "read", "path": "src/a.rs", "numbered": false, "end_line": 2});
    assert_eq!(
        text(folder.call(file_operations(), plain).await),
        "Lines 1-2 of 3\none\ntwo\n"
    );
    let folder = Folder::with(&[("empty", b"")]);
    assert_eq!(
        text(folder.call(file_operations(), read("empty")).await),
        "Empty file\n"
    );
}

#[tokio::test]
async fn read_returns_the_lines_asked_for() {
    let folder = Folder::with(&[("a", b"one\ntwo\nthree\nfour\n")]);
    let ask = |first: u32, last: u32| json!({"operation": "read", "path": "a", "start_line": first, "end_line": last});
    for (first, last, shown) in [
        (2, 3, "Lines 2-3 of 4\n2\ttwo\n3\tthree\n"),
        (4, 99, "Lines 4-4 of 4\n4\tfour\n"),
    ] {
        assert_eq!(
            text(folder.call(file_operations(), ask(first, last)).await),
            shown
        );
    }
    assert_eq!(
        complaint(&folder, ask(5, 6)).await,
        "`a` has only 4 lines: there is no line 5"
    );
    assert_eq!(
        complaint(&folder, ask(3, 2)).await,
        "`end_line` (2) is before `start_line` (3)"
    );
    assert_eq!(
        complaint(&folder, ask(0, 2)).await,
        "`start_line` and `end_line` are counted from 1"
    );
}

#[tokio::test]
async fn read_says_how_to_continue_in_a_long_file() {
    let long = format!("{}\n", "x".repeat(99)).repeat(1000);
    let folder = Folder::with(&[("long", long.as_bytes()), ("line", "é".repeat(40_000).as_bytes())]);
    let first = text(folder.call(file_operations(), read("long")).await);
    let (head, first) = first.split_once('\n').unwrap();
    assert_eq!(
        head,
        "Lines 1-655 of 1000; cut after 64 KiB, continue with start_line 656"
    );
    let rest = json!({"operation": "read", "path": "long", "start_line": 656});
    let rest = text(folder.call(file_operations(), rest).await);
    let (head, rest) = rest.split_once('\n').unwrap();
    assert_eq!(head, "Lines 656-1000 of 1000");
    assert_eq!([first, rest].concat(), numbered(1, &long));

    let line = text(folder.call(file_operations(), read("line")).await);
    let (head, line) = line.split_once('\n').unwrap();
    assert_eq!(line, format!("1\t{}", "é".repeat(65_536 / 2)));
    assert!(head.contains("line 1 is cut after 65536 bytes"), "{head}");
}

#[tokio::test]
async fn read_refuses_files_that_are_not_text() {
    let folder = Folder::with(&[
        ("binary", b"a\0b"),
        ("huge", &vec![b'x'; 16 * 1024 * 1024 + 1]),
        ("src/a", b""),
    ]);
    assert!(
        complaint(&folder, read("binary"))
            .await
            .starts_with("`binary` is binary")
    );
    assert!(
        complaint(&folder, read("huge"))
            .await
            .starts_with("`huge` has more than 16777216 bytes")
    );
    assert_eq!(
        complaint(&folder, read("src")).await,
        "`src` is a folder: give the path of a file"
    );
    assert_eq!(
        complaint(&folder, read(".")).await,
        "`.` is a folder: give the path of a file"
    );
    assert!(
        complaint(&folder, read("src/a/b"))
            .await
            .starts_with("`src/a/b` is not a folder")
    );
}

#[tokio::test]
async fn the_error_for_a_missing_file_suggests_similar_paths() {
    let folder = Folder::with(&[("src/parser.rs", b""), ("src/main.rs", b"")]);
    assert_eq!(
        complaint(&folder, read("parser.rs")).await,
        "`parser.rs` does not exist; did you mean `src/parser.rs`?"
    );
    assert_eq!(
        complaint(&folder, read("src/parsers.rs")).await,
        "`src/parsers.rs` does not exist; did you mean `src/parser.rs`?"
    );
    assert_eq!(
        complaint(&folder, read("LICENSE")).await,
        "`LICENSE` does not exist"
    );
    assert_eq!(
        complaint(&folder, json!({"operation": "list", "path": "scr"})).await,
        "`scr` does not exist; did you mean `src/`?"
    );
}

#[tokio::test]
async fn loop_8_write_creates_a_file_and_its_folders() {
    let folder = Folder::with(&[]);
    let result = folder
        .call(file_operations(), write("a/b/new.txt", "one\ntwo\n"))
        .await;
    assert_eq!(std::fs::read(folder.path("a/b/new.txt")).unwrap(), b"one\ntwo\n");
    assert_eq!(
        result.changes,
        [StateChange::FileCreated {
            after: version(
                "c3f9c8c283a2b1f2f1896f27a01cbe3cddc0c9d93f752e4639035a0f5b36f6e8",
                mode(&folder, "a/b/new.txt")
            ),
            path: "a/b/new.txt".to_owned(),
            diff: Some("--- /dev/null\n+++ b/a/b/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n".to_owned()),
        }]
    );
    assert_eq!(text(result), "2 lines written");
    assert_eq!(everything(&folder), ["a", "a/b", "a/b/new.txt"]);
}

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
async fn the_number_of_lines_of_ignore_files_is_limited() {
    let long: Vec<String> = (10..35).map(|number| format!("{number}/.gitignore")).collect();
    let comments = "#\n".repeat(2_000);
    let mut files: Vec<(&str, &[u8])> = long
        .iter()
        .map(|path| (path.as_str(), comments.as_bytes()))
        .collect();
    for path in ["00/.gitignore", "99/.gitignore"] {
        files.push((path, b"secret.txt\n"));
    }
    files.extend([("00/secret.txt", &b""[..]), ("99/secret.txt", b"")]);
    let folder = Folder::with(&files);
    let listed = text(folder.call(file_operations(), json!({"operation": "list"})).await);
    assert!(!listed.contains("00/secret.txt"), "{listed}");
    assert!(listed.contains("99/secret.txt"), "{listed}");
    let error = complaint(&folder, read("secret.txt")).await;
    assert!(error.contains("did you mean `99/secret.txt`"), "{error}");
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

#[tokio::test]
async fn write_keeps_the_encoding_and_line_endings_of_an_existing_file() {
    let folder = Folder::with(&[("crlf", b"a\r\nb\r\n"), ("latin1", b"\xe4\n")]);
    output(folder.call(file_operations(), write("crlf", "x\ny\n")).await);
    assert_eq!(std::fs::read(folder.path("crlf")).unwrap(), b"x\r\ny\r\n");
    output(folder.call(file_operations(), write("latin1", "ö\n")).await);
    assert_eq!(std::fs::read(folder.path("latin1")).unwrap(), b"\xf6\n");
    assert_eq!(
        complaint(&folder, write("latin1", "→\n")).await,
        "the encoding of `latin1` cannot represent '→': leave that character out"
    );
    let again = folder.call(file_operations(), write("crlf", "x\ny\n")).await;
    assert_eq!(again.changes, []);
    assert!(text(again).starts_with("Unchanged"));
}

#[tokio::test]
async fn read_names_unusual_encodings_and_line_endings() {
    let folder = Folder::with(&[("a", b"\xe4\r\nb\r\n")]);
    assert_eq!(
        text(folder.call(file_operations(), read("a")).await),
        "Lines 1-2 of 2; Latin-1 or similar; CRLF line endings\n1\tä\n2\tb\n"
    );
}

#[tokio::test]
async fn list_shows_what_is_not_ignored_in_order() {
    let folder = Folder::with(&[
        (".git/config", b""),
        (".gitignore", b"target\n"),
        (".ignore", b"*.tmp\n"),
        ("README.md", b""),
        ("src/a.rs", b""),
        ("src/deep/er/x.rs", b""),
        ("src/y.tmp", b""),
        ("target/out", b""),
    ]);
    let list = async |parameters| text(folder.call(file_operations(), parameters).await);
    assert_eq!(
        list(json!({"operation": "list"})).await,
        "6 entries\n.gitignore\n.ignore\nREADME.md\nsrc/\nsrc/a.rs\nsrc/deep/"
    );
    assert_eq!(
        list(json!({"operation": "list", "path": "src/", "depth": 1})).await,
        "2 entries\nsrc/a.rs\nsrc/deep/"
    );
    // Ignored, but given explicitly.
    assert_eq!(
        list(json!({"operation": "list", "path": "target"})).await,
        "1 entry\ntarget/out"
    );
    assert!(
        complaint(&folder, json!({"operation": "list", "path": "README.md"}))
            .await
            .contains("`README.md` is not a folder")
    );
}

#[tokio::test]
async fn list_finds_the_files_that_match_a_glob() {
    let folder = Folder::with(&[
        (".gitignore", b"target\n"),
        (".hidden/c.rs", b""),
        ("a.rs", b""),
        ("src/a.md", b""),
        ("src/b.rs/x", b""),
        ("src/deep/er/est/d.rs", b""),
        ("target/e.rs", b""),
    ]);
    let list = async |parameters: Value| {
        let mut call = json!({"operation": "list"});
        call.as_object_mut()
            .unwrap()
            .extend(parameters.as_object().unwrap().clone());
        let listed = text(folder.call(file_operations(), call).await);
        json!(listed.lines().skip(1).collect::<Vec<_>>())
    };
    let cases = [
        (
            json!({"glob": "*.rs"}),
            json!([".hidden/c.rs", "a.rs", "src/deep/er/est/d.rs"]),
        ),
        (
            json!({"glob": "**/*.rs"}),
            json!([".hidden/c.rs", "a.rs", "src/deep/er/est/d.rs"]),
        ),
        (
            json!({"glob": "./*.rs"}),
            json!([".hidden/c.rs", "a.rs", "src/deep/er/est/d.rs"]),
        ),
        (json!({"glob": "src/*"}), json!(["src/a.md"])),
        (
            json!({"glob": "*.{md,rs}", "depth": 2}),
            json!([".hidden/c.rs", "a.rs", "src/a.md"]),
        ),
        // A pattern is matched against the path relative to `path`, and against the path relative to the workspace.
        (
            json!({"path": "src", "glob": "deep/**"}),
            json!(["src/deep/er/est/d.rs"]),
        ),
        (
            json!({"path": "src", "glob": "src/deep/**"}),
            json!(["src/deep/er/est/d.rs"]),
        ),
        (json!({"path": "src", "glob": "*.py"}), json!([])),
        (json!({"path": "target", "glob": "*.rs"}), json!(["target/e.rs"])),
    ];
    for (call, expected) in cases {
        assert_eq!(list(call.clone()).await, expected, "{call}");
    }
    assert!(
        complaint(&folder, json!({"operation": "list", "glob": "a[b"}))
            .await
            .starts_with("`a[b` is not a valid glob: ")
    );
}

#[tokio::test]
async fn list_ignores_the_ignore_files_outside_the_workspace() {
    let outside = Folder::with(&[(".gitignore", b"*\n"), ("inside/a", b"")]);
    let mut context = outside.context();
    context.workspace = outside.path("inside");
    let result = file_operations()
        .call(context, json!({"operation": "list"}))
        .await;
    assert_eq!(text(result), "1 entry\na");
}

#[tokio::test]
async fn list_says_when_there_is_more() {
    let names: Vec<String> = (0..1001).map(|number| format!("f{number:04}")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), b"".as_slice())).collect();
    let listed = text(
        Folder::with(&files)
            .call(file_operations(), json!({"operation": "list"}))
            .await,
    );
    assert_eq!(listed.lines().count(), 1001);
    assert!(
        listed.starts_with("1000 entries; 1 more are left out: list a subfolder"),
        "{listed:.200}"
    );
    let few = json!({"operation": "list", "glob": "f00[0-4]*"});
    let listed = text(Folder::with(&files).call(file_operations(), few).await);
    assert!(listed.starts_with("50 entries\n"), "{listed}");
    assert_eq!(listed.lines().count(), 51);
}

#[tokio::test]
async fn loop_8_move_renames_and_never_overwrites() {
    let folder = Folder::with(&[("a", b"1"), ("b", b"2"), ("dir/c", b"3")]);
    let plain = mode(&folder, "a");
    let result = folder.call(file_operations(), rename("a", "new/folder/a")).await;
    let (from, to) = ("a".to_owned(), "new/folder/a".to_owned());
    assert_eq!(
        result.changes,
        [StateChange::FileMoved {
            version: version(
                "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
                plain
            ),
            from,
            to
        }]
    );
    assert_eq!(
        complaint(&folder, rename("b", "dir/c")).await,
        "`dir/c` exists already: choose another name, or delete it first"
    );
    assert_eq!(
        complaint(&folder, rename("dir", "dir/x/y")).await,
        "`dir` cannot be moved into itself"
    );
    assert!(
        complaint(&folder, rename("gone", "x/y"))
            .await
            .starts_with("`gone` does not exist")
    );
    assert_eq!(
        everything(&folder),
        ["b", "dir", "dir/c", "new", "new/folder", "new/folder/a"]
    );
}

#[tokio::test]
async fn loop_8_delete_removes_files_and_empty_folders() {
    let folder = Folder::with(&[("a", b"1\n"), ("dir/b", b"")]);
    assert!(
        complaint(&folder, delete("dir"))
            .await
            .starts_with("the folder `dir` is not empty")
    );
    let plain = mode(&folder, "a");
    let result = folder.call(file_operations(), delete("a")).await;
    let diff = Some("--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n".to_owned());
    assert_eq!(
        result.changes,
        [StateChange::FileDeleted {
            before: version(
                "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865",
                plain
            ),
            path: "a".to_owned(),
            diff
        }]
    );
    output(folder.call(file_operations(), delete("dir/b")).await);
    output(folder.call(file_operations(), delete("dir")).await);
    assert_eq!(everything(&folder), Vec::<String>::new());
    assert!(complaint(&folder, delete(".")).await.contains("is a folder"));
}

#[tokio::test]
async fn without_read_write_access_every_change_is_refused() {
    let folder = Folder::with(&[("a", b"1")]);
    for access in [Access::ReadOnly, Access::Execute] {
        for parameters in [
            write("a", "2"),
            edit("a", "1", "2"),
            rename("a", "b"),
            delete("a"),
        ] {
            let mut context = folder.context();
            context.access = access;
            let error = error(file_operations().call(context, parameters).await);
            assert!(
                error.contains("is refused, as this agent may not change files"),
                "{error}"
            );
        }
    }
    assert_eq!(std::fs::read(folder.path("a")).unwrap(), b"1");
    let mut context = folder.context();
    context.access = Access::ReadOnly;
    assert_eq!(
        text(file_operations().call(context, read("a")).await),
        "Lines 1-1 of 1; no line break at the end\n1\t1"
    );
}

#[tokio::test]
async fn call_6_each_operation_names_what_it_needs() {
    let folder = Folder::with(&[]);
    let cases = [
        (json!({"operation": "read"}), "`read` needs `path`"),
        (
            json!({"operation": "write", "path": "a"}),
            "`write` needs `content`",
        ),
        (
            json!({"operation": "edit", "path": "a", "new": ""}),
            "`edit` needs `old`",
        ),
        (json!({"operation": "move", "from": "a"}), "`move` needs `to`"),
        (json!({"operation": "delete"}), "`delete` needs `path`"),
        (
            json!({"operation": "copy"}),
            "bad parameter `operation`: unknown variant `copy`",
        ),
        (json!({"operation": "read", "file": "a"}), "unknown field `file`"),
    ];
    for (parameters, said) in cases {
        let error = complaint(&folder, parameters).await;
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn call_6_what_an_operation_needs_is_checked_before_a_call_runs_or_a_plan_is_accepted() {
    let tools = ToolSet::new(vec![file_operations().spec()]);
    let check = |parameters: Value| {
        let call = ToolCall {
            id: String::new(),
            tool: "file_operations".to_owned(),
            parameters,
            terminate: false,
        };
        let checked = tools.check(&call, &["file_operations".to_owned()], Access::ReadWrite);
        checked.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(
        check(json!({"operation": "edit", "path": "a"})),
        Err(
            "the parameters of `file_operations` are wrong: `parameters.old` is missing: the text to replace, copied from the file; \
             `parameters.new` is missing: the replacement, empty to delete the text"
                .to_owned()
        )
    );
    for good in [
        read("a"),
        write("a", ""),
        edit("a", "1", ""),
        rename("a", "b"),
        delete("a"),
        json!({"operation": "list"}),
        json!({"operation": "undo"}),
        json!({"operation": "move", "path": "a", "to": "b"}),
    ] {
        assert_eq!(check(good), Ok(()));
    }
}

#[tokio::test]
async fn a_cancelled_call_changes_nothing() {
    let folder = Folder::with(&[("a", b"1")]);
    let calls = [
        write("a", "2"),
        write("new", "2"),
        edit("a", "1", "2"),
        rename("a", "b"),
        delete("a"),
    ];
    for call in calls {
        let context = folder.context();
        context.cancel.cancel();
        let result = file_operations().call(context, call).await;
        assert!(error(result).contains("cancelled"));
        assert_eq!(everything(&folder), ["a"]);
        assert_eq!(std::fs::read(folder.path("a")).unwrap(), b"1");
    }
}

#[tokio::test]
async fn unusual_file_names_are_accepted() {
    let folder = Folder::with(&[]);
    for name in [
        "with space",
        "-rf",
        "..dots",
        "...",
        "new\nline",
        "$HOME",
        "naïve é",
        "a\\b",
        "~",
        "*",
    ] {
        output(folder.call(file_operations(), write(name, name)).await);
        let plain = json!({"operation": "read", "path": name, "numbered": false});
        let read = text(folder.call(file_operations(), plain).await);
        assert_eq!(read.split_once('\n').unwrap().1, name);
    }
    assert_eq!(everything(&folder).len(), 10);
}
