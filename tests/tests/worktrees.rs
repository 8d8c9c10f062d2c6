//! PAOR-10: runs in their own git worktrees, and runs that share a folder.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dirigent_model_server::{Gate, Script, Turn};
use dirigent_tests::cli::{Place, RENAME, Watched};
use dirigent_tests::pty::{Dimensions, Terminal, last_line};
use dirigent_tests::served::{Served, achieved, call, is_reflector, mentions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn git(folder: &Path, words: &[&str]) -> String {
    let done = Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
        .args(words)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// Makes the project a repository with one commit.
fn commit(place: &Place) {
    git(&place.work(), &["init", "-q"]);
    git(&place.work(), &["add", "."]);
    git(&place.work(), &["commit", "-q", "-m", "First"]);
}

fn shop() -> Place {
    let place = Place::with_shop();
    commit(&place);
    place
}

/// The project's files without the repository.
fn project(place: &Place) -> Vec<(String, Vec<u8>)> {
    let mut files = place.files();
    files.retain(|(path, _)| !path.starts_with(".git/"));
    files
}

fn rename(place: &Place) {
    let run = RENAME.iter().chain(&["--worktree"]);
    let ended = place.dirigent(run).with_code(0);
    assert!(
        ended.stderr.contains("Apply them with `dirigent apply "),
        "{ended}"
    );
}

/// The worktrees of the journal's runs.
fn worktrees(place: &Place) -> Vec<PathBuf> {
    let folder = place.folder().join("journal.db-worktrees");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.is_dir()).collect()
}

/// The newest run.
fn last(place: &Place) -> Value {
    let runs = place.dirigent(["runs", "--json"]).with_code(0);
    runs.json_lines().remove(0)
}

#[test]
fn paor_10_a_worktree_keeps_the_changes_apart_until_they_are_applied() {
    let place = shop();
    let before = project(&place);
    rename(&place);
    assert_eq!(project(&place), before);
    let [worktree] = &worktrees(&place)[..] else {
        panic!("one worktree")
    };
    assert_eq!(last(&place)["worktree"], json!(worktree.canonicalize().unwrap()));
    let shown = place.dirigent(["show", "last"]).with_code(0);
    assert!(shown.stdout.contains("journal.db-worktrees"), "{shown}");
    let diff = place.dirigent(["diff", "last"]).with_code(0);
    assert!(diff.stdout.contains("+export function readPrice"), "{diff}");

    // The user changes the project in the meantime.
    place.write("notes.txt", "parsePrice reads prices.\nI was here.\n");
    let applied = place.dirigent(["apply", "last"]).with_code(0);
    assert!(applied.stdout.contains("The worktree was removed."), "{applied}");
    assert!(place.read("price.js").contains("function readPrice"));
    assert!(place.read("notes.txt").contains("I was here."));
    assert!(worktrees(&place).is_empty());
    assert_eq!(git(&place.work(), &["worktree", "list"]).lines().count(), 1);
    assert_eq!(last(&place)["worktree"], Value::Null);
    let again = place.dirigent(["apply", "last"]).with_code(2);
    assert!(again.stderr.contains("has no worktree"), "{again}");
    let fork = place.dirigent(["fork", "last"]).with_code(2);
    assert!(
        fork.stderr.contains("the worktree of the run was removed"),
        "{fork}"
    );

    let undo = place.dirigent(["undo", "last", "--yes"]).with_code(2);
    let origin = place.work().canonicalize().unwrap();
    for part in [
        "the worktree of the run was removed",
        &origin.to_string_lossy(),
        "`git apply -R`",
    ] {
        assert!(undo.stderr.contains(part), "{undo}");
    }
    let diff = place.folder().join("run.diff");
    fs::write(&diff, place.dirigent(["diff", "last"]).with_code(0).stdout).unwrap();
    git(&place.work(), &["apply", "-R", &diff.to_string_lossy()]);
    assert!(place.read("price.js").contains("function parsePrice"));
}

#[test]
fn paor_10_changes_that_conflict_are_named_and_none_is_applied() {
    let place = shop();
    rename(&place);
    place.write("price.js", "export function parsePrice(all) { return all; }\n");
    let before = project(&place);
    let refused = place.dirigent(["apply", "last"]).with_code(2);
    assert!(
        refused.stderr.contains("nothing was applied: price.js changed"),
        "{refused}"
    );
    assert_eq!(project(&place), before);
    assert_eq!(worktrees(&place).len(), 1);

    let _ = place.dirigent(["apply", "last", "--discard"]).with_code(0);
    assert_eq!(project(&place), before);
    assert_eq!(worktrees(&place).len(), 0);
}

#[test]
fn paor_10_a_subfolder_can_be_the_workspace_and_uncommitted_changes_are_reported() {
    let place = Place::new();
    place.write(
        "sub/price.js",
        "export function parsePrice(text) { return Number(text); }\n",
    );
    commit(&place);
    place.write("sub/new.js", "parsePrice(1);\n");
    let run = ["run", RENAME[1], "--workspace", "work/sub", "--worktree"];
    let ended = place.dirigent(run).with_code(0);
    assert!(
        ended
            .stdout
            .contains("1 uncommitted change of that folder is not in the worktree"),
        "{ended}"
    );
    let _ = place.dirigent(["apply", "last"]).with_code(0);
    assert!(place.read("sub/price.js").contains("readPrice"));
    assert_eq!(place.read("sub/new.js"), "parsePrice(1);\n");

    fs::create_dir(place.work().join("untracked")).unwrap();
    let run = ["run", RENAME[1], "--workspace", "work/untracked", "--worktree"];
    let refused = place.dirigent(run).with_code(2);
    assert!(
        refused.stderr.contains("it is not in the last commit"),
        "{refused}"
    );
    assert_eq!(worktrees(&place).len(), 0);
}

#[test]
fn paor_10_without_a_repository_or_commit_no_worktree_is_created() {
    let place = Place::with_shop();
    let run = || place.dirigent(RENAME.iter().chain(&["--worktree"])).with_code(2);
    let refused = run();
    assert!(refused.stderr.contains("git"), "{refused}");
    git(&place.work(), &["init", "-q"]);
    let refused = run();
    assert!(refused.stderr.contains("no commit yet"), "{refused}");
    assert_eq!(worktrees(&place).len(), 0);
    assert_eq!(place.dirigent(["runs", "--json"]).with_code(0).stdout, "");
}

#[test]
fn paor_10_worktrees_without_changes_and_unused_worktrees_are_removed() {
    let place = shop();
    let left = place
        .folder()
        .join("journal.db-worktrees/0190a1b2-c3d4-7e5f-8a6b-0123456789ab");
    fs::create_dir_all(left.join("half")).unwrap();
    let run = [
        "run",
        "Count the lines in notes.txt",
        "--workspace",
        "work",
        "--worktree",
    ];
    let ended = place.dirigent(run).with_code(0);
    assert!(ended.stderr.contains("no changes, so it was removed"), "{ended}");
    assert!(worktrees(&place).is_empty());

    rename(&place);
    assert_eq!(worktrees(&place).len(), 1);
    // The run ended before this command was started.
    let prune = ["journal", "prune", "--older-than", "1ms"];
    let _ = place.dirigent(prune).with_code(0);
    assert!(worktrees(&place).is_empty());
    assert_eq!(place.dirigent(["runs", "--json"]).with_code(0).stdout, "");
}

/// A lead that writes a file and then waits at the gate.
fn writing(gate: &Gate) -> Script {
    let gate = gate.clone();
    Script::from_fn(move |request| match request.turn {
        _ if is_reflector(request) => achieved("The note is written."),
        1 => call(
            "file_operations",
            &json!({"operation": "write", "path": "note.txt", "content": "done\n"}),
        ),
        _ => Turn::text("I have written it.").wait_before_headers(&gate),
    })
}

/// Wide enough for the folder's path in each line.
const WIDE: Dimensions = Dimensions {
    rows: 30,
    columns: 250,
};

/// A repository whose runs write a note without waiting.
fn writes_at_once() -> Served {
    let gate = Gate::new();
    gate.open();
    let served = Served::new("", writing(&gate));
    served.place.write("readme.txt", "r\n");
    commit(&served.place);
    served
}

#[test]
fn paor_10_a_killed_run_continues_in_its_worktree() {
    let gate = Gate::new();
    let served = Served::new("", writing(&gate));
    let place = &served.place;
    place.write("readme.txt", "r\n");
    commit(place);
    let run = [
        "run",
        "Write a note",
        "--workspace",
        "work",
        "--worktree",
        "--json",
    ];
    let mut watched = Watched::start(&mut place.command(run));
    let started = watched.wait_for(|event| event["event"] == "run_started");
    let origin = place.work().canonicalize().unwrap();
    assert_eq!(started["worktree"]["origin"], json!(origin));
    let _ = served.wait_for_requests(2);
    watched.kill();
    gate.open();
    let resumed = place.dirigent(["resume", "last"]).with_code(0);
    assert!(resumed.stderr.contains("dirigent apply"), "{resumed}");
    assert!(!place.work().join("note.txt").exists());
    let _ = place.dirigent(["apply", "last"]).with_code(0);
    assert_eq!(place.read("note.txt"), "done\n");
}

#[test]
fn paor_10_in_a_terminal_the_changes_of_a_worktree_are_offered() {
    let served = writes_at_once();
    let place = &served.place;
    let command = place.command(["run", "Write a note", "--workspace", "work", "--worktree"]);
    let terminal = Terminal::sized(command, WIDE);
    terminal.wait_for_prompt("[y/N/show]");
    terminal.enters("show");
    terminal.wait_until("the shown change, and the question again", |all| {
        all.contains("+done") && last_line(all).contains("[y/N/show]")
    });
    terminal.enters("y");
    let contents = terminal.end_with(0);
    assert!(contents.contains("Applied the changes in 1 file"), "{contents}");
    assert_eq!(place.read("note.txt"), "done\n");
    assert!(worktrees(place).is_empty());
}

#[test]
fn host_8_ctrl_c_at_the_offer_keeps_the_worktree_and_the_recording() {
    let served = writes_at_once();
    let place = &served.place;
    let command = place.command([
        "run",
        "Write a note",
        "--workspace",
        "work",
        "--worktree",
        "--record",
        "run.jsonl",
    ]);
    let terminal = Terminal::sized(command, WIDE);
    terminal.wait_for_prompt("[y/N/show]");
    let recorded = fs::read_to_string(place.folder().join("run.jsonl")).unwrap();
    assert!(recorded.contains("Write a note"), "{recorded}");
    terminal.types("\u{3}");
    let contents = terminal.end_with(0);
    assert!(
        contents.contains("Apply them with `dirigent apply "),
        "{contents}"
    );
    assert_eq!(worktrees(place).len(), 1);
    assert!(!place.work().join("note.txt").exists());
}

#[test]
fn paor_10_changes_that_conflict_when_they_are_offered_stay_in_the_worktree() {
    let served = writes_at_once();
    let place = &served.place;
    let command = place.command(["run", "Write a note", "--workspace", "work", "--worktree"]);
    let terminal = Terminal::sized(command, WIDE);
    terminal.wait_for_prompt("[y/N/show]");
    place.write("note.txt", "the user's own\n");
    terminal.enters("y");
    let contents = terminal.end_with(0);
    assert!(
        contents.contains("nothing was applied: note.txt")
            && contents.contains("Apply them with `dirigent apply "),
        "{contents}"
    );
    assert_eq!(place.read("note.txt"), "the user's own\n");
    assert_eq!(worktrees(place).len(), 1);
}

/// Puts a stand-in for git first in the command's `PATH`, which hangs at one git command.
fn hang_git(place: &Place, command: &mut Command, at: &str) {
    let path = std::env::var("PATH").unwrap();
    let is_git = |folder: &&str| Path::new(folder).join("git").is_file();
    let real = path.split(':').find(is_git).unwrap();
    let folder = place.folder().join("bin");
    fs::create_dir(&folder).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' {at} '*)\n  touch .git/hangs \"$GIT_INDEX_FILE.hangs\" 2> /dev/null\n  exec sleep 600;;\nesac\n\
         exec {real}/git \"$@\"\n"
    );
    fs::write(folder.join("git"), script).unwrap();
    fs::set_permissions(folder.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    command.env("PATH", format!("{}:{path}", folder.display()));
}

