//! `file_operations` with `write`, `move` and `delete`, and what holds for every operation: access, parameters, cancelling and names.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::folder::file_calls::{complaint, delete, edit, mode, read, rename, version, write};
use crate::folder::{Folder, error, output, text};
use dirigent_core::call::ToolSet;
use dirigent_core::message::ToolCall;
use dirigent_core::tool::{Access, StateChange};
use dirigent_tools::{Tool, file_operations};
use serde_json::{Value, json};

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
