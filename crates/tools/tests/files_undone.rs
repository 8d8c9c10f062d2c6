//! `file_operations` with `undo`: restores files to their state before the run (PAOR-5, HOST-4).
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::folder::Folder;
use dirigent_core::id::Scope;
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::{Access, FileVersion, SeenFiles, StateChange, ToolOutcome, ToolResult};
use dirigent_core::undo::UndoPlan;
use dirigent_tools::{ContentStore, RunChanges, Tool, file_operations};
use serde_json::{Value, json};

/// A run's journal and recorded contents.
#[derive(Debug, Default)]
struct TestContentStore {
    kept: Mutex<BTreeMap<String, Vec<u8>>>,
    entries: Mutex<Vec<Entry>>,
    unreported: Mutex<Vec<(String, FileVersion)>>,
}

impl ContentStore for TestContentStore {
    fn record(&self, _: &str, version: &FileVersion, bytes: &[u8]) -> Result<(), String> {
        self.kept
            .lock()
            .unwrap()
            .insert(version.digest.clone(), bytes.to_vec());
        Ok(())
    }

    fn load(&self, digest: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.kept.lock().unwrap().get(digest).cloned())
    }

    fn run_changes(&self) -> Result<RunChanges, String> {
        Ok(RunChanges {
            undoing: UndoPlan::from_entries(&*self.entries.lock().unwrap(), 0),
            unreported: self.unreported.lock().unwrap().clone(),
        })
    }
}

/// A workspace with a run in it.
struct Stage {
    folder: Folder,
    past: Arc<TestContentStore>,
}

impl Stage {
    fn with(files: &[(&str, &[u8])]) -> Self {
        Stage {
            folder: Folder::with(files),
            past: Arc::new(TestContentStore::default()),
        }
    }

    async fn call(&self, parameters: Value, seen: Option<SeenFiles>, access: Access) -> ToolResult {
        let mut context = self.folder.context();
        context.content_store = Some(self.past.clone());
        context.seen = seen.map(Arc::new);
        context.access = access;
        file_operations().call(context, parameters).await
    }

    /// Makes a call of the run's plan, and journals it.
    async fn run(&self, parameters: Value) -> ToolResult {
        let result = self.call(parameters, None, Access::ReadWrite).await;
        self.journal(result.clone());
        result
    }

    /// Journals a command of the run's plan that created or changed files, as far as their names and times show.
    fn command(&self, exited: StateChange) {
        self.journal(ToolResult::success(Value::Null).with_changes(vec![exited]));
    }

    fn journal(&self, result: ToolResult) {
        let mut entries = self.past.entries.lock().unwrap();
        let effect = format!("run.{}", entries.len() + 2).parse().unwrap();
        for input in [
            RunInput::ToolStarted { effect },
            RunInput::ToolFinished { effect, result },
        ] {
            let seq = entries.len() as u64 + 1;
            entries.push(Entry {
                run: self.folder.context().run,
                scope: Scope::Run,
                seq,
                at: Timestamp(0),
                input: Input::Run(input),
            });
        }
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.folder.path(path)).unwrap()
    }
}

fn output(result: &ToolResult) -> &Value {
    match &result.outcome {
        ToolOutcome::Success { output } | ToolOutcome::Failure { output, .. } => output,
    }
}

fn code(result: &ToolResult) -> &str {
    match &result.outcome {
        ToolOutcome::Success { output } => panic!("it succeeded: {output}"),
        ToolOutcome::Failure { code, .. } => code,
    }
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"operation": "edit", "path": path, "old": old, "new": new})
}

/// A run that has edited, created, deleted and moved files.
async fn busy() -> Stage {
    let stage = Stage::with(&[("a", b"one\n"), ("b", b"two\n"), ("c", b"three\n")]);
    for call in [
        edit("a", "one", "1"),
        edit("a", "1", "I"),
        json!({"operation": "write", "path": "new", "content": "new\n"}),
        json!({"operation": "delete", "path": "b"}),
        json!({"operation": "move", "from": "c", "to": "d"}),
    ] {
        assert!(stage.run(call).await.succeeded());
    }
    stage
}

#[tokio::test]
async fn host_4_all_changes_of_a_run_are_undone() {
    let stage = busy().await;

    let result = stage.run(json!({"operation": "undo"})).await;

    assert!(result.succeeded(), "{result:?}");
    assert_eq!(output(&result)["not_restored"], json!([]));
    assert_eq!(stage.read("a"), "one\n");
    assert_eq!(stage.read("b"), "two\n");
    assert_eq!(stage.read("c"), "three\n");
    assert!(!stage.folder.path("new").exists() && !stage.folder.path("d").exists());
    assert!(
        matches!(&result.changes[0], StateChange::FileEdited { path, diff: Some(_), before: Some(_), after: Some(_) } if path == "a")
    );
    // The undo reported its own changes, so nothing is left to undo.
    let again = stage.run(json!({"operation": "undo"})).await;
    assert_eq!(code(&again), "not_found");
    assert_eq!(again.changes, []);
}

