//! What is tried on the file tools, by name, and what comes of it: a refusal with a code, or an answer of a size that a model can read.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod folder;

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use dirigent_core::tool::{ToolOutcome, ToolResult};
use dirigent_tools::{file_operations, search};
use folder::{Folder, output};
use serde_json::{Value, json};

fn read(path: &str) -> Value {
    json!({"operation": "read", "path": path})
}

fn list(path: &str) -> Value {
    json!({"operation": "list", "path": path})
}

fn write(path: &str) -> Value {
    json!({"operation": "write", "path": path, "content": "x"})
}

fn edit(path: &str) -> Value {
    json!({"operation": "edit", "path": path, "old": "secret", "new": "x"})
}

fn delete(path: &str) -> Value {
    json!({"operation": "delete", "path": path})
}

fn rename(from: &str, to: &str) -> Value {
    json!({"operation": "move", "from": from, "to": to})
}

/// The code of a call that failed and changed nothing, and what it says; `done` for one that succeeded.
fn outcome(result: ToolResult) -> (String, String) {
    match result.outcome {
        ToolOutcome::Failure { code, error, .. } => {
            assert_eq!(result.changes, []);
            assert!(error.len() < 5000, "{error}");
            (code, error)
        }
        ToolOutcome::Success { output } => ("done".to_owned(), output.to_string()),
    }
}

/// One call for each row: what is tried, with which parameters, the code that it fails with, and words of what the model reads.
async fn check(folder: &Folder, rows: &[(&str, Value, &str, &str)]) {
    for (attack, parameters, code, words) in rows {
        let (found, error) = outcome(folder.call(file_operations(), parameters.clone()).await);
        assert_eq!(&found, code, "{attack}: {parameters}: {error}");
        assert!(error.contains(words), "{attack}: {error}");
    }
}

fn make_pipe(folder: &Folder, path: &str) {
    let made = Command::new("mkfifo").arg(folder.path(path)).status().unwrap();
    assert!(made.success());
}

/// A file of a terabyte that takes no room.
fn make_giant(folder: &Folder, path: &str) {
    File::create(folder.path(path)).unwrap().set_len(1 << 40).unwrap();
}

fn names(folder: &Folder) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn paths_that_lead_out_or_nowhere() {
    let outside = Folder::with(&[("secret", b"secret")]);
    let folder = Folder::with(&[("file", b"file"), ("inner/file", b"")]);
    symlink(outside.path("secret"), folder.path("to-file")).unwrap();
    symlink(outside.path(""), folder.path("to-folder")).unwrap();
    symlink("../to-folder", folder.path("inner/middle")).unwrap();
    symlink("/proc/self/environ", folder.path("environ")).unwrap();
    symlink("/proc/self/root", folder.path("root")).unwrap();
    symlink("round", folder.path("circle")).unwrap();
    symlink("circle", folder.path("round")).unwrap();
    let absolute = outside.path("secret").to_str().unwrap().to_owned();
    let many = "a/".repeat(2000);
    let out = "outside_workspace";
    check(
        &folder,
        &[
            ("a link to a file outside", read("to-file"), out, "leads out"),
            ("a link to a file outside", write("to-file"), out, "leads out"),
            ("a link to a file outside", edit("to-file"), out, "leads out"),
            ("a link to a folder outside", list("to-folder"), out, "leads out"),
            (
                "a link in the middle",
                read("inner/middle/secret"),
                out,
                "leads out",
            ),
            (
                "a link in the middle",
                write("inner/middle/new/file"),
                out,
                "leads out",
            ),
            (
                "a link in the middle",
                delete("inner/middle/secret"),
                out,
                "leads out",
            ),
            (
                "a link in the middle",
                rename("inner/middle/secret", "here"),
                out,
                "leads out",
            ),
            (
                "a link in the middle",
                rename("file", "inner/middle/file"),
                out,
                "leads out",
            ),
            ("`..`", read("../secret"), out, "leads out"),
            ("`..`", write("inner/../../secret"), out, "leads out"),
            ("an absolute path", read("/etc/passwd"), out, "leads out"),
            ("an absolute path", delete(&absolute), out, "leads out"),
            ("a link into /proc", read("environ"), out, "leads out"),
            ("a link into /proc", read("root/etc/passwd"), out, "leads out"),
            (
                "links round in a circle",
                read("circle"),
                "not_a_file",
                "loop of links",
            ),
            (
                "links round in a circle",
                write("circle/file"),
                "not_a_file",
                "loop of links",
            ),
            ("NUL", read("fi\0le"), "bad_parameters", "NUL"),
            ("NUL", write("file\0"), "bad_parameters", "NUL"),
            ("NUL", rename("file", "\0"), "bad_parameters", "NUL"),
            ("an empty path", read(""), "not_a_file", "is a folder"),
            ("an empty path", write(""), "not_a_file", "is a folder"),
            ("an empty path", delete(""), "not_a_file", "is a folder"),
            (
                "a long name",
                write(&"x".repeat(300)),
                "bad_parameters",
                "too long",
            ),
            (
                "a long name",
                read(&"x".repeat(300)),
                "bad_parameters",
                "too long",
            ),
            (
                "a long path",
                read(&"x".repeat(1_000_000)),
                "bad_parameters",
                "too long",
            ),
            (
                "a long path",
                write(&"x/".repeat(100_000)),
                "bad_parameters",
                "too long",
            ),
            ("a deep path", read(&many), "not_found", ""),
        ],
    )
    .await;
    assert_eq!(std::fs::read(outside.path("secret")).unwrap(), b"secret");
    assert_eq!(names(&outside), ["secret"]);
}

