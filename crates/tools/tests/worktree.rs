//! Worktrees of real repositories: created, compared, applied to the user's folder, and removed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::folder::{self, Folder, context};
use crate::git::{hostile, repository, run, users_git};
use dirigent_tools::{
    Confinement, Repository, RepositoryError, Sandbox, Tool as _, WorktreeChanges, execute_command, git,
};
use serde_json::json;

/// A worktree of a repository.
struct Made {
    repository: Repository,
    commit: String,
    /// The folder that contains the worktree.
    folder: Folder,
}

impl Made {
    async fn of(user: &Folder) -> Made {
        Self::confined(user, Confinement::Required).await
    }

    async fn confined(user: &Folder, confinement: Confinement) -> Made {
        let repository = Repository::find(&root(user), confinement).unwrap();
        let commit = repository.head().await.unwrap();
        let folder = Folder::with(&[]);
        let made = Made {
            repository,
            commit,
            folder,
        };
        made.repository
            .add_worktree(&made.path(""), &made.commit)
            .await
            .unwrap();
        made
    }

    fn path(&self, path: &str) -> PathBuf {
        let tree = root(&self.folder).join("tree");
        if path.is_empty() { tree } else { tree.join(path) }
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }

    async fn changes(&self) -> WorktreeChanges {
        self.compare(&[]).await
    }

    async fn compare(&self, also: &[String]) -> WorktreeChanges {
        let folder = self.path("");
        let changes = self.repository.worktree_changes(&folder, &self.commit, also);
        changes.await.unwrap()
    }

    async fn apply(&self) -> Result<(), RepositoryError> {
        self.repository.apply(&self.changes().await).await
    }
}

