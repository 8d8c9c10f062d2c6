//! Restoring a workspace through the same jail, and the diffs of whole contents.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::{Arc, Mutex};

use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::FileVersion;
use dirigent_core::undo::PathState;
use dirigent_tools::diff::git_diff;
use dirigent_tools::workspace::{FileError, PreviousState, Workspace};
use dirigent_tools::{ContentStore, RunChanges};
use tempfile::TempDir;

/// Records contents, or refuses to.
#[derive(Debug, Default)]
struct Memory {
    kept: Mutex<BTreeMap<String, Vec<u8>>>,
    full: bool,
}

impl ContentStore for Memory {
    fn record(&self, path: &str, version: &FileVersion, bytes: &[u8]) -> Result<(), String> {
        assert_eq!(version.digest, sha256_hex(bytes));
        if self.full {
            return Err("no room".to_owned());
        }
        self.kept.lock().unwrap().insert(path.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn load(&self, digest: &str) -> Result<Option<Vec<u8>>, String> {
        let kept = self.kept.lock().unwrap();
        Ok(kept.values().find(|bytes| sha256_hex(bytes) == digest).cloned())
    }

    fn run_changes(&self) -> Result<RunChanges, String> {
        Ok(RunChanges::default())
    }
}

fn file(content: &str, mode: u32) -> PathState {
    PathState::File(FileVersion {
        digest: sha256_hex(content.as_bytes()),
        mode,
    })
}

#[test]
fn a_restored_file_has_its_old_content_and_mode_and_the_replaced_one_is_recorded() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.sh");
    fs::write(&path, "after").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let memory = Arc::new(Memory::default());
    let workspace = Workspace::open(folder.path())
        .unwrap()
        .with_content_store(memory.clone());
    let now = workspace.path_state("run.sh").unwrap();
    assert_eq!(now, file("after", 0o100_644));

    workspace
        .restore("run.sh", &now, PreviousState::File(b"before", 0o100_750))
        .unwrap();

    assert_eq!(workspace.path_state("run.sh").unwrap(), file("before", 0o100_750));
    assert_eq!(memory.kept.lock().unwrap()["run.sh"], b"after");
    let stale = workspace
        .restore("run.sh", &now, PreviousState::Nothing)
        .unwrap_err();
    assert!(matches!(stale, FileError::Changed { .. }), "{stale}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_whose_content_cannot_be_recorded_is_not_replaced() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a"), "after").unwrap();
    let full = Memory {
        full: true,
        ..Memory::default()
    };
    let workspace = Workspace::open(folder.path())
        .unwrap()
        .with_content_store(Arc::new(full));
    let now = workspace.path_state("a").unwrap();
    for past in [PreviousState::Nothing, PreviousState::File(b"before", 0o100_644)] {
        let fault = workspace.restore("a", &now, past).unwrap_err();
        assert!(matches!(fault, FileError::NotKept { .. }), "{fault}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "after");
}

#[test]
fn links_folders_and_deleted_files_are_restored() {
    let folder = TempDir::new().unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    let put = |path, past| workspace.restore(path, &PathState::Nothing, past).unwrap();

    put("deep/er/a", PreviousState::File(b"a", 0o100_600));
    put("link", PreviousState::File(b"/etc/passwd", 0o120_777));
    put("empty", PreviousState::Folder);

    assert_eq!(workspace.path_state("deep/er/a").unwrap(), file("a", 0o100_600));
    assert_eq!(
        fs::read_link(folder.path().join("link")).unwrap().to_str(),
        Some("/etc/passwd")
    );
    assert_eq!(
        workspace.path_state("link").unwrap(),
        file("/etc/passwd", 0o120_777)
    );
    assert_eq!(workspace.path_state("empty").unwrap(), PathState::Folder);
    assert_eq!(workspace.path_state("none").unwrap(), PathState::Nothing);
    assert_eq!(
        workspace.path_state("deep/er/a/none").unwrap(),
        PathState::Nothing
    );
}

#[test]
fn restoring_never_touches_git_or_files_outside_the_workspace() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("a"), "theirs").unwrap();
    let folder = TempDir::new().unwrap();
    symlink(outside.path(), folder.path().join("out")).unwrap();
    fs::create_dir(folder.path().join("real")).unwrap();
    fs::write(folder.path().join("real/a"), "mine").unwrap();
    symlink("real", folder.path().join("inner")).unwrap();
    fs::create_dir(folder.path().join(".git")).unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();

