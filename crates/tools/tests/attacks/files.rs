//! Attacks on the file tools: no path leads out of the workspace, nothing hangs, no answer is too long, and the files of git and Dirigent
//! are read-only.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;

use dirigent_tools::{Tool, file_operations};
use serde_json::{Value, json};

use super::{Call, Scene, call, names, outcome};
use crate::folder::{Folder, output};

fn file(parameters: Value) -> Call {
    ("file_operations", parameters)
}

fn read(path: &str) -> Call {
    file(json!({"operation": "read", "path": path}))
}

fn list(path: &str) -> Call {
    file(json!({"operation": "list", "path": path}))
}

fn write(path: &str) -> Call {
    file(json!({"operation": "write", "path": path, "content": "x"}))
}

fn replace(path: &str, old: &str, new: &str) -> Call {
    file(json!({"operation": "edit", "path": path, "old": old, "new": new}))
}

fn edit(path: &str) -> Call {
    replace(path, "secret", "x")
}

fn delete(path: &str) -> Call {
    file(json!({"operation": "delete", "path": path}))
}

fn rename(from: &str, to: &str) -> Call {
    file(json!({"operation": "move", "from": from, "to": to}))
}

fn search(pattern: &str) -> Call {
    ("search", json!({"pattern": pattern}))
}

/// All operations on a path; the workspace contains `file` but not `here`.
fn operations_on(path: &str) -> [Call; 7] {
    let moved = [rename(path, "here"), rename("file", path)];
    let [there, back] = moved;
    [
        read(path),
        list(path),
        write(path),
        edit(path),
        delete(path),
        there,
        back,
    ]
}

/// A sparse file of a terabyte.
fn make_giant(folder: &Folder, path: &str) {
    File::create(folder.path(path)).unwrap().set_len(1 << 40).unwrap();
}

/// The output of a call, which must succeed.
async fn done(folder: &Folder, made: Call) -> Value {
    output(call(&folder.path(""), made).await)
}

#[tokio::test]
async fn paths_that_lead_outside_or_nowhere_are_refused() {
    let scene = Scene::with(&[("file", b"file"), ("inner/file", b"")]);
    let secret = scene.outside.path("secret");
    scene.link(&secret, "to-file");
    scene.link(scene.outside.path(""), "to-folder");
    scene.link(scene.outside.path("new"), "to-nothing");
    scene.link("../to-folder", "inner/middle");
    scene.link("../..", "inner/up");
    scene.link("/proc/self/environ", "environ");
    scene.link("/proc/self/root", "root");
    scene.link("/dev/zero", "zero");
    scene.link("round", "circle");
    scene.link("circle", "round");
    scene.link("itself", "itself");
    let escapes = [
        "../secret",
        "inner/../../secret",
        "inner/up/secret",
        "to-folder/secret",
        "to-folder/new/secret",
        "./to-folder/./secret",
        "inner/middle/secret",
        "inner/middle/new/file",
        "root/etc/passwd",
        secret.to_str().unwrap(),
        "/etc/passwd",
        "/",
        "..",
    ];
    let out = "outside_workspace";
    let (long, many) = ("x".repeat(300), "x/".repeat(100_000));
    scene
        .check(&[
            (out, "leads out", &escapes.map(operations_on).concat()),
            (
                out,
                "leads out",
                &["to-file", "to-nothing", "environ", "zero"]
                    .map(|path| [read(path), write(path), edit(path)])
                    .concat(),
            ),
            (out, "leads out", &[list("to-folder")]),
            (
                "not_a_file",
                "loop of links",
                &[
                    read("circle"),
                    write("circle/file"),
                    read("itself"),
                    write("itself"),
                ],
            ),
            (
                "bad_parameters",
                "NUL",
                &[read("fi\0le"), write("file\0"), rename("file", "\0")],
            ),
            ("not_a_file", "is a folder", &[read(""), write(""), delete("")]),
            (
                "bad_parameters",
                "too long",
                &[
                    write(&long),
                    read(&long),
                    write(&many),
                    read(&"x".repeat(1_000_000)),
                ],
            ),
            ("not_found", "", &[read(&"a/".repeat(2000))]),
            ("done", "No matches", &[search("canary")]),
        ])
        .await;
}