fn root(folder: &Folder) -> PathBuf {
    folder.path("").canonicalize().unwrap()
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

fn stdout(folder: &Folder, words: &[&str]) -> String {
    let done = users_git(&folder.path(".")).args(words).output().unwrap();
    String::from_utf8(done.stdout).unwrap()
}

#[tokio::test]
async fn a_worktree_has_the_last_commit_and_leaves_the_users_folder_unchanged() {
    let user = repository();
    fs::write(user.path("new.txt"), "n\n").unwrap();
    let made = Made::of(&user).await;
    assert_eq!(made.repository.uncommitted().await.unwrap(), 2);
    assert_eq!(text(made.path("a.txt")), "one\n2\n");
    assert!(!made.path("new.txt").exists());
    assert_eq!(text(user.path("a.txt")), "one\n2\nthree\n");
    assert_eq!(
        stdout(&user, &["branch", "--format=%(refname:short)"])
            .lines()
            .count(),
        1
    );
    assert!(made.changes().await.is_empty());

    Repository::remove_worktree(&made.path("")).unwrap();
    assert!(!made.path("").exists());
    assert_eq!(stdout(&user, &["worktree", "list"]).lines().count(), 1);
}

#[tokio::test]
async fn every_change_is_applied_with_modes_links_and_binary_files() {
    let user = repository();
    fs::write(user.path(".gitignore"), "ignored/\n").unwrap();
    run(&user.path("."), &["add", ".gitignore"]);
    run(&user.path("."), &["commit", "-q", "-m", "Ignore"]);
    fs::write(user.path("a.txt"), "one\n2\n").unwrap();
    let made = Made::of(&user).await;
    made.write("a.txt", "one\nnew\n2\n");
    fs::remove_file(made.path("src/b.txt")).unwrap();
    fs::create_dir_all(made.path("deep/er")).unwrap();
    made.write("deep/er/ü \"q\".sh", "#!/bin/sh\n");
    fs::set_permissions(made.path("deep/er/ü \"q\".sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(made.path("binary"), [0, 159, 146, 150]).unwrap();
    std::os::unix::fs::symlink("a.txt", made.path("link")).unwrap();
    fs::create_dir(made.path("ignored")).unwrap();
    made.write("ignored/left", "l");
    made.write("ignored/named", "n");

    let named = ["ignored/named".to_owned(), "gone".to_owned()];
    let changes = made.compare(&named).await;
    assert_eq!(
        changes.paths(),
        [
            "a.txt",
            "binary",
            "deep/er/ü \"q\".sh",
            "ignored/named",
            "link",
            "src/b.txt"
        ]
    );
    let index = fs::read(user.path(".git/index")).unwrap();
    made.repository.apply(&changes).await.unwrap();

    assert_eq!(text(user.path("a.txt")), "one\nnew\n2\n");
    assert!(!user.path("src/b.txt").exists());
    let mode = fs::metadata(user.path("deep/er/ü \"q\".sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o111, 0o111);
    assert_eq!(fs::read(user.path("binary")).unwrap(), [0, 159, 146, 150]);
    assert_eq!(fs::read_link(user.path("link")).unwrap(), Path::new("a.txt"));
    assert_eq!(text(user.path("ignored/named")), "n");
    assert!(!user.path("ignored/left").exists());
    assert_eq!(
        fs::read(user.path(".git/index")).unwrap(),
        index,
        "nothing is staged"
    );
    // Applying the changes again has no effect.
    made.repository.apply(&changes).await.unwrap();
    assert_eq!(text(user.path("a.txt")), "one\nnew\n2\n");
}

/// The user has since committed and changed files, also close to the run's changes.
#[tokio::test]
async fn changes_are_merged_with_the_users_changes_or_none_are_applied() {
    let long = |first: &str, last: &str| format!("{first}\n2\n3\n{last}\n");
    let user = repository();
    fs::write(user.path("a.txt"), long("1", "4")).unwrap();
    run(&user.path("."), &["commit", "-q", "-a", "-m", "Long"]);
    let made = Made::of(&user).await;
    made.write("a.txt", &long("one", "4"));
    made.write("src/b.txt", "by the run\n");
    run(&user.path("."), &["mv", "src/b.txt", "src/moved.txt"]);
    run(&user.path("."), &["commit", "-q", "-m", "Move"]);
    // Too close to the user's change for a patch, but not for a merge.
    fs::write(user.path("a.txt"), long("1", "four")).unwrap();
    made.apply().await.unwrap();
    assert_eq!(text(user.path("a.txt")), long("one", "four"));
    assert_eq!(text(user.path("src/moved.txt")), "by the run\n");

    made.write("fresh.txt", "f\n");
    fs::write(user.path("a.txt"), long("ONE", "4")).unwrap();
    let status = stdout(&user, &["status", "--porcelain"]);
    match made.apply().await {
        Err(RepositoryError::Conflicts { paths }) => assert_eq!(paths, ["a.txt"]),
        other => panic!("{other:?}"),
    }
    assert_eq!(stdout(&user, &["status", "--porcelain"]), status);
    assert_eq!(text(user.path("a.txt")), long("ONE", "4"));
    assert!(!user.path("fresh.txt").exists());
}

/// Six equal blocks, with a line in some of them.
fn blocks(inserted: &[usize]) -> String {
    let block = |number| {
        let line = if inserted.contains(&number) {
            "    new\n"
        } else {
            ""
        };
        format!("begin\n    one\n    two\n{line}    three\n    four\nend\n")
    };
    (1..=6).map(block).collect()
}

#[tokio::test]
async fn paor_10_an_already_applied_change_is_not_applied_again_at_a_repeated_context() {
    let user = repository();
    fs::write(user.path("a.txt"), blocks(&[])).unwrap();
    run(&user.path("."), &["commit", "-q", "-a", "-m", "Blocks"]);
    let made = Made::of(&user).await;
    made.write("a.txt", &blocks(&[2]));

    for time in 1..=2 {
        made.apply().await.unwrap();
        assert_eq!(text(user.path("a.txt")), blocks(&[2]), "time {time}");
    }
    run(&user.path("."), &["commit", "-q", "-a", "-m", "Applied"]);
    made.apply().await.unwrap();
    assert_eq!(text(user.path("a.txt")), blocks(&[2]), "committed by the user");
    // The user's change elsewhere stays, and the run's change is applied in the right place.
    fs::write(user.path("a.txt"), blocks(&[5])).unwrap();
    made.apply().await.unwrap();
    assert_eq!(text(user.path("a.txt")), blocks(&[2, 5]));
}

#[tokio::test]
async fn a_folder_that_cannot_have_a_worktree_is_refused_with_the_reason() {
    let find = |folder: PathBuf| Repository::find(&folder, Confinement::Required);
    let user = repository();
    let src = find(root(&user).join("src")).unwrap();
    assert_eq!(src.root(), root(&user));

    let bare = Folder::with(&[]);
    run(&bare.path("."), &["init", "-q", "--bare"]);
    assert!(matches!(find(root(&bare)), Err(RepositoryError::Bare(_))));
    assert!(matches!(
        find(root(&user).join(".git/objects")),
        Err(RepositoryError::Bare(_))
    ));

    let link = format!("gitdir: {}\n", root(&user).join(".git").display());
    let foreign = Folder::with(&[(".git", link.as_bytes())]);
    assert!(matches!(find(root(&foreign)), Err(RepositoryError::Unlinked(_))));

    let empty = Folder::with(&[]);
    run(&empty.path("."), &["init", "-q"]);
    let none = find(root(&empty)).unwrap().head().await;
    assert!(matches!(none, Err(RepositoryError::NoCommit(_))), "{none:?}");

    let blocked = Folder::with(&[("tree/file", b"f")]);
    let repository = find(root(&user)).unwrap();
    let commit = repository.head().await.unwrap();
    let refused = repository
        .add_worktree(&root(&blocked).join("tree"), &commit)
        .await;
    assert!(matches!(refused, Err(RepositoryError::Io { .. })), "{refused:?}");
    assert!(blocked.path("tree/file").exists());
    let unknown = "1234567890123456789012345678901234567890";
    let failed = repository
        .add_worktree(&root(&blocked).join("new"), unknown)
        .await;
    assert!(matches!(failed, Err(RepositoryError::Git(_))), "{failed:?}");
    assert!(!blocked.path("new").exists());
    assert_eq!(stdout(&user, &["worktree", "list"]).lines().count(), 1);
}

/// A killed process can leave a worktree that is only partly created or removed.
#[tokio::test]
async fn the_rest_of_a_partly_removed_worktree_is_removed() {
    let user = repository();
    let made = Made::of(&user).await;
    fs::create_dir(made.path("closed")).unwrap();
    made.write("closed/file", "f");
    fs::set_permissions(made.path("closed"), fs::Permissions::from_mode(0o500)).unwrap();
    fs::remove_file(made.path(".git")).unwrap();
    Repository::remove_worktree(&made.path("")).unwrap();
    assert!(!made.path("").exists());
    Repository::remove_worktree(&made.path("")).unwrap();
}

#[tokio::test]
async fn in_a_worktree_tools_can_read_the_repository_but_not_change_it() {
    let user = repository();
    let made = Made::of(&user).await;
    made.write("a.txt", "changed\n");
    let inside = || context(&made.path(""));
    let status = git(&Sandbox::default())
        .call(inside(), json!({"command": "status"}))
        .await;
    assert!(folder::text(status).ends_with("\n M a.txt"));
    let command = |words: &str| {
        let parameters = json!({"command": words});
        execute_command(&Sandbox::default()).call(inside(), parameters)
    };
    let seen = folder::text(command("git log --format=%s && git diff --stat").await);
    assert!(
        seen.contains("Second\nFirst\n") && seen.contains("a.txt"),
        "{seen}"
    );
    for change in [
        "git commit -a -m x".to_owned(),
        format!("echo x >> '{}'", root(&user).join(".git/config").display()),
        format!("echo x >> '{}'", root(&user).join("a.txt").display()),
    ] {
        assert!(!command(&change).await.succeeded(), "{change}");
    }
}

/// The `.git` file of a workspace is not trusted: it must not make other folders readable.
#[tokio::test]
async fn a_git_file_that_its_repository_does_not_know_is_not_followed() {
    let secret = Folder::with(&[
        ("HEAD", b"ref: refs/heads/main\n"),
        ("objects/x", b""),
        ("refs/x", b""),
        ("key", b"secret"),
        ("worktrees/w/commondir", b"../..\n"),
        ("worktrees/w/gitdir", b"/elsewhere/.git\n"),
    ]);
    let link = format!("gitdir: {}\n", root(&secret).join("worktrees/w").display());
    let workspace = Folder::with(&[(".git", link.as_bytes())]);
    let read = json!({"command": ["cat", root(&secret).join("key")]});
    let result = execute_command(&Sandbox::default())
        .call(workspace.context(), read)
        .await;
    assert!(!result.succeeded(), "{result:?}");
}

#[tokio::test]
async fn programs_named_by_a_hostile_repository_are_not_run_for_a_worktree() {
    for confinement in [Confinement::Required, Confinement::Off] {
        let outside = Folder::with(&[]);
        let user = hostile(&outside);
        let trap = user.path("trap.sh").display().to_string();
        let config = user.path(".git/config");
        let merging = format!("[merge]\n\tdefault = d\n[merge \"d\"]\n\tdriver = {trap} %A\n");
        fs::write(&config, text(&config) + &merging).unwrap();
        fs::write(user.path(".gitattributes"), "*.txt filter=f diff=t merge=d\n").unwrap();
        let quiet = || !outside.path("canary").exists() && !user.path("canary").exists();
        assert!(quiet());

        let made = Made::confined(&user, confinement).await;
        assert!(quiet(), "made");
        made.repository.uncommitted().await.unwrap();
        assert!(quiet(), "counted");
        fs::write(made.path(".gitattributes"), "*.txt filter=f diff=t merge=d\n").unwrap();
        made.write("a.txt", "ONE\n2\n");
        let _ = made.apply().await;
        assert!(quiet(), "merged");
        assert_eq!(text(user.path("a.txt")), "ONE\n2\nthree\n");
        Repository::remove_worktree(&made.path("")).unwrap();
        assert!(quiet(), "removed");
    }
}
