//! The state of a file after a change that was interrupted or concurrent with others: the old content or the new.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::folder::Folder;
use crate::meanwhile::{meanwhile, turn_into_link_and_back};
use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::{FileVersion, StateChange, ToolOutcome};
use dirigent_tools::workspace::{FileError, Workspace};
use dirigent_tools::{ContentStore, RunChanges, Tool, file_operations};
use serde_json::json;

/// The variable that tells the test program, started by a test, in which folder to work.
const PLACE: &str = "DIRIGENT_TEST_PLACE";

fn names(folder: &Folder) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The test program, which runs this one test in the folder after this line of shell code.
fn child(folder: &Folder, before: &str, test: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!(
            "{before}exec \"$0\" --ignored --exact --nocapture files_interrupted::{test}"
        ))
        .arg(std::env::current_exe().unwrap())
        .env(PLACE, folder.path(""));
    command
}

fn place() -> Workspace {
    Workspace::open(std::env::var_os(PLACE).unwrap().as_ref()).unwrap()
}

#[test]
fn a_failed_write_on_a_full_disk_leaves_the_old_file() {
    let folder = Folder::with(&[("file", b"old")]);
    // Writing fails after this many blocks, as on a full disk; the signal is ignored.
    let limit = "trap '' XFSZ; ulimit -f 16; ";
    let done = child(&folder, limit, "writes_above_the_file_size_limit_are_denied")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert!(String::from_utf8_lossy(&done.stdout).contains("1 passed"));
    assert_eq!(std::fs::read(folder.path("file")).unwrap(), b"old");
    assert_eq!(names(&folder), ["file"]);
}

#[test]
#[ignore = "run by the test above, where a file can only be small"]
fn writes_above_the_file_size_limit_are_denied() {
    let workspace = place();
    let large = vec![b'n'; 1 << 20];
    for error in [
        workspace.replace("file", b"old", &large).unwrap_err(),
        workspace.create("new", &large).unwrap_err(),
        workspace.create("made/for/it", &large).unwrap_err(),
    ] {
        assert_eq!(error.code(), "denied", "{error}");
        assert!(
            error.to_string().contains("does not allow a file of this size"),
            "{error}"
        );
    }
}

#[test]
fn a_killed_process_leaves_either_the_old_or_the_new_file() {
    let (old, new) = (vec![b'o'; 1 << 20], vec![b'n'; 1 << 20]);
    for rounds in 1..6 {
        let folder = Folder::with(&[("file", &old)]);
        let mut writer = child(&folder, "", "writes_forever")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(writer.stdout.take().unwrap()).lines();
        // After these lines, the process is in the middle of the next change.
        assert_eq!(
            said.map(Result::unwrap)
                .filter(|line| line == "written")
                .take(rounds)
                .count(),
            rounds
        );
        writer.kill().unwrap();
        writer.wait().unwrap();
        let left = std::fs::read(folder.path("file")).unwrap();
        assert!(left == old || left == new, "{} bytes are left", left.len());
    }
}

#[test]
#[ignore = "run by the test above, which ends it"]
fn writes_forever() {
    let workspace = place();
    let (mut one, mut other) = (vec![b'o'; 1 << 20], vec![b'n'; 1 << 20]);
    let mut out = std::io::stdout();
    println!();
    loop {
        workspace.replace("file", &one, &other).unwrap();
        std::mem::swap(&mut one, &mut other);
        // The reader may have ended.
        if writeln!(out, "written").is_err() {
            return;
        }
    }
}

#[derive(Debug)]
struct Full;

impl ContentStore for Full {
    fn record(&self, _: &str, _: &FileVersion, _: &[u8]) -> Result<(), String> {
        Err("the database is full".to_owned())
    }