    for path in ["out/a", "../a", ".git/config"] {
        let refused = workspace.restore(path, &PathState::Nothing, PreviousState::File(b"x", 0o100_644));
        assert!(refused.is_err(), "{path}");
    }
    // A folder that was replaced by a link counts as another folder, even if the link stays inside the workspace.
    assert_eq!(workspace.path_state("inner/a").unwrap(), PathState::Unknown);
    assert_eq!(fs::read_to_string(outside.path().join("a")).unwrap(), "theirs");
    assert!(!folder.path().join(".git/config").exists());
}

#[test]
fn only_folders_without_files_are_replaced_by_a_restored_file() {
    let folder = TempDir::new().unwrap();
    for name in ["hollow/a/b", "full/a"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("full/a/mine"), "mine").unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    assert!(workspace.is_free("hollow").unwrap() && workspace.is_free("none").unwrap());
    assert!(!workspace.is_free("full").unwrap() && !workspace.is_free("full/a/mine").unwrap());

    workspace
        .restore(
            "hollow",
            &PathState::Nothing,
            PreviousState::File(b"file", 0o100_644),
        )
        .unwrap();
    let refused = workspace
        .restore(
            "full",
            &PathState::Nothing,
            PreviousState::File(b"file", 0o100_644),
        )
        .unwrap_err();
    assert!(matches!(refused, FileError::Changed { .. }), "{refused}");
    let refused = workspace.move_back("hollow", "full").unwrap_err();
    assert!(matches!(refused, FileError::Exists { .. }), "{refused}");
    workspace.move_back("full", "sub/back").unwrap();
    assert_eq!(
        fs::read_to_string(folder.path().join("sub/back/a/mine")).unwrap(),
        "mine"
    );
}

#[test]
fn a_diff_is_in_gits_form() {
    let text = |before, after| String::from_utf8(git_diff("src/a b.rs", before, after)).unwrap();
    assert_eq!(
        text(Some((b"one\ntwo\n", 0o100_644)), Some((b"one\n2", 0o100_755))),
        "diff --git a/src/a b.rs b/src/a b.rs\nold mode 100644\nnew mode 100755\n--- a/src/a b.rs\t\n+++ b/src/a b.rs\t\n\
         @@ -1,2 +1,2 @@\n one\n-two\n+2\n\\ No newline at end of file\n"
    );
    assert_eq!(
        text(None, Some((b"new\n", 0o100_600))),
        "diff --git a/src/a b.rs b/src/a b.rs\nnew file mode 100644\n--- /dev/null\n+++ b/src/a b.rs\t\n@@ -0,0 +1 @@\n+new\n"
    );
    assert_eq!(
        text(Some((b"", 0o100_644)), None),
        "diff --git a/src/a b.rs b/src/a b.rs\ndeleted file mode 100644\n"
    );
    assert_eq!(
        text(Some((b"\0", 0o100_644)), Some((b"\0\0", 0o100_644))),
        "diff --git a/src/a b.rs b/src/a b.rs\nBinary files a/src/a b.rs and b/src/a b.rs differ\n"
    );
    assert_eq!(text(Some((b"same", 0o100_644)), Some((b"same", 0o100_600))), "");
    // Bytes that are not valid UTF-8 are kept unchanged, and a carriage return does not end a line.
    let latin = git_diff(
        "\"q\"\n",
        Some((b"caf\xe9\rbar\n", 0o100_644)),
        Some((b"caf\xe8\rbar\n", 0o100_644)),
    );
    assert_eq!(
        latin,
        b"diff --git \"a/\\\"q\\\"\\n\" \"b/\\\"q\\\"\\n\"\n--- \"a/\\\"q\\\"\\n\"\n+++ \"b/\\\"q\\\"\\n\"\n@@ -1 +1 @@\n-caf\xe9\rbar\n+caf\xe8\rbar\n"
    );
}
