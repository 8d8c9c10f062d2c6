//! The boundary of the workspace: links, folders that change at the same time, permissions, and files that are written completely or not at
//! all.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::folder::{Folder, error, output, text};
use crate::meanwhile::{meanwhile, turn_into_link_and_back};
use dirigent_tools::workspace::{FileError, Hidden, Workspace};
use dirigent_tools::{file_operations, search};
use serde_json::json;

fn names(folder: &Folder) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_link_that_leads_out_can_be_moved_and_deleted() {
    let outside = Folder::with(&[("secret", b"secret")]);
    let folder = Folder::with(&[]);
    symlink(outside.path("secret"), folder.path("link")).unwrap();
    symlink("nowhere", folder.path("dangling")).unwrap();
    for parameters in [
        json!({"operation": "move", "from": "link", "to": "moved"}),
        json!({"operation": "delete", "path": "moved"}),
        json!({"operation": "delete", "path": "dangling"}),
    ] {
        output(folder.call(file_operations(), parameters).await);
    }
    assert_eq!(names(&folder), Vec::<String>::new());
    assert_eq!(std::fs::read(outside.path("secret")).unwrap(), b"secret");
}

#[tokio::test]
async fn an_absolute_path_into_the_workspace_is_accepted() {
    let folder = Folder::with(&[("src/a", b"text")]);
    let real = folder.path("src/a").canonicalize().unwrap();
    let read = json!({"operation": "read", "path": real.to_str().unwrap()});
    assert_eq!(
        text(folder.call(file_operations(), read).await),
        "Lines 1-1 of 1; no line break at the end\n1\ttext"
    );
    let out = json!({"operation": "read", "path": format!("{}/../../../etc/passwd", real.parent().unwrap().display())});
    assert!(error(folder.call(file_operations(), out).await).contains("leads out of the workspace"));
}

#[test]
fn a_folder_that_becomes_a_link_does_not_lead_out_of_the_workspace() {
    let outside = Folder::with(&[("file", b"outside")]);
    let folder = Folder::with(&[("dir/file", b"inside")]);
    let workspace = Workspace::open(&folder.path("")).unwrap();
    let swap = || turn_into_link_and_back(&folder, &outside.path(""));
    meanwhile(swap, || {
        for round in 0..2000 {
            if let Ok(content) = workspace.read("dir/file") {
                assert_eq!(
                    String::from_utf8_lossy(&content),
                    "inside",
                    "read in round {round}"
                );
            }
            let _ = workspace.replace("dir/file", b"outside", b"broken in");
            let _ = workspace.create("dir/new", b"broken in");
            let _ = workspace.remove("dir/new", None);
        }
    });
    assert_eq!(names(&outside), ["file"]);
    assert_eq!(std::fs::read_to_string(outside.path("file")).unwrap(), "outside");
}

#[test]
fn a_concurrent_reader_sees_either_the_old_or_the_new_content() {
    let (old, new) = (vec![b'o'; 300_000], vec![b'n'; 500_000]);
    let folder = Folder::with(&[("file", &old)]);
    let workspace = Workspace::open(&folder.path("")).unwrap();
    let read = || {
        let seen = std::fs::read(folder.path("file")).unwrap();
        assert!(seen == old || seen == new, "{} bytes seen", seen.len());
    };
    meanwhile(read, || {
        for _ in 0..20 {
            workspace.replace("file", &old, &new).unwrap();
            workspace.replace("file", &new, &old).unwrap();
        }
    });
    assert_eq!(names(&folder), ["file"]);
}

#[test]
fn a_file_that_somebody_else_changed_is_left_alone() {
    let folder = Folder::with(&[("file", b"theirs")]);
    let workspace = Workspace::open(&folder.path("")).unwrap();
    let fault = workspace.replace("file", b"read before", b"ours").unwrap_err();
    assert!(matches!(fault, FileError::Changed { .. }), "{fault}");
    assert_eq!(std::fs::read(folder.path("file")).unwrap(), b"theirs");
}

#[test]
fn a_write_keeps_the_mode_and_follows_links_within_the_workspace() {
    let folder = Folder::with(&[("bin/run.sh", b"old")]);
    std::fs::set_permissions(folder.path("bin/run.sh"), PermissionsExt::from_mode(0o750)).unwrap();
    symlink("bin/run.sh", folder.path("run")).unwrap();
    let workspace = Workspace::open(&folder.path("")).unwrap();
    workspace.replace("run", b"old", b"new").unwrap();
    let metadata = std::fs::metadata(folder.path("bin/run.sh")).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o750);
    assert_eq!(std::fs::read(folder.path("bin/run.sh")).unwrap(), b"new");
    assert!(folder.path("run").is_symlink());
}

#[tokio::test]
async fn a_write_that_fails_leaves_no_folder_behind() {
    let folder = Folder::with(&[]);
    let too_long = format!("a/b/{}", "x".repeat(300));
    let write = json!({"operation": "write", "path": too_long, "content": "x"});
    let error = error(folder.call(file_operations(), write).await);
    assert!(error.contains("a name in it, is too long"), "{error}");
    assert_eq!(names(&folder), Vec::<String>::new());
}

/// Removes root's right to write everywhere from this thread and those that it starts.
#[cfg(target_os = "linux")]
fn give_up_superuser_rights() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let mut sets = capabilities(None).unwrap();
    sets.effective
        .remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER);
    set_capabilities(None, sets).unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_folder_without_write_permission_is_left_unchanged() {
    give_up_superuser_rights();
    let folder = Folder::with(&[
        ("closed/file", b"secret"),
        ("open/marked", b"secret"),
        ("open/hidden", b"secret"),
    ]);
    let set_mode =
        |path, mode| std::fs::set_permissions(folder.path(path), PermissionsExt::from_mode(mode)).unwrap();
    set_mode("closed", 0o555);
    set_mode("open/marked", 0o444);
    set_mode("open/hidden", 0o000);
    let refused = [
        json!({"operation": "write", "path": "closed/new", "content": "x"}),
        json!({"operation": "write", "path": "closed/new/er/file", "content": "x"}),
        json!({"operation": "edit", "path": "closed/file", "old": "secret", "new": "x"}),
        json!({"operation": "delete", "path": "closed/file"}),
        json!({"operation": "move", "from": "closed/file", "to": "made/here"}),
        json!({"operation": "edit", "path": "open/marked", "old": "secret", "new": "x"}),
        json!({"operation": "read", "path": "open/hidden"}),
    ];
    for parameters in refused {
        let error = error(folder.call(file_operations(), parameters.clone()).await);
        assert!(
            error.contains("permission denied; it is unchanged"),
            "{parameters}: {error}"
        );
    }
    let found = text(folder.call(search(), json!({"pattern": "secret"})).await);
    assert!(
        found.starts_with("2 matches in 2 files\nNot readable: open/hidden\n\n"),
        "{found}"
    );
    set_mode("closed", 0o755);
    assert_eq!(std::fs::read(folder.path("closed/file")).unwrap(), b"secret");
    assert_eq!(std::fs::read(folder.path("open/marked")).unwrap(), b"secret");
    assert_eq!(names(&folder), ["closed", "open"]);
    let workspace = Workspace::open(&folder.path("")).unwrap();
    let files: Vec<String> = workspace.walk(&[], Hidden::Include).unwrap().collect();
    assert_eq!(files, ["closed/file", "open/hidden", "open/marked"]);
}
