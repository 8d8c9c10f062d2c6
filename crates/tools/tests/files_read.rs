//! `file_operations` with `read` and `list`: what is shown, and how missing, long and ignored files are told of.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::folder::file_calls::{complaint, read};
use crate::folder::{Folder, numbered, text};
use dirigent_tools::{Tool, file_operations};
use serde_json::{Value, json};

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
