//! `apply_patch` on real files: where it finds hunks, what it refuses, and that a patch is applied completely or not at all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use crate::folder::{Folder, numbered, output};
use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::{SeenFile, SeenFiles, StateChange, ToolOutcome, ToolResult};
use dirigent_tools::{Tool, ToolContext, apply_patch, file_operations};
use serde_json::{Value, json};

async fn apply(folder: &Folder, patch: &str) -> ToolResult {
    folder.call(apply_patch(), json!({"patch": patch})).await
}

fn content(folder: &Folder, path: &str) -> String {
    std::fs::read_to_string(folder.path(path)).unwrap()
}

/// The code, the error and the output of a call that must fail and change nothing.
#[track_caller]
fn failed(result: ToolResult) -> (String, String, Value) {
    assert_eq!(result.changes, []);
    match result.outcome {
        ToolOutcome::Failure { code, error, output } => (code, error, output),
        ToolOutcome::Success { output } => panic!("the call succeeded: {output}"),
    }
}

fn told(result: &ToolResult) -> Vec<String> {
    result.changes.iter().map(StateChange::to_string).collect()
}

const NUMBERS: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

#[tokio::test]
async fn a_patch_of_git_edits_creates_deletes_and_renames_files_at_once() {
    let folder = Folder::with(&[
        ("src/a.rs", NUMBERS.as_bytes()),
        ("gone.txt", b"bye\n"),
        ("old name.txt", b"x\ny\n"),
    ]);
    let patch = "\
A message that comes first.

diff --git a/src/a.rs b/src/a.rs
index 111..222 100644
--- a/src/a.rs
+++ b/src/a.rs
@@ -1,4 +1,4 @@ fn heading()
 one
-two
+TWO
 three
 four
@@ -6,2 +6,3 @@
 six
+six and a half
 seven
diff --git a/deep/new.txt b/deep/new.txt
new file mode 100644
--- /dev/null
+++ b/deep/new.txt
@@ -0,0 +1,2 @@
+hello
+there
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/old name.txt b/new name.txt
similarity index 50%
rename from old name.txt
rename to new name.txt
--- a/old name.txt
+++ b/new name.txt
@@ -1,2 +1,2 @@
 x
-y
+z
-- 
2.47.3
";
    let result = apply(&folder, patch).await;
    assert_eq!(
        told(&result),
        [
            "edited src/a.rs",
            "created deep/new.txt",
            "deleted gone.txt",
            "moved old name.txt to new name.txt",
            "edited new name.txt"
        ]
    );
    assert_eq!(
        output(result),
        "edited src/a.rs at lines 1, 6 (+2 -1)\ncreated deep/new.txt at line 1 (+2 -0)\ndeleted gone.txt at line 1 (+0 -1)\n\
         moved old name.txt to new name.txt at line 1 (+1 -1)"
    );
    assert_eq!(
        content(&folder, "src/a.rs"),
        "one\nTWO\nthree\nfour\nfive\nsix\nsix and a half\nseven\n"
    );
    assert_eq!(content(&folder, "deep/new.txt"), "hello\nthere\n");
    assert!(!folder.path("gone.txt").exists() && !folder.path("old name.txt").exists());
    assert_eq!(content(&folder, "new name.txt"), "x\nz\n");
}