#[tokio::test]
async fn what_is_no_file() {
    let folder = Folder::with(&[("file", b"file")]);
    make_pipe(&folder, "pipe");
    let _socket = UnixListener::bind(folder.path("socket")).unwrap();
    let mut rows = Vec::new();
    for (path, words) in [("pipe", "is a named pipe"), ("socket", "is a socket")] {
        for parameters in [read(path), write(path), edit(path)] {
            rows.push((words, parameters, "not_a_file", words));
        }
        rows.push((words, list(path), "not_a_folder", "is not a folder"));
        rows.push((
            words,
            read(&format!("{path}/x")),
            "not_a_folder",
            "is not a folder",
        ));
    }
    rows.push(("a device", rename("file", "pipe"), "exists", "exists already"));
    check(&folder, &rows).await;
    let found = output(folder.call(search(), json!({"pattern": "file"})).await);
    assert_eq!((&found["total"], &found["unreadable"]), (&json!(1), &Value::Null));
    // They themselves can go elsewhere, and go away.
    for parameters in [rename("pipe", "moved"), delete("moved"), delete("socket")] {
        output(folder.call(file_operations(), parameters).await);
    }
    assert_eq!(names(&folder), ["file"]);
}

#[tokio::test]
async fn devices_and_the_files_of_the_kernel() {
    let mut context = Folder::with(&[]).context();
    context.workspace = "/dev".into();
    let call = |context: &dirigent_tools::ToolContext, parameters| {
        let tool: Box<dyn dirigent_tools::Tool> = Box::new(file_operations());
        tool.call(context.clone(), parameters)
    };
    for path in ["zero", "null"] {
        for parameters in [read(path), write(path), edit(path)] {
            let (code, error) = outcome(call(&context, parameters).await);
            assert_eq!(code, "not_a_file", "{error}");
            assert!(error.contains("is a device"), "{error}");
        }
    }
    context.workspace = "/proc/self".into();
    // Links that are more than the path that they show.
    for path in ["root/etc/passwd", "cwd/Cargo.toml", "exe"] {
        let (code, error) = outcome(call(&context, read(path)).await);
        assert_eq!(code, "not_a_file", "{path}: {error}");
    }
}

#[tokio::test]
async fn hard_links_to_a_file_outside() {
    let outside = Folder::with(&[("kept", b"secret"), ("deleted", b"secret"), ("moved", b"secret")]);
    let folder = Folder::with(&[]);
    for name in ["kept", "deleted", "moved"] {
        std::fs::hard_link(outside.path(name), folder.path(name)).unwrap();
    }
    output(folder.call(file_operations(), edit("kept")).await);
    output(folder.call(file_operations(), write("kept")).await);
    output(folder.call(file_operations(), delete("deleted")).await);
    output(folder.call(file_operations(), rename("moved", "here")).await);
    output(folder.call(file_operations(), edit("here")).await);
    for name in ["kept", "deleted", "moved"] {
        assert_eq!(std::fs::read(outside.path(name)).unwrap(), b"secret", "{name}");
    }
    assert_eq!(std::fs::read(folder.path("kept")).unwrap(), b"x");
}

