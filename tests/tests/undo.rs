//! LOOP-8: a run's changes to files can be shown and undone, but never overwrite what somebody else wrote.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use dirigent::{Dirigent, DirigentError, Goal, RefusalReason, RefusedPath, RunId, UndoStep};
use dirigent_model_server::{Script, Turn};
use dirigent_tests::cli::{Ended, Place};
use dirigent_tests::pty::Terminal;
use dirigent_tests::scripted::{Scripted, achieved, after, calls, plan};
use dirigent_tests::served::{self, Served, call, is_reflector};
use dirigent_tests::stage::Stage;
use serde_json::{Value, json};

/// Content and permissions of every file.
fn tree(place: &Place) -> BTreeMap<String, (Vec<u8>, u32)> {
    let mode = |path: &str| {
        let metadata = fs::metadata(place.work().join(path)).unwrap();
        metadata.permissions().mode()
    };
    let files = place.files().into_iter();
    files
        .map(|(path, content)| (path.clone(), (content, mode(&path))))
        .collect()
}

fn shop() -> Place {
    let place = Place::new();
    place.write(
        "price.js",
        "export function parsePrice(text) { return Number(text); }\r\n",
    );
    place.write(
        "cart.js",
        "import { parsePrice } from './price.js';\nexport const sum = parsePrice('1');",
    );
    place.write("notes.txt", "parsePrice reads prices.\n");
    let script = place.work().join("price.js");
    fs::set_permissions(script, fs::Permissions::from_mode(0o750)).unwrap();
    place
}

fn rename(place: &Place) -> Ended {
    place
        .run("rename the function parsePrice to readPrice")
        .with_code(0)
}

/// Compares the output, without the parts that differ between runs.
#[track_caller]
fn check(place: &Place, printed: &str, expected: &str) {
    let folder = place.folder().canonicalize().unwrap();
    let printed = printed.replace(folder.to_str().unwrap(), "PLACE");
    let redacted = printed
        .split(' ')
        .map(|word| {
            let digits = word.trim_end_matches(['`', ',', '.', '\n', ':', ';']);
            let is_id = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            if is_id {
                word.replace(digits, "RUN")
            } else {
                word.to_owned()
            }
        })
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(redacted, expected);
}

#[test]
fn a_rename_is_undone_byte_for_byte() {
    let place = shop();
    let before = tree(&place);
    let ended = rename(&place);
    let hint = ended.stdout.lines().last().unwrap();
    assert!(hint.starts_with("See the changes with `dirigent diff "), "{hint}");
    assert!(hint.contains("undo them with `dirigent undo "), "{hint}");
    assert_ne!(tree(&place), before);

    let shown = place.dirigent(["undo", "last", "--dry-run"]).with_code(0);
    check(
        &place,
        &shown.stdout,
        "To undo the changes of run RUN in PLACE/work:\n  restore   cart.js\n  restore   price.js\n",
    );
    assert_ne!(tree(&place), before);
    let unasked = place.dirigent(["undo", "last"]).with_code(2);
    assert_eq!(unasked.stderr, "nothing was undone: confirm with --yes\n");
    assert_ne!(tree(&place), before);

    let undone = place.dirigent(["undo", "last", "--yes"]).with_code(0);
    assert!(
        undone.stdout.ends_with("Undid the changes to 2 files.\n"),
        "{undone}"
    );
    assert_eq!(tree(&place), before);
    let again = place.dirigent(["undo", "last", "--yes"]).with_code(0);
    check(
        &place,
        &again.stdout,
        "Nothing to undo: run RUN left no files changed.\n",
    );
}

#[test]
fn with_json_an_undo_asks_nothing_and_points_to_yes() {
    let place = shop();
    let _ = rename(&place);
    let left = tree(&place);

    let shown = Terminal::start(place.command(["undo", "last", "--json"])).end_with(2);

    assert!(shown.contains("confirm with --yes"), "{shown}");
    assert_eq!(tree(&place), left);
}