#[tokio::test]
async fn each_change_has_its_diff() {
    let folder = Folder::with(&[("a.txt", b"one\ntwo\n")]);
    let result = apply(
        &folder,
        "--- a.txt\t2026-01-01\n+++ a.txt\n@@ -2 +2 @@\n-two\n+2\n",
    )
    .await;
    let [StateChange::FileEdited { path, diff, .. }] = &result.changes[..] else {
        panic!("{result:?}")
    };
    assert_eq!(path, "a.txt");
    assert_eq!(
        diff.as_deref(),
        Some("--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
    );
}

/// Applies these hunks to a file, and checks its content.
async fn check(before: &str, hunks: &str, after: &str) {
    let folder = Folder::with(&[("f", before.as_bytes())]);
    let result = apply(&folder, &format!("--- a/f\n+++ b/f\n{hunks}")).await;
    assert!(result.succeeded(), "{result:?}");
    assert_eq!(content(&folder, "f"), after, "{hunks}");
}

#[tokio::test]
async fn wrong_line_numbers_and_counts_do_not_matter() {
    let after = "one\ntwo\nthree\nfour\nFIVE\nsix\nseven\n";
    for header in [
        "@@ -4,3 +4,3 @@",
        "@@ -1,3 +1,3 @@",
        "@@ -900,3 +900,3 @@",
        "@@ -4,9 +4,2 @@",
        "@@ -4,1 +4,1 @@",
        "@@",
        "@@ ... @@",
    ] {
        check(NUMBERS, &format!("{header}\n four\n-five\n+FIVE\n six\n"), after).await;
    }
}

#[tokio::test]
async fn wrong_line_counts_do_not_affect_the_next_file_of_a_patch() {
    let folder = Folder::with(&[("f", NUMBERS.as_bytes()), ("g", b"x\n")]);
    let patch =
        "--- a/f\n+++ b/f\n@@ -1,7 +1,9 @@\n one\n-two\n+TWO\n\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n```\n";
    let result = apply(&folder, patch).await;
    assert_eq!(told(&result), ["edited f", "edited g"]);
    assert_eq!(content(&folder, "f"), NUMBERS.replace("two", "TWO"));
}

#[tokio::test]
async fn lines_that_look_like_headers_belong_to_the_hunk_if_its_counts_say_so() {
    check("-- a\nb\n", "@@ -1,2 +1,2 @@\n--- a\n+++ a\n b\n", "++ a\nb\n").await;
}

#[tokio::test]
async fn an_empty_context_line_without_its_leading_space_matches() {
    check("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", "a\n\nc\n").await;
}

#[tokio::test]
async fn a_line_number_selects_one_of_several_matching_places() {
    let before = "{\nx\n}\n{\nx\n}\n{\nx\n}\n";
    check(
        before,
        "@@ -4,3 +4,3 @@\n {\n-x\n+y\n }\n",
        "{\nx\n}\n{\ny\n}\n{\nx\n}\n",
    )
    .await;
    // The hunk before shows by how much the line numbers are wrong.
    let numbered = format!("head\n\n{before}");
    check(
        &numbered,
        "@@ -11,1 +11,1 @@\n-head\n+HEAD\n@@ -16,3 +16,3 @@\n {\n-x\n+y\n }\n",
        "HEAD\n\n{\nx\n}\n{\ny\n}\n{\nx\n}\n",
    )
    .await;
}

#[tokio::test]
async fn the_error_for_an_ambiguous_hunk_lists_its_matching_lines() {
    let folder = Folder::with(&[("f", b"{\nx\n}\n{\nx\n}\n")]);
    let result = apply(&folder, "--- a/f\n+++ b/f\n@@ -9,3 +9,3 @@\n {\n-x\n+y\n }\n").await;
    assert_eq!(
        failed(result),
        (
            "ambiguous".to_owned(),
            "hunk 1 for `f` matches at lines 1, 4: correct its line number, or add context lines; nothing was changed"
                .to_owned(),
            Value::Null,
        )
    );
}

#[tokio::test]
async fn an_absurd_line_number_does_not_affect_the_next_hunk() {
    let folder = Folder::with(&[("f", NUMBERS.as_bytes())]);
    let patch = "--- a/f\n+++ b/f\n@@ -9223372036854775808,1 +1,1 @@\n-one\n+ONE\n@@ -18446744073709551615 +3 @@\n-three\n+THREE\n\
                 @@ -5 +5 @@\n-five\n+FIVE\n";
    assert!(apply(&folder, patch).await.succeeded());
    assert_eq!(content(&folder, "f"), "ONE\ntwo\nTHREE\nfour\nFIVE\nsix\nseven\n");
}

#[tokio::test]
async fn a_patch_whose_places_take_too_long_to_find_is_refused() {
    let line = "x".repeat(2_000);
    let folder = Folder::with(&[("f", format!("{line}\n").repeat(3_000).as_bytes())]);
    let patch = format!(
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n{}-y\n",
        format!(" {line}\n").repeat(1_000)
    );
    let (code, error, _) = failed(apply(&folder, &patch).await);
    assert_eq!(code, "too_big");
    assert!(error.contains("split the patch into smaller patches"), "{error}");
}

#[tokio::test]
async fn the_error_for_wrong_context_shows_the_actual_lines() {
    let folder = Folder::with(&[("f", NUMBERS.as_bytes())]);
    let result = apply(
        &folder,
        "--- a/f\n+++ b/f\n@@ -4,3 +4,3 @@\n four\n-fife\n+FIVE\n six\n",
    )
    .await;
    assert_eq!(
        failed(result),
        (
            "no_match".to_owned(),
            "hunk 1 for `f` does not match: in the most similar place, line 5 is `five` where the patch has `fife`; nothing was changed"
                .to_owned(),
            json!(numbered(1, "one\ntwo\nthree\nfour\nfive\nsix\nseven")),
        )
    );
    assert_eq!(content(&folder, "f"), NUMBERS);
}

#[tokio::test]
async fn context_with_different_whitespace_does_not_match() {
    let folder = Folder::with(&[("f", b"a\n    b\nc\n")]);
    let result = apply(&folder, "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-  b\n+  B\n c\n").await;
    let (code, error, _) = failed(result);
    assert_eq!(code, "no_match");
    assert!(
        error.contains("line 2 is `    b` where the patch has `  b`"),
        "{error}"
    );
}

#[tokio::test]
async fn the_error_for_an_already_applied_patch_says_so() {
    let folder = Folder::with(&[("f", NUMBERS.as_bytes())]);
    let patch = "--- a/f\n+++ b/f\n@@ -4,3 +4,3 @@\n four\n-five\n+FIVE\n six\n";
    assert!(apply(&folder, patch).await.succeeded());
    let (code, error, _) = failed(apply(&folder, patch).await);
    assert_eq!(code, "no_match");
    assert!(
        error.contains("its new lines are already in the file, at line 4"),
        "{error}"
    );
}

#[tokio::test]
async fn line_endings_and_encoding_stay_unchanged() {
    let folder = Folder::with(&[
        ("crlf.txt", b"a\r\nb\r\nc\r\n"),
        ("latin.txt", b"caf\xe9\nb\n"),
        ("mark.txt", b"\xef\xbb\xbfa\nb\n"),
    ]);
    let patch = "\
--- a/crlf.txt
+++ b/crlf.txt
@@ -1,3 +1,4 @@
 a
-b
+B
+bb
 c
--- a/latin.txt
+++ b/latin.txt
@@ -1,2 +1,2 @@
 café
-b
+bé
--- a/mark.txt
+++ b/mark.txt
@@ -1,2 +1,2 @@
-a
+A
 b
";
    assert!(apply(&folder, patch).await.succeeded());
    let bytes = |path| std::fs::read(folder.path(path)).unwrap();
    assert_eq!(bytes("crlf.txt"), b"a\r\nB\r\nbb\r\nc\r\n");
    assert_eq!(bytes("latin.txt"), b"caf\xe9\nb\xe9\n");
    assert_eq!(bytes("mark.txt"), b"\xef\xbb\xbfA\nb\n");
}

#[tokio::test]
async fn the_final_line_break_follows_the_patch_or_stays_unchanged() {
    check("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "a\nc").await;
    check("a\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n", "a\nb\nc").await;
    check(
        "a\nb",
        "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n",
        "a\nb\n",
    )
    .await;
    check(
        "a\nb\n",
        "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n",
        "a\nb",
    )
    .await;
    check("", "@@ -0,0 +1 @@\n+a\n", "a\n").await;
}

#[tokio::test]
async fn if_a_patch_does_not_match_one_file_no_file_is_changed() {
    let folder = Folder::with(&[("f", b"x\n"), ("g", b"x\n")]);
    let patch = "\
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+n
--- a/f
+++ b/f
@@ -1 +1 @@
-x
+y
--- a/g
+++ b/g
@@ -1 +1 @@
-z
+y
";
    let (code, ..) = failed(apply(&folder, patch).await);
    assert_eq!(code, "no_match");
    assert!(!folder.path("new").exists());
    assert_eq!(content(&folder, "f"), "x\n");
}

#[tokio::test]
async fn if_one_file_cannot_be_written_the_others_are_reverted() {
    let folder = Folder::with(&[("f", b"x\n"), ("gone", b"bye\n"), (".git/config", b"x\n")]);
    let program = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path("gone"), program).unwrap();
    let patch = "\
--- a/f
+++ b/f
@@ -1 +1 @@
-x
+y
--- /dev/null
+++ b/made/for/it
@@ -0,0 +1 @@
+n
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-bye
--- a/.git/config
+++ b/.git/config
@@ -1 +1 @@
-x
+y
";
    let (code, error, _) = failed(apply(&folder, patch).await);
    assert_eq!(code, "protected");
    assert!(error.ends_with("; nothing was changed"), "{error}");
    assert_eq!(content(&folder, "f"), "x\n");
    assert_eq!(content(&folder, "gone"), "bye\n");
    let mode = folder.path("gone").metadata().unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o755);
    assert!(!folder.path("made").exists());
}