    fn load(&self, _: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    fn run_changes(&self) -> Result<RunChanges, String> {
        Ok(RunChanges::default())
    }
}

#[tokio::test]
async fn a_file_whose_content_cannot_be_recorded_is_not_changed() {
    let folder = Folder::with(&[("file", b"old")]);
    symlink("file", folder.path("link")).unwrap();
    for parameters in [
        json!({"operation": "write", "path": "file", "content": "x"}),
        json!({"operation": "edit", "path": "file", "old": "old", "new": "x"}),
        json!({"operation": "delete", "path": "file"}),
        json!({"operation": "delete", "path": "link"}),
    ] {
        let mut context = folder.context();
        context.content_store = Some(Arc::new(Full));
        let result = file_operations().call(context, parameters).await;
        assert_eq!(result.changes, []);
        let ToolOutcome::Failure { code, error, .. } = result.outcome else {
            panic!("it was changed");
        };
        assert_eq!(code, "not_kept");
        assert!(
            error.ends_with("could not be recorded for `undo`: the database is full"),
            "{error}"
        );
    }
    assert_eq!(std::fs::read(folder.path("file")).unwrap(), b"old");
    assert_eq!(names(&folder), ["file", "link"]);
}

#[test]
fn a_move_reports_the_version_of_the_moved_file_or_link() {
    let folder = Folder::with(&[("file", b"text"), ("folder/file", b"")]);
    symlink("file", folder.path("link")).unwrap();
    let workspace = Workspace::open(&folder.path("")).unwrap();
    let version = |from: &str| match workspace.rename(from, "moved", None).unwrap() {
        StateChange::FileMoved { version, .. } => {
            workspace.rename("moved", from, None).unwrap();
            version.map(|FileVersion { digest, mode }| (digest, mode & 0o170_000))
        }
        other => panic!("{other}"),
    };
    assert_eq!(version("file"), Some((sha256_hex(b"text"), 0o100_000)));
    assert_eq!(version("link"), Some((sha256_hex(b"file"), 0o120_000)));
    assert_eq!(version("folder"), None);
}

#[test]
fn a_file_that_becomes_a_link_does_not_lead_out_of_the_workspace() {
    let outside = Folder::with(&[("secret", b"inside")]);
    let folder = Folder::with(&[("file", b"inside")]);
    let workspace = Workspace::open(&folder.path("")).unwrap();
    let swap = || {
        symlink(outside.path("secret"), folder.path("link")).unwrap();
        std::fs::rename(folder.path("link"), folder.path("file")).unwrap();
        std::fs::write(folder.path("new"), b"inside").unwrap();
        std::fs::rename(folder.path("new"), folder.path("file")).unwrap();
    };
    meanwhile(swap, || {
        for _ in 0..1000 {
            let _ = workspace.replace("file", b"inside", b"broken in");
            let _ = workspace.remove("file", Some(b"inside"));
        }
    });
    assert_eq!(std::fs::read_to_string(outside.path("secret")).unwrap(), "inside");
}

#[test]
fn a_folder_that_becomes_a_link_does_not_lead_to_protected_files() {
    let folder = Folder::with(&[(".git/file", b"inside"), ("dir/file", b"inside")]);
    let workspace = Workspace::open(&folder.path("")).unwrap();
    let swap = || turn_into_link_and_back(&folder, ".git".as_ref());
    meanwhile(swap, || {
        for _ in 0..2000 {
            let _ = workspace.create("dir/new", b"broken in");
            let _ = workspace.remove("dir/new", None);
            let _ = workspace.replace("dir/file", b"inside", b"inside again");
            let _ = workspace.replace("dir/file", b"inside again", b"inside");
        }
    });
    let left: Vec<_> = std::fs::read_dir(folder.path(".git"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["file"]);
    assert_eq!(
        std::fs::read_to_string(folder.path(".git/file")).unwrap(),
        "inside"
    );
}

#[test]
fn a_path_stays_the_same_while_its_file_is_replaced() {
    let folder = Folder::with(&[("file", b"text")]);
    let workspace = Workspace::open(&folder.path("")).unwrap();
    let replace = || {
        std::fs::write(folder.path("new"), b"text").unwrap();
        std::fs::rename(folder.path("new"), folder.path("file")).unwrap();
    };
    meanwhile(replace, || {
        for _ in 0..5000 {
            // Linux reports `file (deleted)` for a file that was just replaced.
            assert_eq!(workspace.canonical("file").unwrap(), "file");
        }
    });
}

#[test]
fn a_new_file_never_replaces_a_file_that_another_process_has_just_created() {
    let folder = Folder::with(&[]);
    let workspace = Workspace::open(&folder.path("")).unwrap();
    for _ in 0..500 {
        let theirs = folder.path("file");
        let made = std::thread::scope(|scope| {
            let other = scope.spawn(|| std::fs::File::create_new(&theirs).is_ok());
            let ours = match workspace.create("file", b"ours") {
                Ok(_) => true,
                Err(FileError::Exists { .. }) => false,
                Err(error) => panic!("{error}"),
            };
            (ours, other.join().unwrap())
        });
        assert!(made == (true, false) || made == (false, true), "{made:?}");
        assert_eq!(names(&folder), ["file"]);
        std::fs::remove_file(&theirs).unwrap();
    }
}
