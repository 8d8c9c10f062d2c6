//! PAOR-10: files that changed while commands ran are shown apart from a run's own changes, and undone only on request.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use dirigent_model_server::{Script, Turn};
use dirigent_tests::cli::Ended;
use dirigent_tests::pty::Terminal;
use dirigent_tests::served::{self, Served, call, is_reflector};
use serde_json::{Value, json};

use super::check;

/// The lead's next call, and what the user does in the workspace before it.
type Step = (fn(&Path), &'static str, Value);

fn nothing(_: &Path) {}

fn edit(old: &str, new: &str) -> Value {
    json!({"operation": "edit", "path": "notes.txt", "old": old, "new": new})
}

/// A text too large for its content to be known before a command.
fn other() -> String {
    "other\n".repeat(50_000)
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
    served.place.write("other.txt", &other());
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
    assert_eq!(json["files"][0]["also_changed"], false);
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
    assert_eq!(place.read("other.txt"), other() + "more\n");
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
    let shown = place.dirigent(["diff", "last"]).with_code(0);
    let note = "`git apply` may refuse the diff of notes.txt: commands or others changed the same file, which the diff leaves out\n";
    assert!(shown.stderr.contains(note), "{shown}");
    let json = place.dirigent(["diff", "last", "--json"]).with_code(0);
    assert_eq!(json.json_lines()[0]["files"][0]["also_changed"], true);
    let diff = shown.stdout;
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