#[tokio::test]
async fn an_invalid_patch_is_refused_with_the_reason() {
    let folder = Folder::with(&[("f", b"a\nb\n"), ("g", b"a\nb\n")]);
    for (patch, code, wrong) in [
        ("", "bad_patch", "`patch` contains no unified diff"),
        (
            "*** Begin Patch\n*** Update File: f\n-a\n+b\n",
            "bad_patch",
            "`patch` contains no unified diff",
        ),
        (
            "@@ -1 +1 @@\n-a\n+b\n",
            "bad_patch",
            "line 1 of the patch begins a hunk before any file name",
        ),
        (
            "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\na\n-b\n+c\n",
            "bad_patch",
            "line 4 of the patch, `a`, is not a hunk line",
        ),
        (
            "--- a/f\n+++ b/f\n@@ -1 +1 @@\n a\n",
            "bad_patch",
            "the hunk at line 3 of the patch changes nothing",
        ),
        ("--- a/f\n+++ b/f\n", "bad_patch", "the patch has no hunk for `f`"),
        (
            "--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+c\n",
            "bad_patch",
            "hunk 1 for `f` only adds lines",
        ),
        (
            "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+c\n",
            "bad_patch",
            "`f` and `g` are different files",
        ),
        (
            "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\n",
            "bad_patch",
            "the patch changes nothing in `f`",
        ),
        (
            "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+c\n@@ -1 +1 @@\n-a\n+d\n",
            "no_match",
            "matches only at line 1, which another hunk changes",
        ),
        (
            "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
            "no_match",
            "the patch deletes `f`, but does not remove all of its lines",
        ),
        (
            "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n",
            "exists",
            "`f` exists already",
        ),
        (
            "--- a/no\n+++ b/no\n@@ -1 +1 @@\n-a\n+c\n",
            "not_found",
            "`no` does not exist",
        ),
        (
            "--- a/../f\n+++ b/../f\n@@ -1 +1 @@\n-a\n+c\n",
            "outside_workspace",
            "leads out of the workspace",
        ),
        (
            "--- /dev/null\n+++ /etc/new\n@@ -0,0 +1 @@\n+a\n",
            "outside_workspace",
            "leads out of the workspace",
        ),
        (
            "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
            "bad_patch",
            "the mode of `f` cannot be changed",
        ),
        (
            "diff --git a/f b/f\nGIT binary patch\nliteral 3\nabc\n",
            "bad_patch",
            "the patch contains binary data for `f`",
        ),
        (
            "diff --git a/f b/h\nrename from f\nrename to g\n",
            "exists",
            "`g` exists already",
        ),
    ] {
        let (got, error, _) = failed(apply(&folder, patch).await);
        assert_eq!(got, code, "{patch}: {error}");
        assert!(error.contains(wrong), "{patch}: {error}");
    }
    assert_eq!(content(&folder, "f"), "a\nb\n");
    assert_eq!(content(&folder, "g"), "a\nb\n");
}