#[tokio::test]
async fn files_of_a_terabyte() {
    let folder = Folder::with(&[("file", b"needle")]);
    make_giant(&folder, "giant");
    check(
        &folder,
        &[
            (
                "read it",
                read("giant"),
                "too_big",
                "has more than 16777216 bytes",
            ),
            (
                "read a part of it",
                json!({"operation": "read", "path": "giant", "start_line": 5, "end_line": 6}),
                "too_big",
                "has more than",
            ),
            ("edit it", edit("giant"), "too_big", "has more than"),
            ("replace it", write("giant"), "too_big", "has more than"),
            (
                "move it onto another",
                rename("giant", "file"),
                "exists",
                "exists already",
            ),
        ],
    )
    .await;
    let found = output(folder.call(search(), json!({"pattern": "needle"})).await);
    assert_eq!(found["total"], 1);
    let moved = folder.call(file_operations(), rename("giant", "moved")).await;
    assert_eq!(
        serde_json::to_value(&moved.changes).unwrap(),
        json!([{"change": "file_moved", "from": "giant", "to": "moved"}])
    );
    let gone = folder.call(file_operations(), delete("moved")).await;
    assert_eq!(
        serde_json::to_value(&gone.changes).unwrap(),
        json!([{"change": "file_deleted", "path": "moved"}])
    );
    assert_eq!(names(&folder), ["file"]);
}

#[tokio::test]
async fn long_lines() {
    let line = [b"needle ".as_slice(), &b"x".repeat(100_000_000)].concat();
    let short = &line[..10_000_000];
    let folder = Folder::with(&[("hundred", &line), ("ten", short)]);
    check(
        &folder,
        &[
            (
                "read 100 MB",
                json!({"operation": "read", "path": "hundred", "start_line": 1, "end_line": 1}),
                "too_big",
                "use `search`",
            ),
            ("edit 100 MB", edit("hundred"), "too_big", "has more than"),
            (
                "edit what is not in 10 MB",
                edit("ten"),
                "no_match",
                "`old` is not in `ten`",
            ),
            (
                "edit with 5 MB",
                json!({"operation": "edit", "path": "ten", "old": "y".repeat(5_000_000), "new": ""}),
                "no_match",
                "`old` is not in `ten`",
            ),
            (
                "edit what is there ten million times",
                json!({"operation": "edit", "path": "ten", "old": "xx", "new": ""}),
                "ambiguous",
                "more than 10 times, at lines 1, 1,",
            ),
        ],
    )
    .await;
    let part = output(folder.call(file_operations(), read("ten")).await);
    assert_eq!(part["content"].as_str().unwrap().len(), 65536);
    let found = output(folder.call(search(), json!({"pattern": "needle"})).await);
    assert_eq!(
        (&found["total"], &found["unreadable"]),
        (&json!(1), &json!(["hundred"]))
    );
    assert_eq!(found["matches"][0]["text"].as_str().unwrap().chars().count(), 301);
}

#[tokio::test]
async fn many_lines_that_are_nearly_what_is_looked_for() {
    let lines = format!("{}\n", "ab".repeat(100)).repeat(20_000);
    let folder = Folder::with(&[("lines", lines.as_bytes())]);
    let like = format!("{}c\n", "ab".repeat(100));
    let whole = format!("{}{like}", &lines[..lines.len() / 2]);
    for old in [like.as_str(), &whole, &"ab".repeat(1_000_000)] {
        let parameters = json!({"operation": "edit", "path": "lines", "old": old, "new": ""});
        let (code, _) = outcome(folder.call(file_operations(), parameters).await);
        assert_eq!(code, "no_match");
    }
}