#[tokio::test]
async fn pipes_and_sockets_are_not_files() {
    let scene = Scene::with(&[("file", b"file")]);
    scene.pipe("pipe");
    let _socket = UnixListener::bind(scene.work.path("socket")).unwrap();
    for (path, words) in [("pipe", "is a named pipe"), ("socket", "is a socket")] {
        let below = format!("{path}/x");
        scene
            .check(&[
                ("not_a_file", words, &[read(path), write(path), edit(path)]),
                ("not_a_folder", "is not a folder", &[list(path), read(&below)]),
                ("exists", "exists already", &[rename("file", path)]),
            ])
            .await;
    }
    let found = done(&scene.work, search("file")).await;
    assert_eq!(found, "1 match in 1 file\n\nfile\n1:file");
    // The special files themselves can be moved and deleted.
    for parameters in [rename("pipe", "moved"), delete("moved"), delete("socket")] {
        done(&scene.work, parameters).await;
    }
    assert_eq!(names(&scene.work), ["file"]);
}

#[tokio::test]
async fn devices_and_kernel_files_are_refused() {
    for path in ["zero", "null"] {
        for made in [read(path), write(path), edit(path)] {
            let (code, error) = outcome(call("/dev".as_ref(), made).await);
            assert_eq!(code, "not_a_file", "{error}");
            assert!(error.contains("is a device"), "{error}");
        }
    }
    // Magic links of procfs: the kernel follows them to the object itself, not to the path that `readlink` returns.
    for path in ["root/etc/passwd", "cwd/Cargo.toml", "exe"] {
        let (code, error) = outcome(call("/proc/self".as_ref(), read(path)).await);
        assert_eq!(code, "not_a_file", "{path}: {error}");
    }
}

#[tokio::test]
async fn hard_links_to_a_file_outside_leave_it_unchanged() {
    let scene = Scene::with(&[]);
    for name in ["kept", "deleted", "moved"] {
        std::fs::write(scene.outside.path(name), "secret").unwrap();
        std::fs::hard_link(scene.outside.path(name), scene.work.path(name)).unwrap();
    }
    let moved = [rename("moved", "here"), edit("here")];
    scene
        .check(&[
            ("done", "", &[edit("kept"), write("kept"), delete("deleted")]),
            ("done", "", &moved),
        ])
        .await;
    assert_eq!(std::fs::read(scene.work.path("kept")).unwrap(), b"x");
}

#[tokio::test]
async fn files_of_a_terabyte() {
    let scene = Scene::with(&[("file", b"needle")]);
    make_giant(&scene.work, "giant");
    let part = json!({"operation": "read", "path": "giant", "start_line": 5, "end_line": 6});
    scene
        .check(&[
            (
                "too_big",
                "has more than 16777216 bytes",
                &[read("giant"), file(part), edit("giant"), write("giant")],
            ),
            ("exists", "exists already", &[rename("giant", "file")]),
            ("done", "1 match in 1 file", &[search("needle")]),
        ])
        .await;
    for (made, change) in [
        (
            rename("giant", "moved"),
            json!({"change": "file_moved", "from": "giant", "to": "moved"}),
        ),
        (
            delete("moved"),
            json!({"change": "file_deleted", "path": "moved"}),
        ),
    ] {
        let result = call(&scene.work.path(""), made).await;
        assert_eq!(serde_json::to_value(&result.changes).unwrap(), json!([change]));
    }
    assert_eq!(names(&scene.work), ["file"]);
}

#[tokio::test]
async fn long_lines() {
    let line = [b"needle ".as_slice(), &b"x".repeat(100_000_000)].concat();
    let scene = Scene::with(&[("hundred", &line), ("ten", &line[..10_000_000])]);
    let one = json!({"operation": "read", "path": "hundred", "start_line": 1, "end_line": 1});
    let missing = [edit("ten"), replace("ten", &"y".repeat(5_000_000), "")];
    let many = "more than 10 times, at lines 1, 1,";
    scene
        .check(&[
            ("too_big", "use `search`", &[file(one)]),
            ("too_big", "has more than", &[edit("hundred")]),
            ("no_match", "`old` is not in `ten`", &missing),
            ("ambiguous", many, &[replace("ten", "xx", "")]),
        ])
        .await;
    let part = done(&scene.work, read("ten")).await;
    let (_, line) = part.as_str().unwrap().split_once('\n').unwrap();
    assert_eq!(line.len(), "1\t".len() + 65536);
    let found = done(&scene.work, search("needle")).await;
    let found = found.as_str().unwrap();
    let (head, line) = found.split_once("\n\nten\n1:").unwrap();
    assert_eq!(head, "1 match in 1 file\nNot readable: hundred");
    assert_eq!(line.chars().count(), 301);
}

