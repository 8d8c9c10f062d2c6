//! Attacks on the tools for code: a patch changes only what a tool may change, git shows nothing from outside, and no source keeps a tool
//! busy.

use std::process::Command;

use serde_json::json;

use super::{Call, Scene};

fn patch(text: &str) -> Call {
    ("apply_patch", json!({"patch": text}))
}

/// A patch that creates a file.
fn creates(path: &str) -> Call {
    patch(&format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+mine\n"))
}

#[tokio::test]
async fn patches_of_protected_outside_or_special_files_are_refused() {
    let scene = Scene::with(&[("a.txt", b"one\n"), (".git/HEAD", b"ref: refs/heads/main\n")]);
    scene.link(scene.outside.path(""), "docs");
    scene.pipe("pipe");
    let absolute = scene.outside.path("new.txt");
    let outside = [
        creates("b/../../outside/new.txt"),
        creates(absolute.to_str().unwrap()),
        creates("b/docs/new.txt"),
        patch("diff --git a/a.txt b/../new.txt\nrename from a.txt\nrename to ../new.txt\n"),
        patch(
            "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+mine\n--- /dev/null\n+++ b/docs/new.txt\n@@ -0,0 +1 @@\n+mine\n",
        ),
    ];
    let protected = [
        creates("b/.git/hooks/pre-commit"),
        creates("b/.dirigent/agents/helper.md"),
    ];
    let link = patch(
        "diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
    );
    let huge = "99999999999999999999";
    let huge = patch(&format!(
        "--- a/a.txt\n+++ b/a.txt\n@@ -{huge},{huge} +{huge},1 @@\n-no\n+mine\n"
    ));
    let pipe = patch("--- a/pipe\n+++ b/pipe\n@@ -1 +1 @@\n-one\n+mine\n");
    scene
        .check(&[
            ("outside_workspace", "leads out of the workspace", &outside),
            ("protected", "read-only to tools", &protected),
            ("no_match", "does not match", &[huge]),
            ("not_a_file", "named pipe", &[pipe]),
            ("done", "", &[link]),
        ])
        .await;
    assert!(scene.work.path("link").symlink_metadata().unwrap().is_file());
}

#[tokio::test]
async fn repository_settings_that_lead_outside_reveal_nothing() {
    for (setting, code) in [("include.path", "exited"), ("core.worktree", "done")] {
        let scene = Scene::with(&[("notes.txt", b"notes\n")]);
        let file = match setting {
            "include.path" => "secret",
            _ => "",
        };
        let outside = scene.outside.path(file);
        let identity = ["-c", "user.name=A", "-c", "user.email=a@example.test"];
        for arguments in [
            &["init", "-q"][..],
            &["add", "notes.txt"],
            &["commit", "-q", "-m", "Notes"],
            &["config", setting, outside.to_str().unwrap()],
        ] {
            let mut git = Command::new("git");
            git.env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_NOSYSTEM", "1");
            let made = git
                .current_dir(scene.work.path(""))
                .args(identity)
                .args(arguments)
                .status();
            assert!(made.unwrap().success());
        }
        let calls = ["status", "diff"].map(|command| ("git", json!({"command": command})));
        scene.check(&[(code, "", &calls)]).await;
    }
}

#[tokio::test]
async fn deeply_nested_long_linked_or_piped_sources_are_handled() {
    let nested = format!("fn deep() {{ {} }}\n", "(".repeat(1_000_000));
    let many: String = (0..100_000)
        .map(|number| format!("fn f{number}() {{}}\n"))
        .collect();
    let scene = Scene::with(&[("deep.rs", nested.as_bytes()), ("many.rs", many.as_bytes())]);
    scene.link(scene.outside.path("secret"), "secret.rs");
    scene.pipe("pipe.rs");
    let symbols = |path: &str| ("list_symbols", json!({"path": path}));
    let find = |name: &str| ("find_definition", json!({"name": name}));
    scene
        .check(&[
            ("done", "", &[symbols("deep.rs")]),
            ("done", "100000 symbols; only the first ", &[symbols("many.rs")]),
            ("outside_workspace", "", &[symbols("secret.rs")]),
            (
                "done",
                "1 symbol\\n\\nmany.rs\\n8 function f7 | fn f7()",
                &[find("f7")],
            ),
        ])
        .await;
}
