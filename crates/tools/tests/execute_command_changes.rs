//! What a command changes: the files that are reported with its exit (LOOP-8), and their earlier content (PAOR-10).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::{FileVersion, SeenFile, StateChange};
use dirigent_tools::{ContentStore, RunChanges, ToolContext};
use serde_json::json;
use tempfile::TempDir;

use crate::execute_command::{run_in, shell};
use crate::folder::context;

#[tokio::test]
async fn loop_8_a_commands_changed_files_are_reported_with_its_exit() {
    let workspace = TempDir::new().unwrap();
    for (name, text) in [
        ("kept", "a"),
        ("edited", "a"),
        ("deleted", "a"),
        (".gitignore", "ignored\n"),
    ] {
        std::fs::write(workspace.path().join(name), text).unwrap();
    }
    let script = "cat kept; echo more >> edited; rm deleted; mkdir -p sub .git; echo new > sub/created; echo x > ignored; echo x > .git/x; \
                  exit 3";
    let result = shell(&workspace, script).await;
    let [exited @ StateChange::ProcessExited { files, .. }] = &result.changes[..] else {
        panic!("{:?}", result.changes);
    };
    assert!(
        exited.to_string().ends_with(
            "` exited with 3; changed while it ran: deleted deleted, edited edited, created sub/created"
        ),
        "{exited}"
    );
    // The files' earlier content is known although no tool has read them.
    assert!(
        matches!(&files[..], [
            StateChange::FileDeleted { before: Some(_), diff: Some(_), .. },
            StateChange::FileEdited { before: Some(_), after: Some(_), diff: Some(_), .. },
            StateChange::FileCreated { after: Some(after), .. },
        ] if after.digest == sha256_hex(b"new\n")),
        "{files:?}"
    );
}

#[tokio::test]
async fn paor_10_the_content_of_seen_files_before_a_command_is_recorded() {
    let workspace = TempDir::new().unwrap();
    for name in ["edited", "deleted", "touched"] {
        std::fs::write(workspace.path().join(name), format!("{name}\n")).unwrap();
    }
    let seen = ["edited", "deleted", "touched"].map(|name| {
        let digest = Some(sha256_hex(format!("{name}\n").as_bytes()));
        let seen = SeenFile {
            path: name.to_owned(),
            digest,
            unseen_from: None,
        };
        (name.to_owned(), seen)
    });
    let recorded = Arc::new(Recorded::default());
    let context = ToolContext {
        seen: Some(Arc::new(seen.into_iter().collect())),
        content_store: Some(recorded.clone()),
        ..context(workspace.path())
    };
    let script = json!({"command": "echo more >> edited; rm deleted; touch touched"});
    let result = run_in(context, script).await;

    let [StateChange::ProcessExited { files, .. }] = &result.changes[..] else {
        panic!("{:?}", result.changes);
    };
    let [
        StateChange::FileDeleted {
            before: Some(deleted),
            diff: Some(_),
            ..
        },
        StateChange::FileEdited {
            before: Some(edited),
            after: Some(_),
            diff: Some(diff),
            ..
        },
    ] = &files[..]
    else {
        panic!("{files:?}");
    };
    assert_eq!(
        diff,
        "--- a/edited\n+++ b/edited\n@@ -1 +1,2 @@\n edited\n+more\n"
    );
    let recorded = recorded.0.lock().unwrap().clone();
    assert_eq!(
        recorded,
        BTreeMap::from([
            (deleted.digest.clone(), b"deleted\n".to_vec()),
            (edited.digest.clone(), b"edited\n".to_vec())
        ])
    );
}

/// The recorded contents, by digest.
#[derive(Debug, Default)]
struct Recorded(Mutex<BTreeMap<String, Vec<u8>>>);

impl ContentStore for Recorded {
    fn record(&self, _: &str, version: &FileVersion, bytes: &[u8]) -> Result<(), String> {
        let mut recorded = self.0.lock().unwrap();
        recorded.insert(version.digest.clone(), bytes.to_vec());
        Ok(())
    }

    fn load(&self, digest: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.0.lock().unwrap().get(digest).cloned())
    }

    fn run_changes(&self) -> Result<RunChanges, String> {
        Err("there is no run".to_owned())
    }
}
