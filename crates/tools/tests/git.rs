//! `git` on real repositories, including repositories whose settings name programs to run.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;

use crate::folder::{Folder, text};
use dirigent_core::tool::{ToolOutcome, ToolResult};
use dirigent_tools::{Confinement, Sandbox, Tool, ToolContext, git, repository_summary};
use serde_json::{Value, json};

/// Runs git as a user does, without the settings and variables of the user who runs the tests.
pub(super) fn users_git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    git
}

pub(super) fn run(folder: &Path, words: &[&str]) {
    let done = users_git(folder)
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
        .args([
            "-c",
            "init.defaultBranch=main",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(words)
        .env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
        .env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z")
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
}

/// A repository with two commits and an uncommitted change of `a.txt`.
pub(super) fn repository() -> Folder {
    let folder = Folder::with(&[("a.txt", b"one\ntwo\n"), ("src/b.txt", b"b\n")]);
    let root = folder.path(".");
    run(&root, &["init", "-q"]);
    run(&root, &["add", "."]);
    run(&root, &["commit", "-q", "-m", "First\n\nWith a body."]);
    std::fs::write(folder.path("a.txt"), "one\n2\n").unwrap();
    run(&root, &["commit", "-q", "-a", "-m", "Second"]);
    std::fs::write(folder.path("a.txt"), "one\n2\nthree\n").unwrap();
    folder
}

async fn ask(folder: &Folder, parameters: Value) -> ToolResult {
    folder.call(git(&Sandbox::default()), parameters).await
}

async fn says(folder: &Folder, parameters: Value) -> String {
    text(ask(folder, parameters).await)
}

#[track_caller]
fn failed(result: ToolResult) -> (String, String) {
    match result.outcome {
        ToolOutcome::Failure { code, error, .. } => (code, error),
        ToolOutcome::Success { output } => panic!("it succeeded: {output}"),
    }
}

#[tokio::test]
async fn status_names_each_file_with_its_states() {
    let folder = repository();
    run(&folder.path("."), &["mv", "src/b.txt", "src/c d.txt"]);
    std::fs::write(folder.path("new.txt"), "n\n").unwrap();
    let status = says(&folder, json!({"command": "status"})).await;
    let (head, files) = status.split_once('\n').unwrap();
    assert_eq!(head.strip_prefix("On main at ").unwrap().len(), 12);
    assert_eq!(files, " M a.txt\nR  src/b.txt -> src/c d.txt\n?? new.txt");
    let below = says(&folder, json!({"command": "status", "paths": ["src"]})).await;
    assert_eq!(below.lines().count(), 2);
}

#[tokio::test]
async fn diff_shows_the_working_tree_the_index_and_revisions() {
    let folder = repository();
    let diff = async |parameters: Value| says(&folder, parameters).await;
    let working = diff(json!({"command": "diff"})).await;
    assert!(
        working.contains("--- a/a.txt\n+++ b/a.txt\n") && working.ends_with(" 2\n+three\n"),
        "{working}"
    );
    assert_eq!(
        diff(json!({"command": "diff", "staged": true})).await,
        "No differences"
    );
    assert_eq!(
        diff(json!({"command": "diff", "paths": ["src"]})).await,
        "No differences"
    );
    let both = diff(json!({"command": "diff", "revision": "HEAD~1..HEAD"})).await;
    assert!(both.contains("-two\n+2\n"), "{both}");
}

#[tokio::test]
async fn log_show_and_blame_show_the_history() {
    let folder = repository();
    let log = says(&folder, json!({"command": "log"})).await;
    let rows: Vec<&str> = log.lines().collect();
    let (second, first) = (&rows[0][..12], &rows[1][..12]);
    let author = "2026-01-02T03:04:05Z Ada <ada@example.com>";
    assert_eq!(
        rows,
        [
            format!("{second} {author} Second"),
            format!("{first} {author} First"),
            "    With a body.".to_owned()
        ]
    );
    let limited = says(
        &folder,
        json!({"command": "log", "max_count": 1, "paths": ["src"]}),
    )
    .await;
    assert!(limited.lines().next().unwrap().ends_with("> First"), "{limited}");

    let shown = says(&folder, json!({"command": "show", "revision": "HEAD"})).await;
    let head = "\nAuthor: Ada <ada@example.com>\nDate: 2026-01-02T03:04:05Z\n\n    Second\n\ndiff --git a/a.txt b/a.txt\n";
    assert!(shown.starts_with(&format!("commit {second}")), "{shown}");
    assert!(shown.contains(head) && shown.contains("-two\n+2\n"), "{shown}");
    let file = says(&folder, json!({"command": "show", "revision": "HEAD~1:a.txt"})).await;
    assert_eq!(file, "one\ntwo\n");

    let blamed = says(
        &folder,
        json!({"command": "blame", "paths": ["a.txt"], "revision": "HEAD", "end_line": 2}),
    )
    .await;
    assert_eq!(
        blamed,
        format!("1\t{first} 2026-01-02 Ada\tone\n2\t{second} 2026-01-02 Ada\t2")
    );
}

#[tokio::test]
async fn long_answers_are_bounded_with_a_visible_gap() {
    let folder = repository();
    std::fs::write(folder.path("a.txt"), "word\n".repeat(100_000)).unwrap();
    let diff = says(&folder, json!({"command": "diff"})).await;
    assert!(
        diff.len() < 64 * 1024 && diff.contains("characters left out"),
        "{}",
        diff.len()
    );
    for n in 0..5_000 {
        std::fs::write(folder.path(&format!("untracked-{n}")), "").unwrap();
    }
    let status = says(&folder, json!({"command": "status"})).await;
    let shown = status.lines().count() - 2;
    assert!(status.ends_with(&format!("\n… {} more are left out", 5_001 - shown)));
}

#[tokio::test]
async fn arguments_that_git_could_mistake_for_options_are_refused() {
    let folder = repository();
    for (parameters, code) in [
        (
            json!({"command": "log", "revision": "--output=x"}),
            "bad_parameters",
        ),
        (
            json!({"command": "diff", "revision": "--output=x"}),
            "bad_parameters",
        ),
        (json!({"command": "log", "revision": ""}), "bad_parameters"),
        (json!({"command": "log", "revision": "a\nb"}), "bad_parameters"),
        (json!({"command": "blame"}), "bad_parameters"),
        (
            json!({"command": "blame", "paths": ["a.txt"], "start_line": 3, "end_line": 2}),
            "bad_parameters",
        ),
        (json!({"command": "diff", "paths": ["../x"]}), "outside_workspace"),
        (json!({"command": "log", "revision": "nowhere"}), "exited"),
    ] {
        let (got, error) = failed(ask(&folder, parameters.clone()).await);
        assert_eq!(got, code, "{parameters}: {error}");
    }
    std::fs::write(folder.path("--output=canary"), "x").unwrap();
    let status = says(
        &folder,
        json!({"command": "status", "paths": ["--output=canary"]}),
    )
    .await;
    assert!(status.ends_with("\n?? --output=canary"), "{status}");
    assert!(!folder.path("canary").exists());
}

#[tokio::test]
async fn a_repository_whose_root_is_not_the_workspace_is_refused() {
    let none = Folder::with(&[("a", b"")]);
    // The temporary folder may be inside a repository.
    let is_in_one = none.path("").ancestors().any(|above| above.join(".git").exists());
    let expected = if is_in_one {
        "outside_workspace"
    } else {
        "no_repository"
    };
    assert_eq!(failed(ask(&none, json!({"command": "status"})).await).0, expected);

    let folder = repository();
    let below = ToolContext {
        workspace: folder.path("src"),
        ..folder.context()
    };
    let refused = git(&Sandbox::default())
        .call(below, json!({"command": "status"}))
        .await;
    assert_eq!(failed(refused).0, "outside_workspace");

    let elsewhere = Folder::with(&[(
        ".git",
        format!("gitdir: {}\n", folder.path(".git").display()).as_bytes(),
    )]);
    assert_eq!(
        failed(ask(&elsewhere, json!({"command": "log"})).await).0,
        "outside_workspace"
    );
    let linked = Folder::with(&[]);
    std::os::unix::fs::symlink(folder.path(".git"), linked.path(".git")).unwrap();
    assert_eq!(
        failed(ask(&linked, json!({"command": "log"})).await).0,
        "outside_workspace"
    );
}

/// A repository in which every setting that can run a program runs one that leaves a trace.
pub(super) fn hostile(outside: &Folder) -> Folder {
    let folder = repository();
    let canary = outside.path("canary");
    let (script, source) = (folder.path("trap.sh"), folder.path("trap.txt"));
    let text = format!(
        "#!/bin/sh\necho \"$0 $*\" >> {}\necho \"$0 $*\" >> {}\ncat\n",
        canary.display(),
        folder.path("canary").display()
    );
    std::fs::write(&source, text).unwrap();
    // Installed by another process: if this process wrote the program, a child of another test could briefly hold it open, and it could not
    // be executed.
    let installed = Command::new("install")
        .args(["-m", "755"])
        .args([&source, &script])
        .status();
    assert!(installed.unwrap().success());
    let trap = script.display();
    let included = folder.path("included");
    std::fs::write(
        &included,
        format!("[diff \"x\"]\n\ttextconv = {trap}\n[filter \"w\"]\n\tclean = {trap}\n"),
    )
    .unwrap();
    let config = format!(
        "[include]\n\tpath = {included}\n[core]\n\tfsmonitor = {trap}\n\tpager = {trap}\n\thooksPath = {hooks}\n\tsshCommand = {trap}\n\
         \teditor = {trap}\n\taskPass = {trap}\n\talternateRefsCommand = {trap}\n\tgitProxy = {trap}\n\tattributesFile = {attributes}\n\
         [diff]\n\texternal = {trap}\n[diff \"t\"]\n\ttextconv = {trap}\n\tcommand = {trap}\n\tcachetextconv = true\n\
         [filter \"f\"]\n\tclean = {trap}\n\tsmudge = {trap}\n\trequired = true\n[filter \"p.q\"]\n\tprocess = {trap}\n\trequired = true\n\
         [alias]\n\tstatus = !{trap}\n\tlog = !{trap}\n\tlook = !{trap}\n[pager]\n\tlog = {trap}\n\tdiff = {trap}\n\tstatus = {trap}\n\
         [log]\n\tshowSignature = true\n[gpg]\n\tprogram = {trap}\n[credential]\n\thelper = !{trap}\n[interactive]\n\tdiffFilter = {trap}\n\
         [remote \"origin\"]\n\turl = ext::{trap}\n\tpromisor = true\n\tpartialclonefilter = blob:none\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
         [extensions]\n\tpartialClone = origin\n[protocol \"ext\"]\n\tallow = always\n[safe]\n\tdirectory = *\n[gc]\n\tauto = 1\n",
        included = included.display(),
        hooks = folder.path("hooks").display(),
        attributes = folder.path("attributes").display(),
    );
    let git_config = folder.path(".git/config");
    let old = std::fs::read_to_string(&git_config).unwrap();
    std::fs::write(
        &git_config,
        format!("{old}{config}").replace("repositoryformatversion = 0", "repositoryformatversion = 1"),
    )
    .unwrap();
    for (path, text) in [
        (
            ".gitattributes",
            "*.txt diff=t filter=f\na.txt filter=f\nsrc/* filter=p.q diff=x\n",
        ),
        (".git/info/attributes", "a.txt filter=w diff=t\n"),
        ("attributes", "* filter=f diff=t\n"),
    ] {
        std::fs::write(folder.path(path), text).unwrap();
    }
    std::fs::create_dir(folder.path("hooks")).unwrap();
    for hook in [
        "post-checkout",
        "fsmonitor-watchman",
        "post-index-change",
        "pre-commit",
        "reference-transaction",
    ] {
        std::fs::copy(&script, folder.path(&format!("hooks/{hook}"))).unwrap();
        std::fs::copy(&script, folder.path(&format!(".git/hooks/{hook}"))).unwrap();
    }
    // With new modification times git compares contents, for which it would run filters.
    std::fs::write(folder.path("src/b.txt"), "c\n").unwrap();
    folder
}

/// Runs the checks in the sandbox and without it. Without it only git's arguments and settings protect.
#[tokio::test]
async fn programs_named_by_a_hostile_repository_are_not_run() {
    for confinement in [Confinement::Required, Confinement::Off] {
        check_hostile(confinement).await;
    }
}

async fn check_hostile(confinement: Confinement) {
    let sandbox = Sandbox {
        confinement,
        ..Sandbox::default()
    };
    let ask = async |folder: &Folder, parameters: Value| folder.call(git(&sandbox), parameters).await;
    let outside = Folder::with(&[]);
    let folder = hostile(&outside);
    // The trap works: ordinary git runs the program.
    let _ = users_git(&folder.path(".")).arg("diff").output().unwrap();
    assert!(outside.path("canary").exists() && folder.path("canary").exists());
    std::fs::remove_file(outside.path("canary")).unwrap();
    std::fs::remove_file(folder.path("canary")).unwrap();
    let index = std::fs::read(folder.path(".git/index")).unwrap();

    for parameters in [
        json!({"command": "status"}),
        json!({"command": "diff"}),
        json!({"command": "diff", "staged": true}),
        json!({"command": "diff", "revision": "HEAD~1"}),
        json!({"command": "log"}),
        json!({"command": "log", "revision": "HEAD", "paths": ["a.txt"]}),
        json!({"command": "show"}),
        json!({"command": "show", "revision": "HEAD:a.txt"}),
        json!({"command": "blame", "paths": ["a.txt"]}),
    ] {
        let result = ask(&folder, parameters.clone()).await;
        assert!(result.succeeded(), "{parameters}: {result:?}");
        let traces =
            [outside.path("canary"), folder.path("canary")].map(|path| std::fs::read_to_string(path).ok());
        assert_eq!(traces, [None, None], "{parameters}");
    }
    // Git would fetch a missing object from the remote, and the remote's address can run a program.
    let missing = ask(
        &folder,
        json!({"command": "show", "revision": "1234567890123456789012345678901234567890"}),
    )
    .await;
    assert_eq!(failed(missing).0, "exited");
    assert!(!outside.path("canary").exists() && !folder.path("canary").exists());
    assert_eq!(
        std::fs::read(folder.path(".git/index")).unwrap(),
        index,
        "nothing is written"
    );
}

/// The names of filters can contain any bytes, including those that end names in other places.
#[tokio::test]
async fn a_filter_in_a_git_configuration_is_not_run_whatever_its_name() {
    use std::os::unix::ffi::OsStrExt;
    for name in [b"a=b".as_slice(), b"=", b"p.q", b"x.clean=y", b"\xff\xfe"] {
        let (folder, outside) = (repository(), Folder::with(&[]));
        let canary = outside.path("canary");
        let config = [
            b"[filter \"",
            name,
            b"\"]\n\tclean = echo >> ",
            canary.as_os_str().as_bytes(),
            b"\n\trequired = true\n",
        ]
        .concat();
        let old = std::fs::read(folder.path(".git/config")).unwrap();
        std::fs::write(folder.path(".git/config"), [old, config].concat()).unwrap();
        let attributes = [b"a.txt filter=", name, b"\n"].concat();
        std::fs::write(folder.path(".gitattributes"), attributes).unwrap();
        // The trap works: ordinary git runs the program.
        let _ = users_git(&folder.path(".")).arg("diff").output().unwrap();
        assert!(canary.exists(), "{}", name.escape_ascii());
        std::fs::remove_file(&canary).unwrap();

        let sandbox = Sandbox {
            confinement: Confinement::Off,
            ..Sandbox::default()
        };
        for command in ["status", "diff"] {
            let result = folder.call(git(&sandbox), json!({"command": command})).await;
            assert!(result.succeeded(), "{}: {result:?}", name.escape_ascii());
            assert!(!canary.exists(), "{}: {command}", name.escape_ascii());
        }
    }
}

/// Otherwise a filter could be in the unread part.
#[tokio::test]
async fn a_repository_with_too_many_settings_to_check_is_refused() {
    let folder = repository();
    let config = folder.path(".git/config");
    let old = std::fs::read_to_string(&config).unwrap();
    let many = (0..5).map(|n| format!("[x \"{}{n}\"]\n\ta = b\n", "x".repeat(1024 * 1024)));
    std::fs::write(&config, old + &many.collect::<String>()).unwrap();
    let (code, error) = failed(ask(&folder, json!({"command": "status"})).await);
    assert_eq!(code, "refused", "{error}");
}

#[tokio::test]
async fn the_output_says_if_a_part_of_it_was_not_read() {
    let folder = repository();
    std::fs::write(folder.path("a.txt"), "word\n".repeat(1024 * 1024)).unwrap();
    let diff = says(&folder, json!({"command": "diff"})).await;
    assert!(diff.contains("characters left out") && diff.contains("longer than 4 MiB"));
    run(
        &folder.path("."),
        &["commit", "-q", "-a", "-m", "Many", "-m", "A body."],
    );
    let long = format!("Long\n\n{}", "body ".repeat(1024 * 1024));
    std::fs::write(folder.path("message"), long).unwrap();
    let root = folder.path(".");
    run(&root, &["commit", "-q", "--allow-empty", "-F", "message"]);
    let log = says(&folder, json!({"command": "log"})).await;
    assert!(log.ends_with("… at least 1 more are left out"));
}

#[tokio::test]
async fn a_cancelled_call_ends() {
    let folder = repository();
    let context = folder.context();
    context.cancel.cancel();
    let result = git(&Sandbox::default())
        .call(context, json!({"command": "status"}))
        .await;
    assert_eq!(failed(result).0, "cancelled");
}

#[tokio::test]
async fn lead_4_the_state_of_a_repository_fits_in_a_line() {
    let summary = async |folder: &Folder| repository_summary(&folder.path("."), Confinement::Required).await;
    let folder = repository();
    let git = |words: &[&str]| run(&folder.path("."), words);
    assert_eq!(summary(&folder).await.as_deref(), Some("branch main, 1 modified"));

    std::fs::create_dir(folder.path("new")).unwrap();
    std::fs::write(folder.path("new/a"), "").unwrap();
    std::fs::write(folder.path("new/b"), "").unwrap();
    std::fs::write(folder.path("staged"), "").unwrap();
    git(&["add", "staged"]);
    git(&["mv", "src/b.txt", "src/c.txt"]);
    git(&["checkout", "-q", "-b", "topic/x"]);
    assert_eq!(
        summary(&folder).await.as_deref(),
        Some("branch topic/x, 1 modified, 1 added, 1 renamed, 1 untracked")
    );

    git(&["stash", "-q", "-u"]);
    git(&["checkout", "-q", "--detach"]);
    let detached = summary(&folder).await.unwrap();
    assert!(
        detached.starts_with("detached at ") && detached.ends_with(", nothing changed"),
        "{detached}"
    );

    let empty = Folder::with(&[("a", b"")]);
    assert_eq!(summary(&empty).await, None);
    run(&empty.path("."), &["init", "-q"]);
    assert_eq!(
        summary(&empty).await.as_deref(),
        Some("branch main, no commit yet, 1 untracked")
    );
    // The repository is above the workspace, so git would show files outside the workspace.
    std::fs::create_dir(empty.path("below")).unwrap();
    assert_eq!(
        repository_summary(&empty.path("below"), Confinement::Required).await,
        None
    );
}