#[tokio::test]
async fn the_search_for_similar_lines_is_bounded() {
    let lines = format!("{}\n", "ab".repeat(100)).repeat(20_000);
    let scene = Scene::with(&[("lines", lines.as_bytes())]);
    let like = format!("{}c\n", "ab".repeat(100));
    let whole = format!("{}{like}", &lines[..lines.len() / 2]);
    let calls = [&like, &whole, &"ab".repeat(1_000_000)].map(|old| replace("lines", old, ""));
    scene.check(&[("no_match", "", &calls)]).await;
}

#[tokio::test]
async fn names_and_content_that_are_not_unicode_are_refused_or_left_out() {
    let scene = Scene::with(&[("latin", b"caf\xe9 secret\n"), ("good", b"")]);
    let name = OsStr::from_bytes(b"bad\xff");
    std::fs::write(scene.work.path("").join(name), "secret").unwrap();
    scene.link(name, "link");
    let unnamed = "it leads to a file whose name is not valid Unicode";
    let arrow = replace("latin", "secret", "→");
    scene
        .check(&[
            ("bad_parameters", unnamed, &[read("link"), write("link")]),
            ("not_found", "does not exist", &[read("bad\u{fffd}")]),
            ("not_encodable", "leave that character out", &[arrow]),
        ])
        .await;
    let listed = done(&scene.work, list(".")).await;
    let listed = listed.as_str().unwrap();
    assert!(
        listed.starts_with("3 entries; at least 1 more entries are left out"),
        "{listed}"
    );
    assert!(listed.ends_with("\ngood\nlatin\nlink"), "{listed}");
    let found = done(&scene.work, search("secret")).await;
    let head = "1 match in 1 file\nNot searched: at least 1 entries";
    assert!(found.as_str().unwrap().starts_with(head), "{found}");
}

#[tokio::test]
async fn a_folder_of_a_hundred_thousand_files() {
    let folder = Folder::with(&[]);
    for number in 0..100_001 {
        File::create(folder.path(&format!("{number:06}"))).unwrap();
    }
    let listed = done(&folder, list("")).await;
    let listed = listed.as_str().unwrap();
    assert_eq!(listed.lines().count(), 1001);
    let note = listed.lines().next().unwrap();
    assert!(
        note.starts_with("1000 entries; 99000 more are left out"),
        "{note}"
    );
    assert!(note.contains("their folder has too many entries"), "{note}");
    let missing = outcome(call(&folder.path(""), read("nothing")).await);
    assert_eq!(
        missing,
        ("not_found".to_owned(), "`nothing` does not exist".to_owned())
    );
}

#[tokio::test]
async fn endless_lists_are_cut_and_link_loops_are_not_followed() {
    let deep = ["x"; 15].map(|letter| letter.repeat(250)).join("/");
    let files: Vec<String> = (0..100).map(|number| format!("{deep}/{number}")).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|path| (path.as_str(), b"".as_slice())).collect();
    let (long, round) = (Scene::with(&files), Scene::with(&[("src/file", b"")]));
    round.link(".", "src/again");
    let all = [file(json!({"operation": "list", "depth": 1000}))];
    long.check(&[("done", " more are left out: list a subfolder", &all)])
        .await;
    round.check(&[("done", "src/again", &all)]).await;
}

