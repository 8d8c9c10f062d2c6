//! Undoing through the library: files that were created, edited, moved and deleted, and what is left as it is.

use std::fs;
use std::path::Path;

use dirigent::{Dirigent, DirigentError, Goal, RefusalReason, RefusedPath, RunId, UndoStep};
use dirigent_tests::scripted::{Scripted, achieved, after, calls, plan};
use dirigent_tests::stage::Stage;
use serde_json::{Value, json};

/// A run in which the plan's calls create, edit, move and delete files.
async fn all_kinds(stage: &Stage) -> (Dirigent, RunId) {
    let files = |operation: Value| ("file_operations", operation);
    let model = Scripted::new()
        .lead([plan(
            "All kinds.",
            [
                calls(
                    "first",
                    [
                        files(json!({"operation": "write", "path": "new/deep.txt", "content": "new\n"})),
                        files(json!({"operation": "edit", "path": "a.txt", "old": "one", "new": "two"})),
                        files(json!({"operation": "move", "from": "b.txt", "to": "moved/b.txt"})),
                    ],
                ),
                after(
                    calls(
                        "second",
                        [
                            files(
                                json!({"operation": "edit", "path": "a.txt", "old": "two", "new": "three"}),
                            ),
                            files(json!({"operation": "delete", "path": "c.txt"})),
                            files(json!({"operation": "move", "from": "folder", "to": "other"})),
                            files(
                                json!({"operation": "edit", "path": "other/d.txt", "old": "d", "new": "D"}),
                            ),
                        ],
                    ),
                    ["first"],
                ),
            ],
        )])
        .reflector([achieved("Done.")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let run = dirigent.start(stage.goal("all kinds")).await.unwrap();
    let report = run.outcome().await.unwrap();
    assert!(report.is_achieved(), "{}", report.summary);
    let id = run.id();
    drop(run);
    (dirigent, id)
}

fn stage() -> Stage {
    Stage::new()
        .file("a.txt", "one\n")
        .file("b.txt", "b\n")
        .file("c.txt", "c\n")
        .file("folder/d.txt", "d\n")
}

fn contents(root: &Path) -> Vec<(String, Vec<u8>)> {
    dirigent_tests::cli::files(root)
}

/// The run is released a moment after its outcome, when its supervisor has ended.
async fn undo(dirigent: &Dirigent, run: RunId, after: Option<u64>) -> dirigent::Undo {
    loop {
        match dirigent.undo(run, after).await {
            Err(DirigentError::RunActive { .. }) => tokio::task::yield_now().await,
            undo => return undo.unwrap(),
        }
    }
}

#[tokio::test]
async fn created_edited_moved_and_deleted_files_are_restored() {
    let stage = stage();
    let before = contents(&stage.workspace());
    let (dirigent, run) = all_kinds(&stage).await;
    assert_ne!(contents(&stage.workspace()), before);

    let undo = undo(&dirigent, run, None).await;

    assert_eq!(undo.refused(), []);
    let undone = undo.apply().await.unwrap();
    assert_eq!(undone.failed, []);
    assert!(
        undone.done.contains(&UndoStep::Move {
            from: "other".to_owned(),
            to: "folder".to_owned()
        }),
        "{:?}",
        undone.done
    );
    assert_eq!(contents(&stage.workspace()), before);
}

#[tokio::test]
async fn undoing_to_an_entry_restores_the_files_as_of_that_entry() {
    let stage = stage();
    let (dirigent, run) = all_kinds(&stage).await;
    let (_, events) = dirigent.read(run).await.unwrap();
    let third = events
        .iter()
        .filter(|event| matches!(event.kind, dirigent::EventKind::ToolFinished { .. }))
        .nth(2)
        .unwrap();

    let undone = undo(&dirigent, run, Some(third.seq)).await.apply().await.unwrap();

    assert_eq!(undone.failed, []);
    let found: Vec<_> = contents(&stage.workspace())
        .into_iter()
        .map(|(path, content)| format!("{path}: {}", String::from_utf8(content).unwrap().trim()))
        .collect();
    assert_eq!(
        found,
        [
            "a.txt: two",
            "c.txt: c",
            "folder/d.txt: d",
            "moved/b.txt: b",
            "new/deep.txt: new"
        ]
    );
}

#[tokio::test]
async fn a_moved_file_that_has_changed_since_is_not_undone_at_either_path() {
    let stage = stage();
    let (dirigent, run) = all_kinds(&stage).await;
    fs::write(stage.workspace().join("moved/b.txt"), "mine\n").unwrap();
    let undo = undo(&dirigent, run, None).await;

    let refused: Vec<_> = undo
        .refused()
        .iter()
        .map(|refused| refused.path.as_str())
        .collect();
    assert_eq!(refused, ["moved/b.txt"]);
    let error = undo.apply().await.unwrap_err();
    assert!(matches!(&error, DirigentError::UndoRefused { refused } if refused == undo.refused()));
    assert!(
        error.to_string().starts_with("nothing was undone: moved/b.txt "),
        "{error}"
    );
    assert_eq!(stage.read("a.txt"), "three\n");

    let _ = undo.skip_refused().apply().await.unwrap();
    assert_eq!(stage.read("moved/b.txt"), "mine\n");
    assert!(!stage.workspace().join("b.txt").exists());
    assert_eq!(stage.read("a.txt"), "one\n");
    assert_eq!(stage.read("c.txt"), "c\n");
}

/// A run that makes these file operations, one after the other.
async fn doing<const N: usize>(stage: &Stage, operations: [Value; N]) -> (Dirigent, RunId) {
    let operations = operations.map(|operation| ("file_operations", operation));
    let model = Scripted::new()
        .lead([plan("Files.", [calls("files", operations)])])
        .reflector([achieved("Done.")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let run = dirigent.start(stage.goal("files")).await.unwrap();
    let report = run.outcome().await.unwrap();
    assert!(report.is_achieved(), "{}", report.summary);
    let id = run.id();
    drop(run);
    (dirigent, id)
}

#[tokio::test]
async fn a_moved_file_stays_at_its_new_path_if_its_old_path_is_blocked() {
    let stage = Stage::new().file("sub/b.txt", "b\n").file("c.txt", "c\n");
    let operations = [
        json!({"operation": "move", "from": "sub/b.txt", "to": "moved/b.txt"}),
        json!({"operation": "move", "from": "c.txt", "to": "d.txt"}),
    ];
    let (dirigent, run) = doing(&stage, operations).await;
    let undo = undo(&dirigent, run, None).await;
    // A file now has the folder's path.
    fs::remove_dir(stage.workspace().join("sub")).unwrap();
    fs::write(stage.workspace().join("sub"), "mine\n").unwrap();

    let undone = undo.apply().await.unwrap();

    assert_eq!(stage.read("moved/b.txt"), "b\n");
    assert_eq!(stage.read("sub"), "mine\n");
    let failed: Vec<&str> = undone.failed.iter().map(|failed| failed.path.as_str()).collect();
    assert_eq!(failed, ["sub/b.txt", "moved/b.txt"]);
    assert_eq!(
        undone.failed[1].reason,
        RefusalReason::DependsOn {
            with: "sub/b.txt".to_owned()
        }
    );
    // The other files are restored.
    assert_eq!(stage.read("c.txt"), "c\n");
    assert!(!stage.workspace().join("d.txt").exists());
}

#[tokio::test]
async fn if_a_folder_cannot_be_moved_back_nothing_is_restored_in_its_place() {
    let stage = Stage::new()
        .file("other", "a file\n")
        .file("in/folder/x.txt", "x\n");
    let operations = [
        json!({"operation": "delete", "path": "other"}),
        json!({"operation": "move", "from": "in/folder", "to": "other"}),
        json!({"operation": "delete", "path": "other/x.txt"}),
    ];
    let (dirigent, run) = doing(&stage, operations).await;
    let undo = undo(&dirigent, run, None).await;
    fs::remove_dir(stage.workspace().join("in")).unwrap();
    fs::write(stage.workspace().join("in"), "mine\n").unwrap();

    let undone = undo.apply().await.unwrap();

    assert_eq!(
        undone.failed[1..],
        [RefusedPath {
            path: "other".to_owned(),
            reason: RefusalReason::DependsOn {
                with: "other".to_owned()
            }
        }]
    );
    assert_eq!(stage.read("other/x.txt"), "x\n");
}

#[tokio::test]
async fn a_missing_folder_and_an_unknown_entry_are_named() {
    let stage = stage();
    let (dirigent, run) = all_kinds(&stage).await;
    let _ = undo(&dirigent, run, None).await;
    let no_entry = dirigent.undo(run, Some(9_999)).await.unwrap_err().to_string();
    assert!(no_entry.contains("has no entry 9999"), "{no_entry}");

    fs::rename(stage.workspace(), stage.workspace().with_extension("away")).unwrap();

    let gone = dirigent.undo(run, None).await.unwrap_err();
    assert!(matches!(gone, DirigentError::Workspace { .. }), "{gone}");
    // The changes can still be shown, as far as they are known.
    let diff = String::from_utf8(dirigent.diff(run, None).await.unwrap().bytes()).unwrap();
    assert!(diff.contains("+three"), "{diff}");
}

#[tokio::test]
async fn an_active_run_is_not_undone() {
    let stage = stage();
    let gate = dirigent_tests::scripted::Gate::shut();
    let model = Scripted::new().lead([achieved("never").behind(&gate)]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let run = dirigent
        .start(Goal::new("wait").workspace(stage.workspace()))
        .await
        .unwrap();

    let refused = dirigent.undo(run.id(), None).await.unwrap_err();

    assert!(matches!(refused, DirigentError::RunActive { .. }), "{refused}");
    let error = refused.to_string();
    assert!(error.starts_with("nothing was done, because run "), "{error}");
    assert!(error.contains(&run.id().short()), "{error}");
    run.cancel().unwrap();
    let _ = run.outcome().await;
}
