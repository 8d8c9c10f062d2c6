//! HOST-2 and HOST-8 with the real command on the real disk: killed at every place of its journal it goes on where it was,
//! and Ctrl-C leaves nothing behind.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use dirigent::core::agent::AgentInput;
use dirigent::core::id::{EffectId, Scope};
use dirigent::core::journal::{Entry, Input};
use dirigent::core::run::RunInput;
use dirigent::store::Journal;
use dirigent::{EventKind, RunView};
use dirigent_tests::cli::{Ended, Place, Watched, ended};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const GOAL: &str = "Find all usages of function parse_amount and rename it to parse_money";
const RUN: [&str; 5] = ["run", GOAL, "--workspace", "work", "--json"];
const RESUME: [&str; 3] = ["resume", "last", "--json"];

/// Ends a process that lets a file grow past its limit.
const SIGXFSZ: i32 = 25;
/// What `ulimit -f` counts in, by POSIX.
const BLOCK: u64 = 512;
/// A frame of the write-ahead log: a page and its header.
const FRAME: u64 = 4096 + 24;

/// What is no part of a run's state beside the journal's files.
type Files = Vec<(String, Vec<u8>)>;

/// A `cargo` that takes down each call, and asks the real one only where it does not know the answer for these sources yet.
struct Cargo {
    memory: TempDir,
}

impl Cargo {
    fn new() -> Self {
        Cargo {
            memory: TempDir::new().unwrap(),
        }
    }

    /// The sample, where commands can also reach what this one needs.
    fn sample(&self) -> Place {
        let place = Place::with_sample();
        let folder = place.folder().join("home/.config/dirigent");
        std::fs::create_dir_all(&folder).unwrap();
        let reach = [place.folder(), self.memory.path()];
        std::fs::write(
            folder.join("dirigent.toml"),
            format!("[sandbox]\nwrite = {reach:?}\n"),
        )
        .unwrap();
        place
    }

