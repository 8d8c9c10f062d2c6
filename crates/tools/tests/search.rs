//! The `search` tool, called as an agent calls it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::folder::{Folder, error, text};
use dirigent_tools::{Tool, search};
use serde_json::{Value, json};

fn project() -> Folder {
    Folder::with(&[
        (".gitignore", b"/target\n*.log\n"),
        (".git/config", b"run()\n"),
        (".github/ci.yml", b"do: run()\n"),
        ("README.md", b"Call run() or rerun().\n"),
        ("src/a.rs", b"fn run() {}\nfn main() {\n    run();\n}\n"),
        ("src/b.rs", b"// Run it.\r\n"),
        ("target/out.rs", b"run()\n"),
        ("trace.log", b"run()\n"),
    ])
}

/// `path:line` of each match.
async fn places(folder: &Folder, parameters: Value) -> Vec<String> {
    let found = text(folder.call(search(), parameters).await);
    let mut files = found.split("\n\n");
    files.next();
    files.flat_map(places_in).collect()
}

fn places_in(file: &str) -> Vec<String> {
    let (path, lines) = file.split_once('\n').unwrap();
    let numbers = lines.lines().map(|line| line.split_once(':').unwrap().0);
    numbers.map(|number| format!("{path}:{number}")).collect()
}

#[tokio::test]
async fn search_takes_the_pattern_as_text_and_honours_ignore_files() {
    assert_eq!(
        text(project().call(search(), json!({"pattern": "run()"})).await),
        "4 matches in 3 files\n\n.github/ci.yml\n1:do: run()\n\nREADME.md\n1:Call run() or rerun().\n\n\
         src/a.rs\n1:fn run() {}\n3:    run();"
    );
}

#[tokio::test]
async fn search_matches_as_its_parameters_say() {
    let folder = project();
    let cases = [
        (json!({"pattern": "un", "whole_word": true}), vec![]),
        (
            json!({"pattern": "RUN IT", "case_insensitive": true}),
            vec!["src/b.rs:1"],
        ),
        (json!({"pattern": r"it\.$", "literal": false}), vec!["src/b.rs:1"]),
        (
            json!({"pattern": "main|Run", "literal": false}),
            vec!["src/a.rs:2", "src/b.rs:1"],
        ),
    ];
    for (parameters, expected) in cases {
        assert_eq!(
            places(&folder, parameters.clone()).await,
            expected,
            "{parameters}"
        );
    }
}

#[tokio::test]
async fn search_searches_only_the_given_paths() {
    let folder = project();
    let cases = [
        (json!(["src"]), vec!["src/a.rs:1", "src/a.rs:3"]),
        (
            json!(["README.md", "./src/"]),
            vec!["README.md:1", "src/a.rs:1", "src/a.rs:3"],
        ),
        (json!(["*.md", "src/**/b*"]), vec!["README.md:1"]),
        (
            json!(["*.{rs,yml}"]),
            vec![".github/ci.yml:1", "src/a.rs:1", "src/a.rs:3"],
        ),
        // Ignored, but given explicitly.
        (
            json!(["target", "trace.log"]),
            vec!["target/out.rs:1", "trace.log:1"],
        ),
    ];
    for (paths, expected) in cases {
        let parameters = json!({"pattern": "run()", "paths": paths});
        assert_eq!(places(&folder, parameters).await, expected, "{paths}");
    }
}

#[tokio::test]
async fn search_shows_the_lines_around_matches_once() {
    let folder = Folder::with(&[("a", b"1\n2\nx3\n4\nx5\n6\n7\n")]);
    let parameters = json!({"pattern": "x", "context_lines": 1});
    assert_eq!(
        text(folder.call(search(), parameters.clone()).await),
        "2 matches in 1 file\n\na\n2-2\n3:x3\n4-4\n5:x5\n6-6"
    );
    let folder = Folder::with(&[("a", b"x1\n2\n3\n4\nx5\n")]);
    assert_eq!(
        text(folder.call(search(), parameters).await),
        "2 matches in 1 file\n\na\n1:x1\n2-2\n--\n4-4\n5:x5"
    );
}

#[tokio::test]
async fn search_says_when_there_is_more_than_it_shows() {
    let folder = Folder::with(&[("a", b"x\nx\nx\n"), ("b", b"x\n")]);
    let found = text(
        folder
            .call(search(), json!({"pattern": "x", "max_results": 2}))
            .await,
    );
    assert_eq!(
        found,
        "4 matches in 2 files; only the first 2 are shown: narrow `paths` or the pattern, or raise `max_results`\n\na\n1:x\n2:x"
    );
}