#[tokio::test]
async fn a_single_file_is_restored_unless_the_run_did_not_change_it() {
    let stage = busy().await;

    let result = stage.run(json!({"operation": "undo", "path": "./a"})).await;
    assert_eq!(output(&result), &json!({"restored": ["a"], "not_restored": []}));
    assert_eq!(stage.read("a"), "one\n");
    assert!(!stage.folder.path("b").exists());

    let other = stage.run(json!({"operation": "undo", "path": "other"})).await;
    assert_eq!(code(&other), "not_found");
}

#[tokio::test]
async fn paor_5_undo_keeps_later_changes_by_others_and_restores_the_rest() {
    let stage = busy().await;
    std::fs::write(stage.folder.path("a"), "mine\n").unwrap();

    let result = stage.run(json!({"operation": "undo"})).await;

    assert_eq!(code(&result), "changed");
    assert_eq!(
        output(&result)["not_restored"],
        json!([{"path": "a", "reason": "it has changed since the run changed it"}])
    );
    assert_eq!(stage.read("a"), "mine\n");
    assert_eq!(stage.read("b"), "two\n");
    assert_eq!(stage.read("c"), "three\n");
}

#[tokio::test]
async fn files_that_commands_created_are_kept_and_listed_separately() {
    let stage = busy().await;
    std::fs::write(stage.folder.path("lock"), "made\n").unwrap();
    std::fs::write(stage.folder.path("a"), "formatted\n").unwrap();
    let edited = |path: &str| StateChange::FileEdited {
        path: path.to_owned(),
        diff: None,
        before: None,
        after: None,
    };
    let created = StateChange::FileCreated {
        path: "lock".to_owned(),
        diff: None,
        after: None,
    };
    let files = vec![created, edited("a"), edited("other")];
    stage.command(StateChange::ProcessExited {
        command: "fmt".to_owned(),
        code: Some(0),
        files,
    });

    let result = stage.run(json!({"operation": "undo"})).await;

    let by_commands = "it changed while a command ran, and `undo` restores only what file tools changed";
    assert_eq!(
        output(&result)["not_restored"],
        json!([
            {"path": "a", "reason": "it has changed since the run changed it"},
            {"path": "lock", "reason": by_commands},
            {"path": "other", "reason": by_commands},
        ])
    );
    assert_eq!(
        (stage.read("lock"), stage.read("b")),
        ("made\n".to_owned(), "two\n".to_owned())
    );
}

#[tokio::test]
async fn paor_10_an_undo_where_only_commands_changed_files_fails_and_says_why() {
    let stage = Stage::with(&[("README.md", b"one\n")]);
    stage.command(StateChange::ProcessExited {
        command: "rm README.md".to_owned(),
        code: Some(0),
        files: vec![StateChange::FileDeleted {
            path: "README.md".to_owned(),
            diff: None,
            before: None,
        }],
    });
    for call in [
        json!({"operation": "undo"}),
        json!({"operation": "undo", "path": "README.md"}),
    ] {
        let result = stage.run(call).await;
        assert_eq!(code(&result), "not_kept");
        assert_eq!(output(&result)["not_restored"][0]["path"], "README.md");
        let error = format!("{:?}", result.outcome);
        assert!(
            error.contains("nothing was undone: `README.md` changed while a command ran"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn paor_5_an_agent_can_undo_only_files_whose_current_content_it_has_seen() {
    let stage = busy().await;
    let undo = json!({"operation": "undo", "path": "a"});

    let unseen = stage
        .call(undo.clone(), Some(SeenFiles::new()), Access::ReadWrite)
        .await;
    assert_eq!(code(&unseen), "changed");
    assert_eq!(stage.read("a"), "I\n");

    let read = json!({"operation": "read", "path": "a"});
    let seen = stage
        .call(read, Some(SeenFiles::new()), Access::ReadWrite)
        .await
        .seen;
    let seen: SeenFiles = seen.into_iter().map(|file| (file.path.clone(), file)).collect();
    let result = stage.call(undo, Some(seen), Access::ReadWrite).await;
    assert!(result.succeeded(), "{result:?}");
    assert_eq!(stage.read("a"), "one\n");
}

#[tokio::test]
async fn a_file_that_a_cut_off_call_may_have_changed_is_named() {
    let stage = busy().await;
    let version = FileVersion {
        digest: "0".repeat(64),
        mode: 0o100_644,
    };
    std::fs::write(stage.folder.path("e"), "half\n").unwrap();
    stage
        .past
        .unreported
        .lock()
        .unwrap()
        .push(("e".to_owned(), version));

    let result = stage.run(json!({"operation": "undo"})).await;

    assert_eq!(
        output(&result)["not_restored"],
        json!([{"path": "e", "reason": "an interrupted call may have changed it without reporting the change"}])
    );
    assert_eq!(stage.read("a"), "one\n");
}

#[tokio::test]
async fn undo_needs_write_access_and_a_known_run() {
    let stage = busy().await;
    let undo = json!({"operation": "undo"});
    let refused = stage.call(undo.clone(), None, Access::ReadOnly).await;
    assert_eq!(code(&refused), "access_denied");
    let unknown = stage.folder.call(file_operations(), undo).await;
    assert_eq!(code(&unknown), "not_kept");
    assert_eq!(stage.read("a"), "I\n");
}
