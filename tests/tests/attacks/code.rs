//! The tools for code: a patch changes nothing but the files of the workspace, and git is looked at without running anything of the
//! repository's.

use std::process::Command;

use dirigent_tests::attack::{Attack, Call, Observation, Scene, Told, check, nothing_more};
use serde_json::{Value, json};

fn patch(text: &str) -> Call {
    ("apply_patch", json!({"patch": text}))
}

fn git(parameters: Value) -> Call {
    ("git", parameters)
}

/// A new file of that path.
fn makes(path: &str) -> Call {
    patch(&format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+mine\n"))
}

#[test]
fn a_patch_changes_only_what_a_tool_may_change() {
    check([
        Attack {
            name: "a_patch_makes_no_file_outside",
            made: |_| makes("b/../../outside/new.txt"),
            told: Told::Refused("outside_workspace", &["leads out of the workspace"]),
            then: nothing_more,
        },
        Attack {
            name: "a_patch_makes_no_file_at_an_absolute_path",
            made: |scene| makes(&scene.outside_text("new.txt")),
            told: Told::Refused("outside_workspace", &["leads out of the workspace"]),
            then: nothing_more,
        },
        Attack {
            name: "a_patch_makes_no_file_below_a_link_out",
            made: |scene| {
                scene.link(scene.outside(""), "docs");
                makes("b/docs/new.txt")
            },
            told: Told::Refused("outside_workspace", &["leads out of the workspace"]),
            then: nothing_more,
        },
        Attack {
            name: "a_patch_renames_no_file_out",
            made: |scene| {
                scene.file("notes.txt", "notes\n");
                patch(
                    "diff --git a/notes.txt b/../outside/notes.txt\nrename from notes.txt\nrename to ../outside/notes.txt\n",
                )
            },
            told: Told::Refused("outside_workspace", &["leads out of the workspace"]),
            then: |scene, _| assert!(scene.is_there("notes.txt")),
        },
        Attack {
            name: "a_patch_makes_no_hook",
            made: |scene| {
                repository(scene);
                makes("b/.git/hooks/pre-commit")
            },
            told: Told::Refused("protected", &[".git"]),
            then: |scene, _| assert!(!scene.is_there(".git/hooks/pre-commit")),
        },
        Attack {
            name: "a_patch_makes_no_agent",
            made: |_| makes("b/.dirigent/agents/helper.md"),
            told: Told::Refused("protected", &[".dirigent"]),
            then: |scene, _| assert!(!scene.is_there(".dirigent")),
        },
        Attack {
            name: "a_patch_makes_no_link",
            made: |_| {
                patch(
                    "diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
                )
            },
            told: Told::Either,
            then: |scene, _| {
                assert!(
                    scene
                        .work("link")
                        .symlink_metadata()
                        .is_ok_and(|found| found.is_file())
                        || !scene.is_there("link")
                )
            },
        },
        Attack {
            name: "a_patch_that_is_wrong_in_one_file_changes_none",
            made: |scene| {
                scene.file("a.txt", "one\n");
                scene.file("b.txt", "two\n");
                patch(
                    "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+mine\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-three\n+mine\n",
                )
            },
            told: Told::Refused("no_match", &["b.txt"]),
            then: |scene, _| assert_eq!(scene.place.read("a.txt"), "one\n"),
        },
        Attack {
            name: "a_patch_that_is_outside_in_one_file_changes_none",
            made: |scene| {
                scene.file("a.txt", "one\n");
                patch(
                    "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+mine\n--- /dev/null\n+++ b/../outside/new.txt\n@@ -0,0 +1 @@\n+mine\n",
                )
            },
            told: Told::Refused("outside_workspace", &[]),
            then: |scene, _| assert_eq!(scene.place.read("a.txt"), "one\n"),
        },
        Attack {
            name: "a_patch_whose_numbers_are_too_large_is_refused",
            made: |scene| {
                scene.file("a.txt", "one\n");
                patch(
                    "--- a/a.txt\n+++ b/a.txt\n@@ -99999999999999999999,99999999999999999999 +18446744073709551615,1 @@\n-nothing\n+mine\n",
                )
            },
            told: Told::Either,
            then: |scene, seen| {
                assert_eq!(seen.told["success"], false);
                assert_eq!(scene.place.read("a.txt"), "one\n");
            },
        },
        Attack {
            name: "a_patch_of_a_pipe_is_not_waited_for",
            made: |scene| {
                let made = Command::new("mkfifo").arg(scene.work("a.txt")).status();
                assert!(made.unwrap().success());
                patch("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+mine\n")
            },
            told: Told::Refused("not_a_file", &["pipe"]),
            then: nothing_more,
        },
    ]);
}

#[test]
fn git_runs_nothing_of_the_repositorys() {
    check([
        Attack {
            name: "a_monitor_of_the_repository_is_not_run",
            made: |scene| {
                repository(scene);
                configure(scene, "core.fsmonitor", "touch pwned; false");
                git(json!({"command": "status"}))
            },
            told: Told::Bounded(&[]),
            then: not_run,
        },
        Attack {
            name: "a_diff_program_of_the_repository_is_not_run",
            made: |scene| {
                changed(scene);
                configure(scene, "diff.external", "touch pwned #");
                git(json!({"command": "diff"}))
            },
            told: Told::Bounded(&[]),
            then: not_run,
        },
        Attack {
            name: "a_text_filter_of_the_repository_is_not_run",
            made: |scene| {
                changed(scene);
                scene.file(".gitattributes", "*.txt diff=evil filter=evil\n");
                configure(scene, "diff.evil.textconv", "touch pwned; cat");
                configure(scene, "diff.evil.command", "touch pwned #");
                configure(scene, "filter.evil.clean", "touch pwned; cat");
                configure(scene, "filter.evil.smudge", "touch pwned; cat");
                git(json!({"command": "diff"}))
            },
            told: Told::Either,
            then: not_run,
        },
        Attack {
            name: "a_filter_of_the_repository_is_not_run_for_a_status",
            made: |scene| {
                changed(scene);
                scene.file(".gitattributes", "*.txt filter=evil\n");
                configure(scene, "filter.evil.clean", "touch pwned; cat");
                configure(scene, "filter.evil.process", "touch pwned");
                git(json!({"command": "status"}))
            },
            told: Told::Either,
            then: not_run,
        },
        Attack {
            name: "a_pager_or_an_alias_of_the_repository_is_not_run",
            made: |scene| {
                repository(scene);
                for (name, value) in [
                    ("core.pager", "touch pwned; cat"),
                    ("pager.log", "touch pwned; cat"),
                    ("alias.log", "!touch pwned"),
                    ("core.sshCommand", "touch pwned"),
                    ("core.editor", "touch pwned"),
                    ("gpg.program", "touch pwned"),
                    ("log.showSignature", "true"),
                ] {
                    configure(scene, name, value);
                }
                git(json!({"command": "log"}))
            },
            told: Told::Either,
            then: not_run,
        },
        Attack {
            name: "a_hook_of_the_repository_is_not_run",
            made: |scene| {
                repository(scene);
                let hook = "#!/bin/sh\ntouch pwned\n";
                for name in ["post-index-change", "fsmonitor-watchman", "reference-transaction"] {
                    scene.file(&format!(".git/hooks/{name}"), hook);
                    make_executable(scene, &format!(".git/hooks/{name}"));
                }
                git(json!({"command": "status"}))
            },
            told: Told::Bounded(&[]),
            then: not_run,
        },
        Attack {
            name: "a_configuration_that_includes_another_reads_no_secret",
            made: |scene| {
                repository(scene);
                configure(scene, "include.path", &scene.outside_text("secret.txt"));
                git(json!({"command": "status"}))
            },
            told: Told::Either,
            then: not_run,
        },
        Attack {
            name: "a_repository_whose_folder_is_elsewhere_is_not_looked_at",
            made: |scene| {
                run_git(&scene.outside(""), &["init", "-q"]);
                scene.file(".git", format!("gitdir: {}\n", scene.outside_text(".git")));
                git(json!({"command": "status"}))
            },
            told: Told::Refused("outside_workspace", &["outside the workspace"]),
            then: nothing_more,
        },
        Attack {
            name: "a_work_tree_that_is_elsewhere_is_not_shown",
            made: |scene| {
                repository(scene);
                configure(scene, "core.worktree", &scene.outside_text(""));
                git(json!({"command": "diff"}))
            },
            told: Told::Either,
            then: not_run,
        },
    ]);
}

#[test]
fn what_is_asked_of_git_is_never_an_option() {
    check([
        Attack {
            name: "a_revision_that_is_an_option_is_refused",
            made: |scene| {
                changed(scene);
                git(json!({"command": "diff", "revision": "--output=pwned"}))
            },
            told: Told::Refused("bad_parameters", &["--output=pwned"]),
            then: not_run,
        },
        Attack {
            name: "a_revision_that_is_an_option_is_refused_in_a_log",
            made: |scene| {
                changed(scene);
                git(json!({"command": "log", "revision": "--output=pwned"}))
            },
            told: Told::Refused("bad_parameters", &["--output=pwned"]),
            then: not_run,
        },
        Attack {
            name: "a_path_that_is_an_option_is_a_path",
            made: |scene| {
                changed(scene);
                git(json!({"command": "diff", "paths": ["--output=pwned"]}))
            },
            told: Told::Either,
            then: not_run,
        },
        Attack {
            name: "a_file_outside_is_not_compared",
            made: |scene| {
                changed(scene);
                git(json!({"command": "diff", "paths": ["../outside/secret.txt"]}))
            },
            told: Told::Refused("outside_workspace", &[]),
            then: not_run,
        },
    ]);
}

#[test]
fn outputs_are_read_by_the_run_that_has_them() {
    check([
        Attack {
            name: "an_output_of_another_run_is_not_read",
            made: |_| ("read_output", json!({"handle": "a9.9"})),
            told: Told::Refused("not_found", &["a9.9"]),
            then: nothing_more,
        },
        Attack {
            name: "a_handle_that_is_a_path_is_refused",
            made: |_| ("read_output", json!({"handle": "../../journal.db"})),
            told: Told::Refused("bad_parameters", &["is not a handle"]),
            then: nothing_more,
        },
        Attack {
            name: "a_pattern_that_grows_without_an_end_is_refused",
            made: |scene| {
                scene.file("notes.txt", "notes");
                scene.before([(
                    "file_operations",
                    json!({"operation": "read", "path": "notes.txt"}),
                )]);
                (
                    "read_output",
                    json!({"handle": "a2.1", "pattern": "((a{1000}){1000}){1000}"}),
                )
            },
            told: Told::Refused("bad_parameters", &[]),
            then: nothing_more,
        },
    ]);
}

#[test]
fn symbols_are_bounded_and_of_the_workspace() {
    check([
        Attack {
            name: "code_that_is_nested_without_an_end_is_read",
            made: |scene| {
                scene.file("deep.rs", format!("fn deep() {{ {} }}\n", "(".repeat(1_000_000)));
                ("list_symbols", json!({"path": "deep.rs"}))
            },
            told: Told::Either,
            then: nothing_more,
        },
        Attack {
            name: "symbols_of_a_file_outside_are_not_listed",
            made: |scene| {
                scene.link(scene.outside("secret.txt"), "secret.rs");
                ("list_symbols", json!({"path": "secret.rs"}))
            },
            told: Told::Refused("outside_workspace", &[]),
            then: nothing_more,
        },
        Attack {
            name: "symbols_of_a_pipe_are_not_waited_for",
            made: |scene| {
                let made = Command::new("mkfifo").arg(scene.work("pipe.rs")).status();
                assert!(made.unwrap().success());
                ("find_definition", json!({"name": "main"}))
            },
            told: Told::Either,
            then: nothing_more,
        },
        Attack {
            name: "many_symbols_are_cut",
            made: |scene| {
                let many: String = (0..100_000)
                    .map(|number| format!("fn f{number}() {{}}\n"))
                    .collect();
                scene.file("many.rs", many);
                ("list_symbols", json!({"path": "many.rs"}))
            },
            told: Told::Bounded(&[]),
            then: |_, seen| assert!(seen.told.to_string().len() < 200_000),
        },
    ]);
}

/// A repository with one commit.
fn repository(scene: &Scene) {
    scene.file("notes.txt", "notes\n");
    let work = scene.work("");
    run_git(&work, &["init", "-q"]);
    run_git(&work, &["add", "notes.txt"]);
    run_git(
        &work,
        &[
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@example.test",
            "commit",
            "-q",
            "-m",
            "Notes",
        ],
    );
}

/// The same with a change that is not committed.
fn changed(scene: &Scene) {
    repository(scene);
    scene.file("notes.txt", "other notes\n");
}

fn configure(scene: &Scene, name: &str, value: &str) {
    run_git(&scene.work(""), &["config", name, value]);
}

fn run_git(folder: &std::path::Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.current_dir(folder)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let done = git.args(arguments).output().unwrap();
    assert!(
        done.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

fn make_executable(scene: &Scene, path: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(scene.work(path), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Nothing of the repository's was run: it would have left a file.
fn not_run(scene: &Scene, _: &Observation) {
    assert!(!scene.is_there("pwned"));
}
