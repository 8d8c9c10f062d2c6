//! The files that are read and written: encodings, syntax errors, unreadable and ignored files.

use serde_json::json;
use tempfile::TempDir;

use super::{content, error, report, run, workspace};

#[tokio::test]
async fn line_endings_and_encodings_are_kept() {
    let workspace = TempDir::new().unwrap();
    let at = |name: &str| workspace.path().join(name);
    let utf16 = |text: &str| -> Vec<u8> {
        let units = std::iter::once(0xFEFF).chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    };
    std::fs::write(at("crlf.rs"), "fn old() {}\r\n\r\nfn f() { old() }\r\n// end").unwrap();
    std::fs::write(at("mark.py"), "\u{feff}old = 1\n").unwrap();
    std::fs::write(at("utf16.ts"), utf16("let old = 'é';\r\n")).unwrap();
    std::fs::write(at("latin.js"), b"let old = '\xe9';\n").unwrap();

    let result = run(
        &workspace,
        json!({"from": "old", "to": "fresh", "preview": false}),
    )
    .await;

    assert_eq!(report(&result)["occurrences"], 5);
    let bytes = |name: &str| std::fs::read(at(name)).unwrap();
    assert_eq!(
        bytes("crlf.rs"),
        b"fn fresh() {}\r\n\r\nfn f() { fresh() }\r\n// end"
    );
    assert_eq!(bytes("mark.py"), "\u{feff}fresh = 1\n".as_bytes());
    assert_eq!(bytes("utf16.ts"), utf16("let fresh = 'é';\r\n"));
    assert_eq!(bytes("latin.js"), b"let fresh = '\xe9';\n");
}

#[tokio::test]
async fn columns_count_characters_and_lines_are_shown_whole_or_near_the_name() {
    let long = format!("{}old();{}\n", "ä(); ".repeat(100), " b();".repeat(100));
    let workspace = workspace(&[("a.js", "/* é */ old(); \r\n"), ("b.js", &long)]);
    let result = run(&workspace, json!({"from": "old"})).await;

    let files = &report(&result)["files"];
    assert_eq!(
        files[0]["occurrences"],
        json!([{"line": 1, "column": 9, "text": "/* é */ old();"}])
    );
    assert_eq!(files[1]["occurrences"][0]["column"], 501);
    assert_eq!(
        files[1]["occurrences"][0]["text"],
        format!("…{}old();{} b()…", "ä(); ".repeat(16), " b();".repeat(22))
    );
}

#[tokio::test]
async fn names_in_a_file_with_a_syntax_error_are_renamed_and_the_file_is_reported() {
    let workspace = workspace(&[
        ("a.rs", "fn old( {}\nfn f() { old() }\n"),
        ("b.rs", "fn old() {}\n"),
    ]);
    let result = run(
        &workspace,
        json!({"from": "old", "to": "fresh", "preview": false}),
    )
    .await;
    assert!(result.succeeded());
    assert_eq!(report(&result)["syntax_errors"], json!(["a.rs"]));
    assert_eq!(content(&workspace, "a.rs"), "fn fresh( {}\nfn f() { fresh() }\n");
}

#[tokio::test]
async fn unreadable_files_are_reported_and_the_rest_is_renamed() {
    let workspace = workspace(&[
        ("a.rs", "fn old() {}\n"),
        ("b.rs", "old\0"),
        ("notes.txt", "old\n"),
    ]);
    std::fs::File::create(workspace.path().join("c.py"))
        .unwrap()
        .set_len(16 * 1024 * 1024 + 1)
        .unwrap();
    let result = run(
        &workspace,
        json!({"from": "old", "to": "fresh", "paths": [".", "notes.txt"], "preview": false}),
    )
    .await;

    assert!(result.succeeded());
    assert_eq!(content(&workspace, "a.rs"), "fn fresh() {}\n");
    let skipped = report(&result)["skipped"].as_array().unwrap();
    let paths: Vec<_> = skipped.iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["notes.txt", "b.rs", "c.py"]);
    assert_eq!(
        skipped[0]["reason"],
        "it is not source code of a supported language"
    );
    assert!(
        skipped[1]["reason"]
            .as_str()
            .unwrap()
            .starts_with("`b.rs` is binary")
    );
    assert!(
        skipped[2]["reason"]
            .as_str()
            .unwrap()
            .starts_with("`c.py` has more than 16777216 bytes")
    );
}

#[tokio::test]
async fn ignored_and_hidden_files_are_skipped_unless_named() {
    let workspace = workspace(&[
        (".gitignore", "target/\n"),
        ("target/a.rs", "fn old() {}\n"),
        (".hidden/b.py", "old()\n"),
        ("c.rs", "fn old() {}\n"),
    ]);
    let all = run(&workspace, json!({"from": "old"})).await;
    assert_eq!(report(&all)["occurrences"], 1);
    let named = run(
        &workspace,
        json!({"from": "old", "paths": ["target", ".hidden/b.py"]}),
    )
    .await;
    assert_eq!(report(&named)["occurrences"], 2);
}

#[tokio::test]
async fn long_lists_are_cut_and_counted() {
    let workspace = workspace(&[
        ("a.py", &"old()\n".repeat(150)),
        ("b.py", &"old() # old\n".repeat(250)),
        ("c.py", "old()\n"),
    ]);
    let result = run(&workspace, json!({"from": "old"})).await;

    let output = report(&result);
    assert_eq!(output["occurrences"], 401);
    let listed: Vec<_> = output["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| {
            (
                file["total"].as_u64().unwrap(),
                file["occurrences"].as_array().unwrap().len(),
            )
        })
        .collect();
    assert_eq!(listed, [(150, 150), (250, 50), (1, 0)]);
    assert_eq!(output["mentions"].as_array().unwrap().len(), 200);
    assert_eq!(output["totals"]["mentions"], 250);
    let text = super::output(&result);
    assert!(text.starts_with("401 uses of `old` in 3 files; no searched file defines it; only the first 200 are listed\n\na.py (150)\n"));
    assert!(text.contains(
        "\n\nIn comments and strings, which a rename leaves as they are (the first 200 of 250):\nb.py:1:9: "
    ));
}

#[tokio::test]
async fn a_path_that_is_missing_or_outside_the_workspace_is_refused() {
    let workspace = workspace(&[("src/lib.rs", "fn old() {}\n")]);
    for (path, expected) in [
        ("lib.rs", "`lib.rs` does not exist; did you mean `src/lib.rs`?"),
        (
            "../x",
            "`../x` leads out of the workspace: give a path below its root, such as `src/main.rs`",
        ),
    ] {
        let result = run(&workspace, json!({"from": "old", "paths": [path]})).await;
        assert_eq!(error(&result), expected);
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_written_leaves_all_files_as_they_were() {
    // Files in `.git` can be read if their path is given, and are protected from changes.
    let workspace = workspace(&[("a.rs", "fn old() {}\n"), ("sub/.git/b.rs", "fn old() {}\n")]);
    let result = run(
        &workspace,
        json!({"from": "old", "to": "fresh", "paths": ["a.rs", "sub/.git/b.rs"], "preview": false}),
    )
    .await;

    assert!(
        error(&result).ends_with("; nothing was changed"),
        "{}",
        error(&result)
    );
    assert_eq!(result.changes, []);
    assert_eq!(content(&workspace, "a.rs"), "fn old() {}\n");
    assert_eq!(content(&workspace, "sub/.git/b.rs"), "fn old() {}\n");
}