#[test]
fn a_file_that_has_changed_since_the_run_is_never_overwritten() {
    let place = shop();
    let before = tree(&place);
    let _ = rename(&place);
    let mine = format!("{}// mine\n", place.read("price.js"));
    place.write("price.js", &mine);
    let left = tree(&place);

    let refused = place.dirigent(["undo", "last", "--yes"]).with_code(2);
    check(
        &place,
        &refused.stdout,
        "To undo the changes of run RUN in PLACE/work:\n  restore   cart.js\n  restore   price.js\n\
         Cannot be undone:\n  price.js has changed since the run\n\
         So nothing is undone. See the changes of the run with `dirigent diff RUN`; undo the other files with `dirigent undo RUN --skip-changed`.\n",
    );
    assert_eq!(tree(&place), left);

    let rest = place
        .dirigent(["undo", "last", "--skip-changed", "--yes", "--json"])
        .with_code(0);
    let told = &rest.json_lines()[0];
    assert_eq!(
        told["steps"],
        json!([{"action": "restore", "path": "cart.js", "changed_by_others": false}])
    );
    assert_eq!(
        told["refused"],
        json!([{"path": "price.js", "reason": "changed"}])
    );
    assert_eq!(told["undone"]["done"], told["steps"]);
    assert_eq!(tree(&place)["cart.js"], before["cart.js"]);
    assert_eq!(place.read("price.js"), mine);
}

#[test]
fn git_can_revert_the_diff_of_a_run() {
    let place = shop();
    let before = place.files();
    let _ = rename(&place);
    let shown = place.dirigent(["diff", "last"]).with_code(0).stdout;
    let patch = place.folder().join("run.patch");
    fs::write(&patch, &shown).unwrap();

    let mut git = Command::new("git");
    place.settle(&mut git);
    let applied = git
        .args(["apply", "-R"])
        .arg(&patch)
        .current_dir(place.work())
        .output()
        .unwrap();

    assert!(applied.status.success(), "{applied:?}\n{shown}");
    // Git records no permissions except the executable bit.
    assert_eq!(place.files(), before);
    // The workspace no longer has the run's content, so the diff is made from what the tools reported.
    let told = place.dirigent(["diff", "last"]).with_code(0).stdout;
    assert!(
        told.starts_with("# cart.js: its content before or after these changes is unknown"),
        "{told}"
    );
    assert!(told.contains("\n+export const sum = readPrice('1');"), "{told}");
}

#[test]
fn a_diff_is_the_same_before_and_after_the_undo() {
    let place = shop();
    let _ = rename(&place);
    let shown = place.dirigent(["diff", "last"]).with_code(0).stdout;
    let _ = place.dirigent(["undo", "last", "--yes"]).with_code(0);
    assert_eq!(place.dirigent(["diff", "last"]).with_code(0).stdout, shown);
    assert_eq!(
        place
            .dirigent(["diff", "last", "--json"])
            .with_code(0)
            .json_lines()[0]["diff"],
        shown
    );
}

#[test]
fn diff_and_undo_refuse_to_begin_after_an_unknown_entry() {
    let place = shop();
    let _ = rename(&place);
    let changed = place.files();
    for command in ["diff", "undo"] {
        let refused = place.dirigent([command, "last", "--after", "9999"]).with_code(2);
        assert!(refused.stderr.contains("has no entry 9999"), "{refused}");
    }
    assert_eq!(place.files(), changed);
}

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
    assert!(matches!(
        undo.apply().await,
        Err(DirigentError::UndoRefused { refused: 1 })
    ));
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

#[test]
fn an_undo_does_not_follow_links_out_of_the_workspace() {
    let place = shop();
    let before = place.read("price.js");
    let _ = rename(&place);
    // A folder of the workspace was replaced by a link that leads out of it.
    let outside = place.folder().join("outside");
    fs::create_dir(&outside).unwrap();
    let work = place.work();
    fs::rename(work.join("price.js"), outside.join("price.js")).unwrap();
    std::os::unix::fs::symlink(outside.join("price.js"), work.join("price.js")).unwrap();
    let renamed = fs::read_to_string(outside.join("price.js")).unwrap();

    let refused = place.dirigent(["undo", "last", "--yes"]).with_code(2);

    assert!(
        refused.stdout.contains("price.js has changed since the run"),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(outside.join("price.js")).unwrap(), renamed);
    assert_ne!(renamed, before);
}