#[tokio::test]
async fn ignore_files_that_are_pipes_devices_huge_or_links_are_harmless() {
    let rules = Folder::with(&[("rules", b"file\n")]);
    type Make<'a> = &'a dyn Fn(&Scene);
    let ignores: [(&str, Make<'_>); 4] = [
        ("a pipe", &|scene| scene.pipe(".gitignore")),
        ("a terabyte", &|scene| make_giant(&scene.work, ".gitignore")),
        ("a link outside", &|scene| {
            scene.link(rules.path("rules"), ".ignore")
        }),
        ("a device", &|scene| scene.link("/dev/zero", ".ignore")),
    ];
    for (name, make) in ignores {
        let scene = Scene::with(&[("file", b"needle")]);
        make(&scene);
        let listed = done(&scene.work, list("")).await;
        assert!(
            listed.as_str().unwrap().lines().any(|line| line == "file"),
            "{name}: {listed}"
        );
        let found = done(&scene.work, search("needle")).await;
        assert!(
            found.as_str().unwrap().starts_with("1 match in 1 file\n"),
            "{name}: {found}"
        );
    }
}

#[tokio::test]
async fn files_of_git_and_dirigent_are_read_only() {
    let scene = Scene::with(&[
        ("file", b"secret"),
        ("full/.git/config", b"secret"),
        ("full/.dirigent/agents/own.md", b"secret"),
        (".claude/agents/own.md", b"secret"),
        ("dirigent.toml", b"secret"),
        (".mcp.json", b"secret"),
        ("worktree/.git", b"gitdir: elsewhere"),
        ("agents/own.md", b"---\naccess: read-write\n---\n"),
    ]);
    scene.link("full/.git", "link");
    scene.link("dirigent.toml", "settings");
    scene.link("full/.git/hooks", "hooks");
    let new = [
        ".git/hooks/post-checkout",
        ".git",
        ".dirigent",
        ".dirigent/agents/own.md",
        "new/.dirigent/agents/own.md",
        "new/.git/config",
        "new/.claude/agents/own.md",
        ".GIT/config",
        ".Dirigent/agents/own.md",
        ".Claude/settings.json",
        "DIRIGENT.toml",
        "new/dirigent.toml",
        "new/.mcp.json",
        ".MCP.json",
    ];
    let there = [
        "full/.git/config",
        "link/config",
        "full/.dirigent/agents/own.md",
        ".claude/agents/own.md",
        "dirigent.toml",
        ".mcp.json",
        "worktree/../full/./.git/config",
    ];
    let whole = ["full/.git", "full/.dirigent", "worktree/.git", ".claude"];
    let created = new.map(|path| [write(path), rename("file", path), rename("agents", path)]);
    let changed = there.map(|path| {
        [
            write(path),
            edit(path),
            delete(path),
            rename(path, "here"),
            rename("file", path),
        ]
    });
    let removed = whole.map(|path| [delete(path), rename(path, "here")]);
    let protected = "is read-only to tools";
    scene
        .check(&[
            ("protected", protected, &created.concat()),
            ("protected", protected, &changed.concat()),
            ("protected", protected, &[edit("settings")]),
            ("not_a_file", "link to nothing", &[write("hooks")]),
            ("protected", protected, &removed.concat()),
            // Moving the folder around protected files does not change them.
            ("done", "", &[rename("full", "moved/full")]),
            ("done", "secret", &[read("moved/full/.git/config")]),
            ("protected", protected, &[edit("moved/full/.git/config")]),
        ])
        .await;
}

#[tokio::test]
async fn edited_files_lose_the_set_user_id_and_set_group_id_bits() {
    let folder = Folder::with(&[("tool", b"secret")]);
    std::fs::set_permissions(folder.path("tool"), PermissionsExt::from_mode(0o6755)).unwrap();
    done(&folder, edit("tool")).await;
    let mode = std::fs::metadata(folder.path("tool")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[tokio::test]
async fn a_refusal_of_an_unseen_file_has_the_code_stale() {
    let folder = Folder::with(&[("file", b"secret")]);
    let mut context = folder.context();
    context.seen = Some(std::sync::Arc::default());
    let (code, _) = outcome(file_operations().call(context, write("file").1).await);
    assert_eq!(code, "stale");
}

#[tokio::test]
async fn calls_with_invalid_parameters_are_refused_with_a_code() {
    let scene = Scene::with(&[("file", b"one\none\n"), ("full/file", b""), ("binary", b"\0")]);
    let lines = |first, last| {
        file(json!({"operation": "read", "path": "file", "start_line": first, "end_line": last}))
    };
    let pattern = |pattern: &str| ("search", json!({"pattern": pattern, "literal": false}));
    let bad = "bad_parameters";
    let growing = pattern("((a{999}){999}){999}");
    let outside = ("search", json!({"pattern": "x", "paths": ["../.."]}));
    scene
        .check(&[
            (bad, "needs `path`", &[file(json!({"operation": "read"}))]),
            (bad, "has only 2 lines", &[lines(5, 6)]),
            (bad, "is before", &[lines(2, 1)]),
            ("done", "one", &[lines(2, u64::MAX)]),
            (bad, "`old` is empty", &[replace("file", "", "")]),
            (
                "ambiguous",
                "2 times, at lines 1, 2:",
                &[replace("file", "one", "")],
            ),
            ("not_empty", "is not empty", &[delete("full")]),
            (bad, "into itself", &[rename("full", "full/new/full")]),
            ("binary", "is binary", &[read("binary")]),
            (bad, "", &[search(""), pattern("("), growing]),
            ("outside_workspace", "", &[outside]),
        ])
        .await;
}