#[tokio::test]
async fn only_files_in_paths_are_changed() {
    let folder = Folder::with(&[("src/f", b"a\n"), ("srcs", b"a\n")]);
    let patch = "--- a/srcs\n+++ b/srcs\n@@ -1 +1 @@\n-a\n+b\n";
    let refused = folder
        .call(apply_patch(), json!({"patch": patch, "paths": ["src"]}))
        .await;
    assert_eq!(failed(refused).0, "outside_paths");
    let done = folder
        .call(
            apply_patch(),
            json!({"patch": patch.replace("srcs", "src/f"), "paths": ["src"]}),
        )
        .await;
    assert_eq!(told(&done), ["edited src/f"]);
}

#[tokio::test]
async fn paor_5_a_file_that_has_changed_since_it_was_seen_is_not_changed() {
    let folder = Folder::with(&[("f", b"a\nb\n")]);
    let seen: SeenFiles = [SeenFile {
        path: "f".to_owned(),
        digest: Some(sha256_hex(b"a\nB\n")),
        unseen_from: None,
    }]
    .map(|seen| (seen.path.clone(), seen))
    .into();
    let context = ToolContext {
        seen: Some(Arc::new(seen)),
        ..folder.context()
    };
    let patch = json!({"patch": "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n"});
    let refused = apply_patch().call(context, patch.clone()).await;
    let known = refused.seen.clone();
    let (code, _, output) = failed(refused);
    assert_eq!(code, "stale");
    assert_eq!(output, "Lines 1-2 of 2\n1\ta\n2\tb\n");

    let context = ToolContext {
        seen: Some(Arc::new(
            known.into_iter().map(|seen| (seen.path.clone(), seen)).collect(),
        )),
        ..folder.context()
    };
    let applied = apply_patch().call(context, patch).await;
    assert_eq!(content(&folder, "f"), "A\nb\n");
    // The agent knows the content that its patch gave the file, so it may continue.
    let context = ToolContext {
        seen: Some(Arc::new(
            applied
                .seen
                .into_iter()
                .map(|seen| (seen.path.clone(), seen))
                .collect(),
        )),
        ..folder.context()
    };
    let next = json!({"operation": "write", "path": "f", "content": "new\n"});
    assert!(file_operations().call(context, next).await.succeeded());
}

#[tokio::test]
async fn a_cancelled_patch_changes_nothing() {
    let folder = Folder::with(&[("f", b"a\n")]);
    let context = folder.context();
    context.cancel.cancel();
    let patch = json!({"patch": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"});
    assert!(!apply_patch().call(context, patch).await.succeeded());
    assert_eq!(content(&folder, "f"), "a\n");
}

#[test]
fn the_example_parameters_are_a_valid_patch() {
    let spec = apply_patch().spec();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let folder = Folder::with(&[(
        "src/port.rs",
        b"//! Ports.\n\n/// Where the server listens.\npub const PORT: u16 = 8080;\n",
    )]);
    let result = runtime.block_on(folder.call(apply_patch(), spec.example));
    assert!(result.succeeded(), "{result:?}");
}