/// The lead's next call, and what the user does in the workspace before it.
type Step = (fn(&Path), &'static str, Value);

fn nothing(_: &Path) {}

fn edit(old: &str, new: &str) -> Value {
    json!({"operation": "edit", "path": "notes.txt", "old": old, "new": new})
}

/// A run whose lead makes these calls, in a workspace with `notes.txt` and `other.txt`.
fn acted<const N: usize>(steps: [Step; N]) -> (Served, Ended) {
    let workspace: Arc<OnceLock<std::path::PathBuf>> = Arc::default();
    let work = workspace.clone();
    let script = Script::from_fn(move |request| match steps.get(request.turn - 1) {
        _ if is_reflector(request) => served::achieved("It is done."),
        Some((meanwhile, tool, parameters)) => {
            meanwhile(work.get().unwrap());
            call(tool, parameters)
        }
        None => Turn::text("Done."),
    });
    let served = Served::new("", script);
    workspace.set(served.place.work()).unwrap();
    served.place.write("notes.txt", "one\n");
    served.place.write("other.txt", "other\n");
    let ended = served.place.run("change the notes").with_code(0);
    (served, ended)
}

const MAKE: &str = "echo made > made.txt; echo more >> other.txt";

/// A file tool changes the notes, the user creates a file, and while a command runs, one file is created and another changed.
fn with_command() -> (Served, Ended) {
    acted([
        (nothing, "file_operations", edit("one", "two")),
        (
            |work| fs::write(work.join("user.txt"), "mine\n").unwrap(),
            "execute_command",
            json!({"command": MAKE}),
        ),
    ])
}

#[test]
fn paor_10_a_summary_and_a_diff_list_changes_during_commands_separately() {
    let (served, ended) = with_command();
    let place = &served.place;
    let told = format!(
        "\nChanged 1 file:\n  edited   notes.txt\n\n2 files changed while `{MAKE}` ran, by this command or something else:\n  created  made.txt\n  edited   other.txt\n"
    );
    assert!(ended.stdout.contains(&told), "{ended}");
    assert!(!ended.stdout.contains("user.txt"), "{ended}");

    let diff = place.dirigent(["diff", "last"]).with_code(0).stdout;
    let (own, during) = diff.split_once("# changed while").unwrap();
    assert!(own.contains("\n-one\n+two\n"), "{own}");
    assert!(!own.contains("made.txt"), "{own}");
    assert!(
        during.starts_with(&format!(
            " `{MAKE}` ran, by this command or something else:\n# created made.txt\n# diff --git"
        )),
        "{during}"
    );
    assert!(during.contains("\n# +made\n"), "{during}");
    assert!(
        during.ends_with(
            "\n# edited other.txt (no diff: its content before or after the command is unknown)\n"
        ),
        "{during}"
    );
    assert!(!diff.contains("user.txt"), "{diff}");
    let json = place.dirigent(["diff", "last", "--json"]).with_code(0);
    let json = &json.json_lines()[0];
    assert_eq!(json["diff"], diff);
    assert_eq!(json["files"][0]["path"], "notes.txt");
    assert_eq!(json["files"].as_array().unwrap().len(), 1);
    let command = &json["commands"][0];
    assert_eq!(command["command"], MAKE);
    assert_eq!(command["files"][0]["kind"], "created");
    assert_eq!(
        command["files"][1],
        json!({"path": "other.txt", "kind": "edited", "diff": null})
    );

    // Git reverts the run's changes, and nothing else.
    let patch = place.folder().join("run.patch");
    fs::write(&patch, &diff).unwrap();
    let mut git = Command::new("git");
    place.settle(&mut git);
    let applied = git
        .args(["apply", "-R"])
        .arg(&patch)
        .current_dir(place.work())
        .output();
    assert!(applied.unwrap().status.success(), "{diff}");
    assert_eq!(place.read("notes.txt"), "one\n");
    assert_eq!(place.read("made.txt"), "made\n");
}

#[test]
fn paor_10_changes_during_a_command_are_undone_only_on_request() {
    let (served, _) = with_command();
    let place = &served.place;
    let shown = place.dirigent(["undo", "last", "--dry-run"]).with_code(0);
    let preview = format!(
        "To undo the changes of run RUN in PLACE/work:\n  restore   notes.txt\n\
         Also changed while `{MAKE}` ran, by this command or something else:\n  created   made.txt\n  \
         edited    other.txt  (cannot be restored: its content before or after the command is unknown)\n\
         Not undone, because only changes to files can be undone:\n  other effects of `{MAKE}`\n\
         Changes made while commands were running are not undone. To undo them as well: `dirigent undo RUN --include-commands`.\n"
    );
    check(place, &shown.stdout, &preview);

    let _ = place.dirigent(["undo", "last", "--yes"]).with_code(0);
    assert_eq!(place.read("notes.txt"), "one\n");
    assert_eq!(place.read("made.txt"), "made\n");

    let undone = place
        .dirigent(["undo", "last", "--yes", "--include-commands", "--json"])
        .with_code(0);
    let undone = &undone.json_lines()[0];
    assert_eq!(
        undone["undone"]["done"],
        json!([{"action": "delete", "path": "made.txt"}])
    );
    assert_eq!(undone["includes_commands"], true);
    assert_eq!(
        undone["commands"][0]["files"][1],
        json!({"path": "other.txt", "kind": "edited", "restorable": false})
    );
    assert!(!place.work().join("made.txt").exists());
    assert_eq!(place.read("other.txt"), "other\nmore\n");
    assert_eq!(place.read("user.txt"), "mine\n");
}

#[test]
fn paor_10_in_a_terminal_undo_asks_about_what_changed_while_a_command_ran() {
    let (served, _) = with_command();
    let place = &served.place;
    let terminal = Terminal::start(place.command(["undo", "last"]));
    terminal.wait_for_prompt("Also undo changes made while commands were running? [y/N]");
    assert!(!terminal.contents().contains("delete    made.txt"));
    terminal.enters("y");
    terminal.wait_for_prompt("Undo these changes? [y/N]");
    terminal.enters("y");
    let shown = terminal.end_with(0);
    assert!(shown.contains("delete    made.txt"), "{shown}");
    assert!(!place.work().join("made.txt").exists());
    assert_eq!(place.read("notes.txt"), "one\n");
}

#[test]
fn paor_10_a_file_changed_by_a_tool_and_a_command_is_undone_fully_or_not_at_all() {
    let (served, _) = acted([
        (nothing, "file_operations", edit("one", "two")),
        (
            nothing,
            "execute_command",
            json!({"command": "echo more >> notes.txt"}),
        ),
    ]);
    let place = &served.place;
    let diff = place.dirigent(["diff", "last"]).with_code(0).stdout;
    let (own, during) = diff.split_once("# changed while").unwrap();
    assert!(own.ends_with("@@ -1 +1 @@\n-one\n+two\n"), "{own}");
    assert!(during.ends_with("# @@ -1 +1,2 @@\n#  two\n# +more\n"), "{during}");

    let refused = place.dirigent(["undo", "last", "--yes"]).with_code(2);
    let reason = "Cannot be undone:\n  notes.txt also changed while `echo more >> notes.txt` ran, by this command or something else\n";
    assert!(refused.stdout.contains(reason), "{refused}");
    assert_eq!(place.read("notes.txt"), "two\nmore\n");

    let _ = place
        .dirigent(["undo", "last", "--yes", "--include-commands"])
        .with_code(0);
    assert_eq!(place.read("notes.txt"), "one\n");
}

#[test]
fn paor_10_changes_of_the_user_between_two_calls_are_not_in_the_diff() {
    let (served, _) = acted([
        (nothing, "file_operations", edit("one", "two")),
        (
            |work| fs::write(work.join("notes.txt"), "two\nmine\n").unwrap(),
            "file_operations",
            json!({"operation": "read", "path": "notes.txt"}),
        ),
        (nothing, "file_operations", edit("two", "three")),
    ]);
    let diff = served.place.dirigent(["diff", "last"]).with_code(0).stdout;
    assert!(diff.contains("\n-one\n+two\n"), "{diff}");
    assert!(diff.contains("\n-two\n+three\n mine\n"), "{diff}");
    assert!(!diff.contains("+mine"), "{diff}");
}