/// Waits until git hangs, and presses Ctrl-C.
fn interrupt(place: &Place, run: &Watched) {
    wait_for_git(place);
    press_ctrl_c(run.id());
}

fn press_ctrl_c(process: u32) {
    let process = Pid::from_raw(process.try_into().unwrap()).unwrap();
    kill_process(process, Signal::INT).unwrap();
}

/// Waits until git hangs.
fn wait_for_git(place: &Place) {
    let hangs = || {
        let temporary = fs::read_dir(place.temporary()).into_iter().flatten().flatten();
        let mut marks = temporary.map(|entry| entry.path().join("index.hangs"));
        place.work().join(".git/hangs").exists() || marks.any(|mark| mark.exists())
    };
    let since = Instant::now();
    while !hangs() {
        assert!(since.elapsed() < Duration::from_secs(60), "git does not hang");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn host_8_ctrl_c_while_a_worktree_is_made_starts_nothing_and_leaves_nothing() {
    let place = shop();
    let mut command = place.command(["run", RENAME[1], "--workspace", "work", "--worktree", "--json"]);
    hang_git(&place, &mut command, "worktree add");
    let run = Watched::start(&mut command);
    interrupt(&place, &run);
    let ended = run.end().with_code(130);
    assert!(ended.stderr.contains("nothing was started"), "{ended}");
    assert!(worktrees(&place).is_empty());
    assert_eq!(place.dirigent(["runs", "--json"]).with_code(0).stdout, "");
}

#[test]
fn host_8_ctrl_c_while_a_worktree_is_compared_keeps_it_and_the_exit_code() {
    let place = shop();
    let mut command = place.command(["run", RENAME[1], "--workspace", "work", "--worktree", "--json"]);
    hang_git(&place, &mut command, "add --all");
    let run = Watched::start(&mut command);
    interrupt(&place, &run);
    let ended = run.end().with_code(0);
    assert!(
        ended.stderr.contains("Apply them with `dirigent apply "),
        "{ended}"
    );
    assert_eq!(worktrees(&place).len(), 1);
}

#[test]
fn host_8_a_second_ctrl_c_kills_an_apply_and_keeps_the_worktree() {
    let place = shop();
    rename(&place);
    let before = project(&place);
    let mut command = place.command(["apply", "last"]);
    hang_git(&place, &mut command, "add --all");
    let mut applying = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(applying.stderr.take().unwrap()).lines();
    wait_for_git(&place);
    press_ctrl_c(applying.id());
    let first = told.next().unwrap().unwrap();
    assert!(first.contains("press Ctrl-C again to kill git"), "{first}");
    press_ctrl_c(applying.id());
    let rest: Vec<String> = told.map(Result::unwrap).collect();
    assert_eq!(applying.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(
        rest.join("\n").contains("Apply them with `dirigent apply "),
        "{rest:?}"
    );
    assert_eq!(project(&place), before);
    assert_eq!(worktrees(&place).len(), 1);

    let _ = place.dirigent(["apply", "last"]).with_code(0);
    assert!(place.read("price.js").contains("function readPrice"));
}

#[test]
fn paor_10_ignored_files_of_the_first_run_are_applied_with_its_fork() {
    let gate = Gate::new();
    gate.open();
    let served = Served::new("", writing(&gate));
    let place = &served.place;
    place.write(".gitignore", "note.txt\n");
    commit(place);
    let run = ["run", "Write a note", "--workspace", "work", "--worktree"];
    let _ = place.dirigent(run).with_code(0);
    let forked = place.dirigent(["fork", "last"]).with_code(0);
    assert!(forked.stderr.contains("dirigent apply"), "{forked}");
    let _ = place.dirigent(["apply", "last"]).with_code(0);
    assert_eq!(place.read("note.txt"), "done\n");
}

// Runs that share a folder.

/// The run with the first goal waits at the gate; all others are answered at once.
fn first_waits(gate: &Gate) -> Script {
    let gate = gate.clone();
    Script::from_fn(move |request| match mentions(request, "the first goal") {
        true => Turn::text("First.").wait_before_headers(&gate),
        false => Turn::text("Second."),
    })
}

fn first(place: &Place) -> Watched {
    Watched::start(&mut place.command(["run", "the first goal", "--workspace", "work", "--json"]))
}

const SECOND: [&str; 4] = ["run", "the other goal", "--workspace", "work"];

#[test]
fn paor_10_two_runs_in_one_folder_know_of_each_other() {
    let gate = Gate::new();
    let served = Served::new("", first_waits(&gate));
    let place = &served.place;
    fs::create_dir(place.work().join("below")).unwrap();
    let mut watched = first(place);
    let _ = served.wait_for_requests(1);
    let ended = place
        .dirigent(["run", "the other goal", "--workspace", "work/below"])
        .with_code(0);
    assert!(ended.stdout.contains("works in this folder, too"), "{ended}");
    assert!(
        ended.stderr.contains("use --wait to start after it ends"),
        "{ended}"
    );
    let told = watched.wait_for(|event| event["event"] == "workspace_shared");
    assert_eq!(told["runs"], json!([last(place)["run"]]));

    // A folder next to it is not shared.
    fs::create_dir(place.folder().join("work2")).unwrap();
    let ended = place
        .dirigent(["run", "the other goal", "--workspace", "work2"])
        .with_code(0);
    assert!(!ended.stdout.contains("works in this folder"), "{ended}");
    gate.open();
    assert_eq!(watched.end().code(), Some(0));
}

#[test]
fn paor_10_a_run_can_wait_until_its_folder_is_free() {
    let gate = Gate::new();
    let served = Served::new("", first_waits(&gate));
    let place = &served.place;
    let watched = first(place);
    let _ = served.wait_for_requests(1);
    let mut waiting = place
        .command(SECOND.iter().chain(&["--wait"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(waiting.stderr.take().unwrap()).lines();
    assert!(stderr.next().unwrap().unwrap().contains("waiting: run "));
    assert_eq!(served.requests().len(), 1);
    assert_eq!(
        last(place)["goal"],
        "the first goal",
        "nothing of the second is journaled"
    );
    gate.open();
    assert_eq!(watched.end().code(), Some(0));
    assert_eq!(waiting.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(last(place)["goal"], "the other goal");
}

#[test]
fn paor_10_in_a_terminal_the_second_run_is_asked() {
    let gate = Gate::new();
    let served = Served::new("", first_waits(&gate));
    let place = &served.place;
    place.write("readme.txt", "r\n");
    commit(place);
    let watched = first(place);
    let _ = served.wait_for_requests(1);
    let asked = || {
        let terminal = Terminal::start(place.command(SECOND));
        terminal.wait_for("w wait until it ends");
        terminal
    };
    let terminal = asked();
    terminal.enters("what?");
    terminal.enters("c");
    let contents = terminal.end_with(130);
    assert!(contents.contains("the first goal"), "{contents}");
    assert_eq!(last(place)["goal"], "the first goal");

    let terminal = asked();
    terminal.enters("t");
    let contents = terminal.end_with(0);
    assert!(contents.contains("a worktree of"), "{contents}");

    let terminal = asked();
    terminal.enters("w");
    terminal.wait_for("waiting: run ");
    gate.open();
    let _ = terminal.end_with(0);
    assert_eq!(watched.end().code(), Some(0));
}