#[tokio::test]
async fn search_shortens_long_lines_and_long_answers() {
    let line = format!("{}needle{}\n", "é".repeat(1000), "-".repeat(1000));
    let folder = Folder::with(&[("long", line.repeat(500).as_bytes())]);
    let found = text(
        folder
            .call(search(), json!({"pattern": "needle", "max_results": 500}))
            .await,
    );
    let text = found.lines().nth(3).unwrap().strip_prefix("1:").unwrap();
    assert!(
        text.starts_with("…éé") && text.contains("éneedle-") && text.ends_with("-…"),
        "{text}"
    );
    assert_eq!(text.chars().count(), 302);
    assert!(
        found.starts_with("500 matches in 1 file; only the first "),
        "{found:.200}"
    );
    assert!(found.len() < 100_000);
}

#[tokio::test]
async fn search_reads_every_encoding_and_skips_binary_files() {
    let utf16: Vec<u8> = "\u{feff}wörd\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let folder = Folder::with(&[
        ("binary", b"w\xc3\xb6rd\n\0"),
        ("latin1", b"a w\xf6rd\n"),
        ("utf16", &utf16),
        ("utf8", "\u{feff}wörd".as_bytes()),
    ]);
    assert_eq!(
        places(&folder, json!({"pattern": "wörd"})).await,
        ["latin1:1", "utf16:1", "utf8:1"]
    );
}

#[tokio::test]
async fn search_streams_files_that_are_too_big_for_memory() {
    let mut big = vec![b'\n'; 17 * 1024 * 1024];
    big.extend_from_slice(b"needle\n");
    let folder = Folder::with(&[("big", &big)]);
    assert_eq!(
        places(&folder, json!({"pattern": "needle"})).await,
        ["big:17825793"]
    );
}

#[tokio::test]
async fn search_looks_in_the_paths_that_exist_and_names_the_others() {
    let folder = project();
    let parameters = json!({"pattern": "run()", "paths": ["src/a.rs", "src/c.rs", "*.md"]});
    assert_eq!(
        text(folder.call(search(), parameters).await),
        "3 matches in 2 files\nNot searched: `src/c.rs` does not exist; did you mean `src/a.rs` or `src/b.rs`?\n\n\
         README.md\n1:Call run() or rerun().\n\nsrc/a.rs\n1:fn run() {}\n3:    run();"
    );
    let nowhere = json!({"pattern": "run()", "paths": ["scr", "tset"]});
    assert_eq!(
        error(folder.call(search(), nowhere).await),
        "`scr` does not exist; did you mean `src/`?"
    );
}

#[tokio::test]
async fn search_says_what_is_wrong_with_its_parameters() {
    let folder = project();
    let cases = [
        (json!({"pattern": ""}), "`pattern` is empty"),
        (json!({"pattern": "a\nb"}), "spans lines"),
        (json!({"pattern": "run(", "literal": false}), "unclosed group"),
        (json!({"pattern": "a", "paths": ["scr"]}), "`scr` does not exist"),
        (
            json!({"pattern": "a", "paths": ["*.[r"]}),
            "`*.[r` in `paths` is not a valid glob",
        ),
        (
            json!({"pattern": "a", "paths": ["../*"]}),
            "`../*` leads out of the workspace",
        ),
        (
            json!({"pattern": "a", "paths": ["/etc"]}),
            "`/etc` leads out of the workspace",
        ),
    ];
    for (parameters, said) in cases {
        let error = error(folder.call(search(), parameters.clone()).await);
        assert!(error.contains(said), "{parameters}: {error}");
    }
}

#[tokio::test]
async fn search_suggests_a_regular_expression_if_plain_text_finds_nothing() {
    let found = text(project().call(search(), json!({"pattern": "main|Run"})).await);
    assert!(found.starts_with("No matches\n"), "{found}");
    assert!(found.contains("`literal` to false"), "{found}");
}

#[tokio::test]
async fn a_cancelled_search_ends_with_a_failure() {
    let folder = project();
    let context = folder.context();
    context.cancel.cancel();
    let result = search().call(context, json!({"pattern": "run"})).await;
    assert!(error(result).contains("cancelled"));
}

#[cfg(unix)]
#[tokio::test]
async fn search_follows_no_link_and_waits_for_no_pipe() {
    let outside = Folder::with(&[("secret", b"run()\n")]);
    let folder = Folder::with(&[("a", b"run()\n")]);
    std::os::unix::fs::symlink(outside.path(""), folder.path("link")).unwrap();
    make_pipe(&folder.path("pipe"));
    assert_eq!(places(&folder, json!({"pattern": "run()"})).await, ["a:1"]);
    let error = error(
        folder
            .call(search(), json!({"pattern": "run()", "paths": ["link"]}))
            .await,
    );
    assert!(error.contains("leads out of the workspace"), "{error}");
}

#[cfg(unix)]
fn make_pipe(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}