    /// A `PATH` on which it comes first; its calls are taken down under that name.
    fn path(&self, place: &Place, name: &str) -> OsString {
        let folder = place.folder().join(format!("bin-{name}"));
        std::fs::create_dir_all(&folder).unwrap();
        let script = folder.join("cargo");
        let log = log(place, name);
        std::fs::write(
            &script,
            format!(
                r#"#!/bin/sh
echo "$*" >> '{log}'
while [ -e '{hold}' ]; do sleep 0.02; done
sources=$(cat Cargo.toml src/*.rs tests/*.rs | cksum | tr ' ' '-')
known='{memory}'/$(echo "$sources $*" | tr ' ' '_')
if [ ! -e "$known.code" ]; then
    '{cargo}' "$@" > "$known.$$.out" 2> "$known.$$.err"
    echo $? > "$known.$$.code"
    for part in out err code; do mv "$known.$$.$part" "$known.$part"; done
fi
cat "$known.out"
cat "$known.err" >&2
exit "$(cat "$known.code")"
"#,
                log = log.display(),
                hold = hold(place).display(),
                memory = self.memory.path().display(),
                cargo = real_cargo().display(),
            ),
        )
        .unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut path = folder.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        path
    }
}

/// While this file is there, no `cargo` of the place goes on.
fn hold(place: &Place) -> PathBuf {
    place.folder().join("hold")
}

fn log(place: &Place, name: &str) -> PathBuf {
    place.folder().join(format!("{name}.log"))
}

/// How often `cargo` was called under that name.
fn calls(place: &Place, name: &str) -> usize {
    std::fs::read_to_string(log(place, name)).map_or(0, |log| log.lines().count())
}

fn real_cargo() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let cargo = std::env::split_paths(&path).map(|folder| folder.join("cargo"));
    cargo.into_iter().find(|cargo| cargo.is_file()).unwrap()
}

/// The run with files that may grow no further than that many blocks.
fn run_within(place: &Place, cargo: &Cargo, blocks: u64) -> Ended {
    let inner = place.command(RUN);
    let mut command = Command::new("sh");
    place.settle(&mut command);
    command
        .args(["-c", &format!("ulimit -S -f {blocks}; exec \"$@\""), "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env("PATH", cargo.path(place, "killed"));
    ended(&mut command)
}

fn resume(place: &Place, cargo: &Cargo) -> Ended {
    let path = cargo.path(place, "resumed");
    ended(place.command(RESUME).env("PATH", path))
}

/// What the sample is after the run that nobody disturbs.
fn undisturbed(cargo: &Cargo) -> Files {
    let place = cargo.sample();
    let path = cargo.path(&place, "calm");
    let _ = ended(place.command(RUN).env("PATH", path)).with_code(0);
    assert!(place.read("src/amount.rs").contains("pub fn parse_money"));
    place.files()
}

/// What the journal has of the run.
#[derive(Default)]
struct Stored {
    entries: Vec<Entry>,
    is_ended: bool,
}

/// The run as it is in the journal, read from a copy, so that whoever opens the journal next finds it as it was left; nothing
/// where not even the run is there.
fn journal(place: &Place) -> Stored {
    let copy = TempDir::new().unwrap();
    for end in ["", "-wal", "-journal"] {
        let name = format!("journal.db{end}");
        if place.folder().join(&name).exists() {
            std::fs::copy(place.folder().join(&name), copy.path().join(&name)).unwrap();
        }
    }
    let journal = Journal::open(&copy.path().join("journal.db")).unwrap();
    let Ok(run) = journal.find("last") else {
        return Stored::default();
    };
    Stored {
        entries: journal.entries(run, 0, usize::MAX >> 1).unwrap(),
        is_ended: journal.run(run).unwrap().ended_at.is_some(),
    }
}

fn finished(entry: &Entry) -> Option<EffectId> {
    match &entry.input {
        Input::Run(RunInput::ToolFinished { effect, .. })
        | Input::Agent(AgentInput::ToolFinished { effect, .. } | AgentInput::ModelReplied { effect, .. }) => {
            Some(*effect)
        }
        Input::Run(_) | Input::Agent(_) => None,
    }
}

fn started(entry: &Entry) -> Option<EffectId> {
    match &entry.input {
        Input::Run(RunInput::ToolStarted { effect }) | Input::Agent(AgentInput::ToolStarted { effect }) => {
            Some(*effect)
        }
        Input::Run(_) | Input::Agent(_) => None,
    }
}

/// A call, whichever try of it.
fn call(effect: EffectId) -> (Scope, u32) {
    (effect.scope, effect.step)
}

/// Each call ended once, but for those that were under way at the kill, and none was begun that had ended before. The
/// first `past` entries are those before the kill.
#[track_caller]
fn assert_nothing_is_repeated(entries: &[Entry], past: usize, case: &str) {
    let mut ended: BTreeSet<(Scope, u32)> = BTreeSet::new();
    let mut under_way: BTreeSet<(Scope, u32)> = BTreeSet::new();
    let mut lost: BTreeSet<(Scope, u32)> = BTreeSet::new();
    for (index, entry) in entries.iter().enumerate() {
        if index == past {
            lost = under_way.clone();
        }
        if let Some(effect) = started(entry) {
            assert!(
                !ended.contains(&call(effect)),
                "{case}: {effect} ended before it began"
            );
            under_way.insert(call(effect));
        }
        if let Some(effect) = finished(entry) {
            assert!(ended.insert(call(effect)), "{case}: {effect} ended twice");
            under_way.remove(&call(effect));
        }
    }
    assert!(
        under_way.is_subset(&lost),
        "{case}: calls that never ended: {under_way:?}"
    );
}

/// How many commands were started after the first entries.
fn commands_started(entries: &[Entry], after: usize) -> usize {
    let mut view = RunView::new();
    let events = entries
        .iter()
        .flat_map(|entry| view.apply(entry.clone()).unwrap());
    events
        .filter(|event| event.seq > after as u64)
        .filter(
            |event| matches!(&event.kind, EventKind::ToolStarted { tool, .. } if tool == "execute_command"),
        )
        .count()
}

/// What became of a run whose files could grow no further than that.
enum Fate {
    /// It was killed when its journal had this many entries, and reached the same end afterwards.
    Killed(usize),
    /// It was not killed.
    Survived,
}

fn killed_at(blocks: u64, cargo: &Cargo, expected: &Files) -> Fate {
    let case = format!("limit of {blocks} blocks");
    let place = cargo.sample();
    let first = run_within(&place, cargo, blocks);
    if first.code() == Some(0) {
        return Fate::Survived;
    }
    assert_eq!(first.status.signal(), Some(SIGXFSZ), "{case}: {first}");
    let Stored {
        entries: before,
        is_ended,
    } = journal(&place);

    let resumed = resume(&place, cargo);

    if before.is_empty() {
        // Nothing was promised and nothing done: it says so, and the goal can be started again.
        assert_eq!(resumed.code(), Some(2), "{case}: {resumed}");
        assert!(
            resumed.stderr.contains("no run `last`") || resumed.stderr.contains("nothing was done"),
            "{case}: {resumed}"
        );
        let path = cargo.path(&place, "again");
        let _ = ended(place.command(RUN).env("PATH", path)).with_code(0);
    } else if is_ended {
        // It died as it was about to tell.
        assert_eq!(resumed.code(), Some(2), "{case}: {resumed}");
        assert!(resumed.stderr.contains("has already ended"), "{case}: {resumed}");
    } else {
        assert_eq!(resumed.code(), Some(0), "{case}: {resumed}");
        let after = journal(&place).entries;
        assert_eq!(before, after[..before.len()], "{case}: the past was changed");
        assert_nothing_is_repeated(&after, before.len(), &case);
        let commands = commands_started(&after, before.len());
        assert_eq!(calls(&place, "resumed"), commands, "{case}");
    }
    let files = place.files();
    let wrong = differing(&files, expected);
    assert!(
        wrong.is_empty(),
        "{case}: not as after the undisturbed run: {wrong:?}; {resumed}"
    );
    Fate::Killed(before.len())
}

/// The names of files that are in one of them alone, or with other content.
///
/// No system call puts a nameless file in the place of another: a kill between its naming and its move leaves the whole new
/// text beside the old one, under a name of 36 characters. Such a copy of what is there afterwards is no difference.
fn differing<'a>(some: &'a Files, expected: &'a Files) -> BTreeSet<&'a str> {
    let is_left_over = |(name, content): &(String, Vec<u8>)| {
        let name = name.rsplit('/').next().unwrap_or(name);
        let is_random = name.len() == 36 && name.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
        is_random && expected.iter().any(|(_, whole)| whole == content)
    };
    let added = some
        .iter()
        .filter(|file| !expected.contains(file) && !is_left_over(file));
    let missing = expected.iter().filter(|file| !some.contains(file));
    added.chain(missing).map(|(name, _)| name.as_str()).collect()
}

/// Limits that end the process in every frame of the log, and in the files that are made before there is one.
fn limits() -> impl Iterator<Item = u64> {
    let creation = (1..64).step_by(3);
    let frames = (7..).map(|frame| (32 + frame * FRAME) / BLOCK + 1);
    creation.chain(frames)
}

#[test]
fn host_2_killed_in_every_commit_of_its_journal_a_run_reaches_the_same_end() {
    let cargo = Cargo::new();
    let expected = undisturbed(&cargo);
    let limits = Mutex::new(limits());
    let lengths = Mutex::new(Vec::new());
    let survivors = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while survivors.load(Ordering::Relaxed) == 0 {
                    let blocks = limits.lock().unwrap().next().unwrap();
                    match killed_at(blocks, &cargo, &expected) {
                        Fate::Killed(length) => lengths.lock().unwrap().push(length),
                        Fate::Survived => drop(survivors.fetch_add(1, Ordering::Relaxed)),
                    }
                }
            });
        }
    });
    let deaths = lengths.into_inner().unwrap();
    let lengths: BTreeSet<usize> = deaths.iter().copied().collect();
    // Several entries may share a commit, so not every length is there to be met.
    assert!(deaths.len() > 80, "{} deaths", deaths.len());
    assert!(lengths.len() > 25, "journals of {lengths:?} entries");
    assert!(
        lengths.contains(&0) && lengths.last() > Some(&40),
        "journals of {lengths:?} entries"
    );
}

/// Kills the run with `kill -9` at its first event of which that is true, and goes on with it.
///
/// What is read of a run is always a little behind it: where it had ended by the time it was killed, another one is started.
fn killed_when(cargo: &Cargo, is_it: impl Fn(&Value) -> bool) -> Place {
    for _ in 0..50 {
        let place = cargo.sample();
        let path = cargo.path(&place, "killed");
        let mut run = Watched::start(place.command(RUN).env("PATH", path));
        run.wait_for(&is_it);
        run.kill();
        let past = journal(&place);
        if past.is_ended {
            continue;
        }
        let _ = resume(&place, cargo).with_code(0);
        assert_nothing_is_repeated(&journal(&place).entries, past.entries.len(), "kill -9");
        return place;
    }
    panic!("every run had ended before it was killed");
}

fn is_event(event: &Value, name: &str) -> bool {
    event["event"] == name
}

#[test]
fn host_2_a_command_under_way_at_a_kill_is_reported_as_interrupted() {
    let cargo = Cargo::new();
    let expected = undisturbed(&cargo);
    let place = cargo.sample();
    std::fs::write(hold(&place), "").unwrap();
    let path = cargo.path(&place, "killed");
    let mut run = Watched::start(place.command(RUN).env("PATH", path));
    run.wait_for(|event| is_event(event, "tool_started") && event["tool"] == "execute_command");
    run.kill();
    std::fs::remove_file(hold(&place)).unwrap();
    let runs = place.dirigent(["runs"]).with_code(0).stdout;
    assert!(runs.contains("  interrupted "), "{runs}");

    let resumed = resume(&place, &cargo).with_code(0);

    let events = resumed.json_lines();
    let baseline = events
        .iter()
        .find(|event| is_event(event, "subtask_finished") && event["observation"]["subtask"] == "baseline")
        .unwrap();
    assert_eq!(
        baseline["observation"]["finding"]["calls"][0]["result"]["error"],
        "`execute_command` was interrupted: the process ended while it ran, so it may or may not have happened. Look at the \
         present state before you decide whether to call it again"
    );
    assert_eq!(differing(&place.files(), &expected), BTreeSet::new());
    let shown = place.dirigent(["show", "last"]).with_code(0).stdout;
    assert!(shown.contains("Goal achieved after 2 rounds"), "{shown}");
    assert!(
        shown.contains("Confirmed by `cargo check --all-targets` and `cargo test` (8 tests passed)."),
        "{shown}"
    );
}

#[test]
fn host_2_a_kill_after_the_first_edit_leaves_the_rest_to_the_resumed_run() {
    let cargo = Cargo::new();
    let expected = undisturbed(&cargo);
    let place = killed_when(&cargo, |event| {
        is_event(event, "tool_finished")
            && event["changes"]
                .as_array()
                .is_some_and(|changes| changes.iter().any(|change| change.to_string().contains("src/")))
    });
    assert_eq!(differing(&place.files(), &expected), BTreeSet::new());
}

#[test]
fn host_2_a_kill_as_the_reflector_starts_runs_no_command_again() {
    let cargo = Cargo::new();
    let expected = undisturbed(&cargo);
    let place = killed_when(&cargo, |event| {
        is_event(event, "agent_started") && event["role"] == "reflector"
    });
    assert_eq!(differing(&place.files(), &expected), BTreeSet::new());
    assert_eq!(calls(&place, "resumed"), 0);
}

#[test]
fn host_2_a_replacement_that_was_killed_half_way_is_finished_and_verified() {
    let place = Place::new();
    for number in 1..=6 {
        place.write(&format!("page-{number}.md"), "The colour of the sea.\n");
    }
    let goal = [
        "run",
        "replace \"colour\" with \"color\"",
        "--workspace",
        "work",
        "--json",
    ];
    let mut run = Watched::start(&mut place.command(goal));
    run.wait_for(|event| is_event(event, "tool_finished") && event["changes"] != serde_json::json!([]));
    run.kill();

    let _ = place.dirigent(["resume", "last"]).with_code(0);

    for number in 1..=6 {
        assert_eq!(
            place.read(&format!("page-{number}.md")),
            "The color of the sea.\n"
        );
    }
    let shown = place.dirigent(["show", "last"]).with_code(0).stdout;
    assert!(
        shown.contains("A search finds \"colour\" nowhere any more."),
        "{shown}"
    );
}

#[test]
fn host_2_a_command_of_the_users_own_is_not_run_twice_unasked() {
    let Waiting { place, run, script } = Waiting::start("echo once >> runs.txt");
    run.kill();
    kill_process(script, Signal::KILL).unwrap();

    let resumed = place.dirigent(["resume", "last"]).with_code(1);

    assert!(
        resumed.stdout.contains(
            "\n\n`sh wait.sh` was interrupted, so how it would have ended is unknown, and it may have done a part of its \
             work. It was not run again: start the goal again if that is safe.\n"
        ),
        "{resumed}"
    );
    assert_eq!(place.read("runs.txt"), "once\n");
}

/// A run of a script that says that it runs and then waits for ever.
struct Waiting {
    place: Place,
    run: Watched,
    script: Pid,
}

impl Waiting {
    fn start(preparation: &str) -> Self {
        let place = Place::new();
        let started = place.work().join("started");
        let _ = ended(Command::new("mkfifo").arg(&started));
        place.write(
            "wait.sh",
            &format!(
                "{preparation}\necho $$ > '{}'\nexec sleep 1000\n",
                started.display()
            ),
        );
        let goal = ["run", "run `sh wait.sh`", "--workspace", "work", "--json"];
        let run = Watched::start(&mut place.command_with_hang_up(goal));
        let script = std::fs::read_to_string(&started).unwrap();
        let script = Pid::from_raw(script.trim().parse().unwrap()).unwrap();
        Waiting { place, run, script }
    }

    fn signal(&self, signal: Signal) {
        let run = Pid::from_raw(self.run.id().try_into().unwrap()).unwrap();
        kill_process(run, signal).unwrap();
    }
}

/// Whether it runs; one that has ended and that nobody has asked about does not.
fn is_alive(process: Pid) -> bool {
    let id = process.as_raw_nonzero().to_string();
    let state = ended(Command::new("ps").args(["-o", "stat=", "-p", &id])).stdout;
    !state.trim().is_empty() && !state.starts_with('Z')
}

/// Whether it is over by the time that an operating system needs to carry out a kill.
fn ends_at_once(process: Pid) -> bool {
    (0..100).any(|_| !is_alive(process))
}

fn cancelled_by(signal: Signal) {
    let waiting = Waiting::start("");
    assert!(is_alive(waiting.script));

    waiting.signal(signal);
    let ended = waiting.run.end().with_code(130);

    assert!(ends_at_once(waiting.script), "the script outlives its run");
    assert_eq!(ended.json_lines().last().unwrap()["reason"], "cancelled");
    let shown = waiting.place.dirigent(["show", "last"]).with_code(0).stdout;
    assert!(shown.contains("\nCancelled after 1 round"), "{shown}");
    let refused = waiting.place.dirigent(["resume", "last"]).with_code(2);
    assert!(refused.stderr.contains("has already ended"), "{refused}");
}

#[test]
fn host_8_ctrl_c_ends_the_run_and_its_commands() {
    cancelled_by(Signal::INT);
}

#[test]
fn host_8_sigterm_ends_the_run_and_its_commands() {
    cancelled_by(Signal::TERM);
}

#[test]
fn host_8_a_terminal_that_is_closed_ends_the_run_and_its_commands() {
    cancelled_by(Signal::HUP);
}

#[test]
fn host_8_a_second_ctrl_c_kills() {
    let place = Place::new();
    let started = place.work().join("started");
    let _ = ended(Command::new("mkfifo").arg(&started));
    place.write(
        "wait.sh",
        &format!(
            "trap '' TERM\necho $$ > '{}'\nexec sleep 1000\n",
            started.display()
        ),
    );
    let mut run = place
        .command(["run", "run `sh wait.sh`", "--workspace", "work"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let script = std::fs::read_to_string(&started).unwrap();
    let script = Pid::from_raw(script.trim().parse().unwrap()).unwrap();
    let process = Pid::from_raw(run.id().try_into().unwrap()).unwrap();

    kill_process(process, Signal::INT).unwrap();
    let mut said = String::new();
    BufReader::new(run.stderr.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert_eq!(said, "cancelling; Ctrl-C again kills\n");
    kill_process(process, Signal::INT).unwrap();

    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert!(ends_at_once(script), "the script outlives its run");
}

#[test]
fn host_2_two_processes_never_carry_out_one_run() {
    let waiting = Waiting::start("");

    let second = waiting.place.dirigent(["resume", "last"]).with_code(2);

    assert!(
        second
            .stderr
            .contains(&format!("is being carried out by process {}", waiting.run.id())),
        "{second}"
    );
    assert!(is_alive(waiting.script), "the refused one disturbed the run");
    let runs = waiting.place.dirigent(["runs"]).with_code(0).stdout;
    assert!(runs.contains("  running "), "{runs}");
    waiting.signal(Signal::INT);
    let _ = waiting.run.end().with_code(130);
}
