//! HOST-2 and HOST-8 with the real command on the real disk: killed at every place of its journal a run goes on where it was.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod waiting;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dirigent::{EventKind, RunView};
use dirigent_core::agent::AgentInput;
use dirigent_core::id::{EffectId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_store::Journal;
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

/// More blocks than any file of a run here has.
const PLENTY: u64 = 4096;

/// What is to come has come by then, however busy the machine is; what waits for ever waits longer.
const PATIENCE: Duration = Duration::from_secs(120);

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
        write_program(
            &script,
            &format!(
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
        );
        let mut path = folder.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        path
    }
}

/// Writes a program by another process: while anybody has a file open to write it cannot be started, and whatever this process
/// starts meanwhile has all its files open until it has become another program.
fn write_program(path: &Path, text: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = writer.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    assert!(writer.wait().unwrap().success());
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

/// The command with files that may grow no further than that many blocks.
fn within(place: &Place, inner: &Command, blocks: u64) -> Command {
    let mut command = Command::new("sh");
    place.settle(&mut command);
    let variables = inner.get_envs();
    command
        .envs(variables.filter_map(|(name, value)| Some((name, value?))))
        .args(["-c", &format!("ulimit -S -f {blocks}; exec \"$@\""), "sh"])
        .arg(inner.get_program())
        .args(inner.get_args());
    command
}

/// The run that is to be killed.
fn run(place: &Place, cargo: &Cargo) -> Command {
    let mut command = place.command(RUN);
    command.env("PATH", cargo.path(place, "killed"));
    command
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

impl Stored {
    /// Whether the run has come to an event of which that is true, as its watchers are told it.
    fn has(&self, is_it: impl Fn(&Value) -> bool) -> bool {
        let replayed = RunView::replay(self.entries.iter().cloned()).unwrap();
        let mut events = replayed.into_iter().flat_map(|(_, events)| events);
        events.any(|event| is_it(&serde_json::to_value(event).unwrap()))
    }
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

/// Waits until that is so; says what is wrong if it never is.
#[track_caller]
fn wait_until(wrong: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{wrong}");
        std::thread::yield_now();
    }
}

/// Waits until nobody owns the run of a process that was killed.
///
/// A command that was being started then has all that the process had open, the lock of the run's owner too, until it has become
/// another program. The locks are looked at and not the journal, so that whoever opens that next finds it as it was left.
#[track_caller]
fn wait_until_free(place: &Place) {
    let Ok(owners) = std::fs::read_dir(place.folder().join("journal.db-owners")) else {
        assert!(journal(place).entries.is_empty(), "a run that nobody owned");
        return;
    };
    for owner in owners {
        let lock = File::open(owner.unwrap().path()).unwrap();
        wait_until("the run is owned after the kill", || {
            lock.try_lock_shared().is_ok()
        });
    }
}

/// Ends the commands of a run that was killed: they go on without it, and would meet the next one in the same place. Once nobody
/// owns the run, all of them can be seen.
#[track_caller]
fn end_orphans(place: &Place) {
    if cfg!(target_os = "linux") {
        wait_until("commands outlive their kill", || {
            let orphans = place.processes();
            for id in orphans.iter().filter_map(|id| Pid::from_raw(*id)) {
                // It may have ended by itself.
                let _ = kill_process(id, Signal::KILL);
            }
            orphans.is_empty()
        });
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
    let (_, events) = RunView::replay(entries.iter().cloned()).unwrap().unwrap();
    events
        .iter()
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
    let first = ended(&mut within(&place, &run(&place, cargo), blocks));
    if first.code() == Some(0) {
        return Fate::Survived;
    }
    assert_eq!(first.status.signal(), Some(SIGXFSZ), "{case}: {first}");
    wait_until_free(&place);
    end_orphans(&place);
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

/// Limits that end the process in every commit, which is of three frames of the log or more, and in the files that are made before
/// there is one.
fn limits() -> impl Iterator<Item = u64> {
    let creation = (1..64).step_by(3);
    let frames = (7..)
        .step_by(3)
        .map(|frame: u64| (32 + frame * FRAME) / BLOCK + 1);
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
    assert!(deaths.len() > 60, "{} deaths", deaths.len());
    assert!(lengths.len() > 25, "journals of {lengths:?} entries");
    assert!(
        lengths.contains(&0) && lengths.last() > Some(&40),
        "journals of {lengths:?} entries"
    );
}

/// Kills a run with `kill -9` at its first event of which that is true, before its end, and returns what its journal has then.
fn killed_when(made: impl Fn() -> (Place, Command), is_it: impl Fn(&Value) -> bool) -> (Place, Stored) {
    killed_between(made, is_it, |_| false)
}

/// Kills a run with `kill -9` at its first event of which `is_it` is true, before its end and any event of which `is_over` is true, and
/// returns what its journal has then.
///
/// What is read of a run is behind it, by as much as pleases the system. Where a run has ended by the time of its kill, the next one
/// has files that can grow less: with the limit that lies between the event and the end it dies by itself, if not by the kill.
fn killed_between(
    made: impl Fn() -> (Place, Command),
    is_it: impl Fn(&Value) -> bool,
    is_over: impl Fn(&Value) -> bool,
) -> (Place, Stored) {
    let mut fitting = 0..PLENTY;
    let mut blocks = PLENTY;
    for _ in 0..100 {
        let (place, command) = made();
        let mut run = Watched::start(&mut within(&place, &command, blocks));
        run.find(&is_it);
        run.kill();
        wait_until_free(&place);
        end_orphans(&place);
        let past = journal(&place);
        match (past.has(&is_it), past.is_ended || past.has(&is_over)) {
            (true, false) => return (place, past),
            (true, true) => fitting.end = blocks,
            (false, false) => fitting.start = blocks,
            (false, true) => panic!("the run went on without that event"),
        }
        if fitting.end - fitting.start < 2 {
            // No two runs have the same in each commit: what fits one may not fit the other.
            fitting = 0..PLENTY;
        }
        blocks = u64::midpoint(fitting.start, fitting.end);
    }
    panic!("no run was killed between that event and its end");
}

/// The same with the run of the sample, which is then resumed.
fn resumed_after(cargo: &Cargo, is_it: impl Fn(&Value) -> bool) -> Place {
    let made = || {
        let place = cargo.sample();
        let command = run(&place, cargo);
        (place, command)
    };
    let (place, past) = killed_when(made, is_it);
    let _ = resume(&place, cargo).with_code(0);
    assert_nothing_is_repeated(&journal(&place).entries, past.entries.len(), "kill -9");
    place
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
    let mut run = Watched::start(&mut run(&place, &cargo));
    run.wait_for(|event| is_event(event, "tool_started") && event["tool"] == "execute_command");
    run.kill();
    wait_until_free(&place);
    let runs = place.dirigent(["runs"]).with_code(0).stdout;
    assert!(runs.contains("  interrupted "), "{runs}");
    end_orphans(&place);
    std::fs::remove_file(hold(&place)).unwrap();

    let resumed = resume(&place, &cargo).with_code(0);

    let events = resumed.json_lines();
    let baseline = events
        .iter()
        .find(|event| is_event(event, "subtask_finished") && event["observation"]["subtask"] == "baseline")
        .unwrap();
    assert_eq!(
        baseline["observation"]["finding"]["calls"][0]["result"]["error"],
        "`execute_command` was interrupted: the process ended while it ran, so it may or may not have taken effect. Check the \
         current state before you decide whether to call it again"
    );
    assert_eq!(differing(&place.files(), &expected), BTreeSet::new());
    let shown = place.dirigent(["show", "last"]).with_code(0).stdout;
    assert!(shown.contains("Goal achieved after 2 iterations"), "{shown}");
    assert!(
        shown.contains("Confirmed by `cargo check --all-targets` and `cargo test` (8 tests passed)."),
        "{shown}"
    );
}

#[test]
fn host_2_a_kill_after_the_first_edit_leaves_the_rest_to_the_resumed_run() {
    let cargo = Cargo::new();
    let expected = undisturbed(&cargo);
    let place = resumed_after(&cargo, |event| {
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
    let place = resumed_after(&cargo, |event| {
        is_event(event, "agent_started") && event["role"] == "reflector"
    });
    assert_eq!(differing(&place.files(), &expected), BTreeSet::new());
    assert_eq!(calls(&place, "resumed"), 0);
}

#[test]
fn host_2_a_replacement_that_was_killed_half_way_is_finished_and_verified() {
    let goal = [
        "run",
        "replace \"colour\" with \"color\"",
        "--workspace",
        "work",
        "--json",
    ];
    let made = || {
        let place = Place::new();
        for number in 1..=6 {
            place.write(&format!("page-{number}.md"), "The colour of the sea.\n");
        }
        let command = place.command(goal);
        (place, command)
    };
    let (place, _) = killed_when(made, |event| {
        is_event(event, "tool_finished") && event["changes"] != serde_json::json!([])
    });

    let _ = place.dirigent(["resume", "last"]).with_code(0);

    for number in 1..=6 {
        assert_eq!(
            place.read(&format!("page-{number}.md")),
            "The color of the sea.\n"
        );
    }
    let shown = place.dirigent(["show", "last"]).with_code(0).stdout;
    assert!(shown.contains("A search no longer finds \"colour\"."), "{shown}");
}

#[test]
fn paor_2_a_rename_that_was_killed_after_its_definition_is_finished_though_nothing_compiles_it() {
    for (end, definition, usage) in [
        (
            "rs",
            "pub fn parse_amount() {}\n",
            "fn f() { a::parse_amount() }\n",
        ),
        (
            "go",
            "package shop\n\nfunc parse_amount() {}\n",
            "package shop\n\nfunc f() { parse_amount() }\n",
        ),
        (
            "py",
            "def parse_amount(): pass\n",
            "from a import parse_amount\nparse_amount()\n",
        ),
    ] {
        let made = || {
            let place = Place::new();
            let folder = place.folder().join("home/.config/dirigent");
            std::fs::create_dir_all(&folder).unwrap();
            // One edit at a time: the definition comes first.
            std::fs::write(folder.join("dirigent.toml"), "[limits]\nmax_parallel = 1\n").unwrap();
            place.write(&format!("a.{end}"), definition);
            for name in ["b", "c", "d", "e"] {
                place.write(&format!("{name}.{end}"), usage);
            }
            let command = place.command(RUN);
            (place, command)
        };
        let is_edit = |event: &Value, name: &str| {
            is_event(event, "tool_finished")
                && event["changes"].to_string().contains(&format!("{name}.{end}"))
        };
        // What is left to do is `e` and perhaps more.
        let (place, _) = killed_between(made, |event| is_edit(event, "a"), |event| is_edit(event, "d"));
        assert!(place.read(&format!("a.{end}")).contains("parse_money"));
        assert!(place.read(&format!("e.{end}")).contains("parse_amount"));

        let _ = place.dirigent(["resume", "last"]).with_code(0);

        let new = |text: &str| text.replace("parse_amount", "parse_money");
        assert_eq!(place.read(&format!("a.{end}")), new(definition));
        for name in ["b", "c", "d", "e"] {
            assert_eq!(place.read(&format!("{name}.{end}")), new(usage));
        }
    }
}
