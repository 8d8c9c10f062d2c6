//! Commands cannot leave settings and hooks behind that git or Dirigent would use later.

use std::fs;
use std::path::Path;

use dirigent_core::tool::ToolOutcome;
use dirigent_tools::{Confinement, Sandbox, Tool, execute_command};
use serde_json::json;
use tempfile::TempDir;

use super::{HANG, context, printed, run, shell};

/// The content of a protected file; `None` if it does not exist.
fn guarded(workspace: &TempDir, path: &str) -> Option<String> {
    let path = workspace.path().join(path);
    assert!(!path.is_symlink(), "{path:?}");
    path.is_file().then(|| fs::read_to_string(path).unwrap())
}

#[tokio::test]
async fn gits_hooks_and_settings_are_restored() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("kept"), "kept").unwrap();
    for confinement in [Confinement::Required, Confinement::Off] {
        let workspace = TempDir::new().unwrap();
        fs::create_dir_all(workspace.path().join(".git/hooks")).unwrap();
        fs::create_dir_all(workspace.path().join(".dirigent/agents")).unwrap();
        for path in [
            ".git/config",
            ".git/hooks/old",
            ".dirigent/agents/a.md",
            ".git/HEAD",
        ] {
            fs::write(workspace.path().join(path), path).unwrap();
        }
        let sandbox = Sandbox {
            confinement,
            ..Sandbox::default()
        };
        let line = format!(
            "echo evil >> .git/config; echo evil > .git/hooks/pre-commit; rm .git/hooks/old; rm -r .dirigent; \
             ln -s {} .dirigent; mkdir -p .claude/agents/deep; echo evil > .claude/agents/deep/b.md; echo x > .git/commondir; \
             echo fine > .git/HEAD",
            outside.path().display()
        );
        let result = run(&sandbox, &workspace, json!(line)).await;
        assert!(result.succeeded(), "{result:?}");
        for path in [".git/config", ".git/hooks/old", ".dirigent/agents/a.md"] {
            assert_eq!(guarded(&workspace, path).as_deref(), Some(path));
        }
        for path in [
            ".git/hooks/pre-commit",
            ".git/commondir",
            ".claude/agents/deep/b.md",
        ] {
            assert_eq!(guarded(&workspace, path), None, "{path}");
        }
        assert_eq!(guarded(&workspace, ".git/HEAD").as_deref(), Some("fine\n"));
        assert_eq!(
            result.metadata["put_back"],
            json!([
                ".git/commondir",
                ".git/config",
                ".git/hooks/old",
                ".git/hooks/pre-commit",
                ".claude",
                ".dirigent"
            ])
        );
        assert!(result.succeeded());
        let (_, _, note) = printed(&result);
        assert!(note.contains("restored"), "{note}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn a_link_to_another_repository_in_place_of_git_is_reverted() {
    let workspace = TempDir::new().unwrap();
    fs::create_dir_all(workspace.path().join(".git/hooks")).unwrap();
    fs::write(workspace.path().join(".git/config"), "mine").unwrap();
    let line = "mkdir evil && echo evil > evil/config && mv .git was && ln -s evil .git";
    let result = run(&Sandbox::default(), &workspace, json!(line)).await;
    assert!(result.succeeded(), "{result:?}");
    assert!(!workspace.path().join(".git").is_symlink());
    assert_eq!(guarded(&workspace, ".git/config").as_deref(), Some("mine"));
    assert_eq!(guarded(&workspace, "evil/config").as_deref(), Some("evil\n"));

    let workspace = TempDir::new().unwrap();
    let line = "mkdir evil && echo 'gitdir: evil' > .git";
    let result = run(&Sandbox::default(), &workspace, json!(line)).await;
    assert_eq!(result.metadata["put_back"], json!([".git"]));
    assert!(!workspace.path().join(".git").exists());
}

/// Runs each command in its own workspace, and checks the files that remain.
#[tokio::test]
async fn files_that_a_command_plants_are_removed() {
    let outside = TempDir::new().unwrap();
    let hook = "mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit";
    let link = format!(
        "rm -r .git && ln -s {0} .git; ln -s {0} .dirigent",
        outside.path().display()
    );
    for (line, path, content) in [
        (hook.to_owned(), ".git/hooks/pre-commit", None),
        (
            format!("{hook} && truncate -s 100M .git/hooks/pre-commit"),
            ".git/hooks/pre-commit",
            None,
        ),
        (
            format!("{hook} && cd .git/hooks && seq 6000 | xargs touch"),
            ".git/hooks/pre-commit",
            None,
        ),
        (
            "mkdir -p .dirigent/agents && echo evil > .dirigent/agents/a.md".to_owned(),
            ".dirigent/agents/a.md",
            None,
        ),
        (link, ".git/config", Some("mine")),
    ] {
        let workspace = TempDir::new().unwrap();
        fs::create_dir(workspace.path().join(".git")).unwrap();
        fs::write(workspace.path().join(".git/config"), "mine").unwrap();
        let result = run(&Sandbox::default(), &workspace, json!(line)).await;
        assert!(result.succeeded(), "{line}: {result:?}");
        assert_eq!(guarded(&workspace, path).as_deref(), content, "{line}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "{line}");
    }
}

#[tokio::test]
async fn a_dropped_call_restores_protected_files_and_leaves_nothing() {
    let workspace = TempDir::new().unwrap();
    fs::create_dir(workspace.path().join(".git")).unwrap();
    fs::write(workspace.path().join(".git/config"), "mine").unwrap();
    let line = "echo evil > .git/config; echo $TMPDIR > folder.new; mv folder.new folder; trap '' TERM; sleep 1000; :";
    let call = tokio::spawn(
        execute_command(&Sandbox::default()).call(context(workspace.path()), json!({"command": line})),
    );
    let folder = loop {
        if let Ok(folder) = fs::read_to_string(workspace.path().join("folder")) {
            break folder;
        }
        tokio::task::yield_now().await;
    };
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    // In the meantime the file is removed and created again.
    let config = workspace.path().join(".git/config");
    let is_over =
        || !Path::new(folder.trim()).exists() && fs::read_to_string(&config).ok().as_deref() == Some("mine");
    let over = async {
        while !is_over() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(HANG, over).await.expect("all is put back");
}

/// Runs two commands at once; the second one begins after the first has planted a file.
#[tokio::test]
async fn a_planted_file_is_not_restored_by_another_command() {
    let workspace = TempDir::new().unwrap();
    fs::create_dir(workspace.path().join(".git")).unwrap();
    fs::write(workspace.path().join(".git/config"), "mine").unwrap();
    let planting = "mkdir .git/hooks; echo evil > .git/hooks/pre-commit; echo evil > .git/config; touch planted; \
                    until [ -e begun ]; do sleep 0.01; done";
    let other = async {
        while !workspace.path().join("planted").exists() {
            tokio::task::yield_now().await;
        }
        shell(&workspace, "touch begun; until [ -e go ]; do sleep 0.01; done").await
    };
    let first = async {
        shell(&workspace, planting).await;
        fs::write(workspace.path().join("go"), "").unwrap();
    };
    tokio::join!(other, first);
    assert_eq!(guarded(&workspace, ".git/config").as_deref(), Some("mine"));
    assert!(!workspace.path().join(".git/hooks").exists());
    // When the last command ends, the saved content is discarded.
    fs::write(workspace.path().join(".git/config"), "changed by the user").unwrap();
    shell(&workspace, "true").await;
    assert_eq!(
        guarded(&workspace, ".git/config").as_deref(),
        Some("changed by the user")
    );
}

#[tokio::test]
async fn submodules_worktrees_and_settings_are_restored() {
    let workspace = TempDir::new().unwrap();
    let kept = [
        ".git/modules/a/b/config",
        ".git/modules/a/b/hooks/old",
        ".git/modules/a/b/HEAD",
        ".git/worktrees/w/commondir",
        ".git/worktrees/w/gitdir",
        ".claude/settings.json",
        "dirigent.toml",
        ".mcp.json",
        "deep/er/.git/config",
        "tree/.git",
    ];
    for path in kept {
        let path = workspace.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "mine").unwrap();
    }
    let line = "for file in $(find . -type f ! -name HEAD); do echo evil > $file; done; \
                for folder in .git/modules/a/b deep/er/.git new/.git .git/modules/c; do \
                    mkdir -p $folder/hooks; touch $folder/HEAD $folder/hooks/evil $folder/config.worktree; done; \
                mkdir file; echo 'gitdir: ../evil' > file/.git; echo '*' > new/.gitignore; ln -s .. .git/worktrees/link";
    let result = run(&Sandbox::default(), &workspace, json!(line)).await;
    assert!(result.succeeded(), "{result:?}");
    for path in kept {
        assert_eq!(guarded(&workspace, path).as_deref(), Some("mine"), "{path}");
    }
    for path in [
        ".git/modules/a/b/hooks/evil",
        ".git/modules/c/hooks",
        ".git/worktrees/link",
        "deep/er/.git/hooks",
        "new/.git/hooks",
        "new/.git/config.worktree",
        "file/.git",
    ] {
        assert!(workspace.path().join(path).symlink_metadata().is_err(), "{path}");
    }
    assert!(workspace.path().join("new/.git/HEAD").exists());

    // A command may remove or move whole folders with protected files.
    let line = "rm -r tree .git/modules/a; mv deep moved";
    let result = run(&Sandbox::default(), &workspace, json!(line)).await;
    assert_eq!(result.metadata.get("put_back"), None, "{result:?}");
    assert_eq!(
        guarded(&workspace, "moved/er/.git/config").as_deref(),
        Some("mine")
    );
}

#[tokio::test]
async fn many_settings_files_do_not_weaken_the_guard_of_git() {
    let workspace = TempDir::new().unwrap();
    fs::create_dir_all(workspace.path().join(".dirigent")).unwrap();
    fs::create_dir(workspace.path().join(".git")).unwrap();
    fs::write(workspace.path().join(".git/config"), "mine").unwrap();
    for number in 0..5_001 {
        fs::write(workspace.path().join(format!(".dirigent/{number}")), "").unwrap();
    }
    let line = "mv .git was; mkdir evil; echo evil > evil/config; ln -s evil .git";
    let result = run(&Sandbox::default(), &workspace, json!(line)).await;
    assert_eq!(guarded(&workspace, ".git/config").as_deref(), Some("mine"));
    assert!(result.succeeded(), "{result:?}");
    let (_, _, note) = printed(&result);
    assert!(
        note.contains("too large to be protected completely, so do not change these paths: .dirigent"),
        "{note}"
    );

    fs::create_dir(workspace.path().join(".git/hooks")).unwrap();
    for number in 0..5_001 {
        fs::write(workspace.path().join(format!(".git/hooks/{number}")), "").unwrap();
    }
    let result = run(&Sandbox::default(), &workspace, json!("touch made")).await;
    let ToolOutcome::Failure { code, .. } = &result.outcome else {
        panic!("{result:?}")
    };
    assert_eq!(code, "no_guard");
    assert!(!workspace.path().join("made").exists());
}