#[tokio::test]
async fn names_and_content_that_are_not_unicode() {
    let folder = Folder::with(&[("latin", b"caf\xe9 secret\n"), ("good", b"")]);
    std::fs::write(folder.path("").join(OsStr::from_bytes(b"bad\xff")), "secret").unwrap();
    symlink(OsStr::from_bytes(b"bad\xff"), folder.path("link")).unwrap();
    let unnamed = "at a path that is not Unicode";
    check(
        &folder,
        &[
            ("a link to such a name", read("link"), "not_a_file", unnamed),
            ("a link to such a name", write("link"), "not_a_file", unnamed),
            ("a guess", read("bad\u{fffd}"), "not_found", "does not exist"),
            (
                "a character that is not in the file's encoding",
                json!({"operation": "edit", "path": "latin", "old": "secret", "new": "→"}),
                "not_encodable",
                "leave that character out",
            ),
        ],
    )
    .await;
    let listed = output(folder.call(file_operations(), list(".")).await);
    assert_eq!(listed["entries"], json!(["good", "latin", "link"]));
    assert!(
        listed["note"]
            .as_str()
            .unwrap()
            .starts_with("at least 1 more entries are left out")
    );
    let found = output(folder.call(search(), json!({"pattern": "secret"})).await);
    assert_eq!((&found["total"], &found["left_out"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn a_folder_of_a_hundred_thousand_files() {
    let folder = Folder::with(&[]);
    for number in 0..100_001 {
        File::create(folder.path(&format!("{number:06}"))).unwrap();
    }
    let listed = output(folder.call(file_operations(), list("")).await);
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1000);
    let note = listed["note"].as_str().unwrap();
    assert!(note.starts_with("only the first 1000 entries"), "{note}");
    assert!(note.contains("their folder has too many entries"), "{note}");
    let (code, error) = outcome(folder.call(file_operations(), read("nothing")).await);
    assert_eq!(
        (code.as_str(), error.as_str()),
        ("not_found", "`nothing` does not exist")
    );
}

#[tokio::test]
async fn long_names_do_not_make_a_long_list() {
    let deep = ["x"; 15].map(|letter| letter.repeat(250)).join("/");
    let files: Vec<String> = (0..100).map(|number| format!("{deep}/{number}")).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|path| (path.as_str(), b"".as_slice())).collect();
    let folder = Folder::with(&files);
    let all = json!({"operation": "list", "depth": 100});
    let listed = output(folder.call(file_operations(), all).await);
    assert!(listed.to_string().len() < 70_000);
    assert!(listed["note"].as_str().unwrap().starts_with("only the first "));
}

#[tokio::test]
async fn ignore_files_that_are_none() {
    let outside = Folder::with(&[("rules", b"file\n")]);
    type Make<'a> = &'a dyn Fn(&Folder);
    let ignores: [(&str, Make<'_>); 4] = [
        ("a pipe", &|folder| make_pipe(folder, ".gitignore")),
        ("a terabyte", &|folder| make_giant(folder, ".gitignore")),
        ("a link outside", &|folder| {
            symlink(outside.path("rules"), folder.path(".ignore")).unwrap()
        }),
        ("a device", &|folder| {
            symlink("/dev/zero", folder.path(".ignore")).unwrap()
        }),
    ];
    for (name, make) in ignores {
        let folder = Folder::with(&[("file", b"needle")]);
        make(&folder);
        let listed = output(folder.call(file_operations(), list("")).await);
        assert!(
            listed["entries"].to_string().contains("\"file\""),
            "{name}: {listed}"
        );
        let found = output(folder.call(search(), json!({"pattern": "needle"})).await);
        assert_eq!(found["total"], 1, "{name}");
    }
}

#[tokio::test]
async fn what_belongs_to_git_and_to_dirigent() {
    let folder = Folder::with(&[
        ("file", b"secret"),
        ("full/.git/config", b"secret"),
        ("full/.dirigent/agents/own.md", b"secret"),
        (".claude/agents/own.md", b"secret"),
        ("dirigent.toml", b"secret"),
        ("worktree/.git", b"gitdir: elsewhere"),
        ("agents/own.md", b"---\naccess: read-write\n---\n"),
    ]);
    symlink("full/.git", folder.path("link")).unwrap();
    symlink("dirigent.toml", folder.path("settings")).unwrap();
    let protected = "is read-only to tools";
    let mut rows = Vec::new();
    for path in [
        ".git/hooks/post-checkout",
        ".git",
        ".dirigent",
        ".dirigent/agents/own.md",
        "new/.dirigent/agents/own.md",
        "new/.git/config",
        ".GIT/config",
        ".Dirigent/agents/own.md",
        ".Claude/settings.json",
        "DIRIGENT.toml",
        "new/dirigent.toml",
    ] {
        rows.push(("made anew", write(path), "protected", protected));
        rows.push(("by moving a file", rename("file", path), "protected", protected));
        rows.push((
            "by moving a folder",
            rename("agents", path),
            "protected",
            protected,
        ));
    }
    for path in [
        "full/.git/config",
        "link/config",
        "full/.dirigent/agents/own.md",
        ".claude/agents/own.md",
        "dirigent.toml",
        "settings",
        "worktree/.git",
        "worktree/../full/./.git/config",
    ] {
        rows.push(("changed", edit(path), "protected", protected));
        if path != "settings" {
            rows.push(("deleted", delete(path), "protected", protected));
            rows.push(("moved away", rename(path, "here"), "protected", protected));
        }
    }
    rows.retain(|(_, parameters, ..)| {
        parameters["path"] != "worktree/.git" || parameters["operation"] != "edit"
    });
    check(&folder, &rows).await;
    // Moving what they are in changes nothing of them.
    output(folder.call(file_operations(), rename("full", "moved/full")).await);
    let read = output(
        folder
            .call(file_operations(), read("moved/full/.git/config"))
            .await,
    );
    assert_eq!(read["content"], "secret");
    let (code, _) = outcome(
        folder
            .call(file_operations(), edit("moved/full/.git/config"))
            .await,
    );
    assert_eq!(code, "protected");
    let mut expected = [
        ".claude",
        "agents",
        "dirigent.toml",
        "file",
        "link",
        "moved",
        "settings",
        "worktree",
    ];
    expected.sort_unstable();
    assert_eq!(names(&folder), expected);
}

#[tokio::test]
async fn a_new_content_does_not_run_as_the_owner_of_the_old() {
    let folder = Folder::with(&[("tool", b"secret")]);
    std::fs::set_permissions(folder.path("tool"), PermissionsExt::from_mode(0o6755)).unwrap();
    output(folder.call(file_operations(), edit("tool")).await);
    let mode = std::fs::metadata(folder.path("tool")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[tokio::test]
async fn what_was_seen_is_stale() {
    let folder = Folder::with(&[("file", b"secret")]);
    let mut context = folder.context();
    context.seen = Some(std::sync::Arc::default());
    let tool: Box<dyn dirigent_tools::Tool> = Box::new(file_operations());
    let (code, _) = outcome(tool.call(context, write("file")).await);
    assert_eq!(code, "stale");
}

#[tokio::test]
async fn calls_that_make_no_sense() {
    let folder = Folder::with(&[("file", b"one\none\n"), ("full/file", b""), ("binary", b"\0")]);
    let lines =
        |first, last| json!({"operation": "read", "path": "file", "start_line": first, "end_line": last});
    check(
        &folder,
        &[
            (
                "no path",
                json!({"operation": "read"}),
                "bad_parameters",
                "needs `path`",
            ),
            ("no such lines", lines(5, 6), "bad_parameters", "has only 2 lines"),
            ("lines backwards", lines(2, 1), "bad_parameters", "is before"),
            ("lines to the end of time", lines(2, u64::MAX), "done", "one"),
            (
                "an edit of nothing",
                json!({"operation": "edit", "path": "file", "old": "", "new": ""}),
                "bad_parameters",
                "`old` is empty",
            ),
            (
                "an edit of two",
                json!({"operation": "edit", "path": "file", "old": "one", "new": ""}),
                "ambiguous",
                "2 times, at lines 1, 2:",
            ),
            (
                "a folder that is full",
                delete("full"),
                "not_empty",
                "is not empty",
            ),
            (
                "a folder into itself",
                rename("full", "full/new/full"),
                "bad_parameters",
                "into itself",
            ),
            ("binary", read("binary"), "binary", "is binary"),
        ],
    )
    .await;
    for parameters in [
        json!({"pattern": ""}),
        json!({"pattern": "(", "literal": false}),
        json!({"pattern": "((a{999}){999}){999}", "literal": false}),
    ] {
        let (code, error) = outcome(folder.call(search(), parameters).await);
        assert_eq!(code, "bad_parameters", "{error}");
    }
    let (code, _) = outcome(
        folder
            .call(search(), json!({"pattern": "x", "paths": ["../.."]}))
            .await,
    );
    assert_eq!(code, "outside_workspace");
}
