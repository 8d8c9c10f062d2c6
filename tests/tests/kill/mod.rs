//! HOST-2 and HOST-8 with the real command on the real disk: a run that is killed at any point of its journal continues where it left off.
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

/// The signal that ends a process when one of its files would exceed the file size limit.
const SIGXFSZ: i32 = 25;
/// Bytes per unit of `ulimit -f`, as POSIX defines it.
const BLOCK: u64 = 512;
/// Bytes of a frame of SQLite's write-ahead log: a header and a page.
const FRAME: u64 = 4096 + 24;

/// A file size limit in blocks that no file of these runs reaches.
const PLENTY: u64 = 4096;

/// Time after which a wait counts as failed: long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Paths and contents of the project's files.
type Files = Vec<(String, Vec<u8>)>;

/// A stand-in for `cargo` that logs each call, and calls the real one only if its result for these sources is not cached yet.
struct Cargo {
    memory: TempDir,
}

impl Cargo {
    fn new() -> Self {
        Cargo {
            memory: TempDir::new().unwrap(),
        }
    }

    /// Creates the sample project, with a sandbox in which commands can also reach the files of this stand-in.
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

    /// Returns a `PATH` on which the stand-in comes first. It logs its calls to `NAME.log`.
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

/// Writes an executable file from another process. While any process has the file open for writing, it cannot be executed; if this process
/// wrote it, a child that it starts at the same time would briefly inherit the open file.
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

/// The file that makes every `cargo` of the place wait as long as it exists.
fn hold(place: &Place) -> PathBuf {
    place.folder().join("hold")
}

fn log(place: &Place, name: &str) -> PathBuf {
    place.folder().join(format!("{name}.log"))
}

/// Counts the calls that the stand-in logged under this name.
fn calls(place: &Place, name: &str) -> usize {
    std::fs::read_to_string(log(place, name)).map_or(0, |log| log.lines().count())
}

fn real_cargo() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let cargo = std::env::split_paths(&path).map(|folder| folder.join("cargo"));
    cargo.into_iter().find(|cargo| cargo.is_file()).unwrap()
}

/// Wraps a command so that its files cannot grow beyond this many blocks.
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

/// The command that starts the run to be killed.
fn run(place: &Place, cargo: &Cargo) -> Command {
    let mut command = place.command(RUN);
    command.env("PATH", cargo.path(place, "killed"));
    command
}

fn resume(place: &Place, cargo: &Cargo) -> Ended {
    let path = cargo.path(place, "resumed");
    ended(place.command(RESUME).env("PATH", path))
}

/// The sample's files after an uninterrupted run.
fn undisturbed(cargo: &Cargo) -> Files {
    let place = cargo.sample();
    let path = cargo.path(&place, "calm");
    let _ = ended(place.command(RUN).env("PATH", path)).with_code(0);
    assert!(place.read("src/amount.rs").contains("pub fn parse_money"));
    place.files()
}

/// The run's state in the journal.
#[derive(Default)]
struct Stored {
    entries: Vec<Entry>,
    is_ended: bool,
}

impl Stored {
    /// Returns true if the run has an event whose JSON satisfies the predicate.
    fn has(&self, is_it: impl Fn(&Value) -> bool) -> bool {
        let replayed = RunView::replay(self.entries.iter().cloned()).unwrap();
        let mut events = replayed.into_iter().flat_map(|(_, events)| events);
        events.any(|event| is_it(&serde_json::to_value(event).unwrap()))
    }
}

/// Reads the run from a copy of the journal, so that the next process to open the journal finds it exactly as the kill left it. Empty if
/// the journal has no run.
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

/// Waits until the condition holds; fails with the message `wrong` if it never does.
#[track_caller]
fn wait_until(wrong: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{wrong}");
        std::thread::yield_now();
    }
}

/// Waits until no process owns the run of a killed process.
///
/// A command that was just being started briefly inherits everything that the process had open, including the lock that marks the run's
/// owner. The test looks at the locks, not at the journal, so that the next process to open the journal finds it exactly as the kill left
/// it.
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

/// Kills commands that outlived their killed run and would interfere with the next run in the same folder. Call it once no process owns the
/// run; only then are all of them listed.
#[track_caller]
fn end_orphans(place: &Place) {
    if cfg!(target_os = "linux") {
        wait_until("commands outlive their kill", || {
            let orphans = place.processes();
            for id in orphans.iter().filter_map(|id| Pid::from_raw(*id)) {
                // The process may have ended by itself.
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

/// Identifies a call, whatever its attempt.
fn call(effect: EffectId) -> (Scope, u32) {
    (effect.scope, effect.step)
}

/// Checks that each call ended once, except those that were running at the kill, and that no call started again after it had ended. The
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

/// Counts the commands that started after the first `after` entries.
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

/// Outcome of a run under a file size limit.
enum Fate {
    /// The run was killed when its journal had this many entries, and after a resume it reached the expected end.
    Killed(usize),
    /// The run was not killed.
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
        // Nothing was journaled and nothing done: `resume` says so, and the goal can be started again.
        assert_eq!(resumed.code(), Some(2), "{case}: {resumed}");
        assert!(
            resumed.stderr.contains("no run `last`") || resumed.stderr.contains("nothing was done"),
            "{case}: {resumed}"
        );
        let path = cargo.path(&place, "again");
        let _ = ended(place.command(RUN).env("PATH", path)).with_code(0);
    } else if is_ended {
        // The run was killed after its end was journaled, before it was reported.
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

/// The names of files that only one of the two has, or whose content differs.
///
/// No system call replaces a file with an unnamed one. So the new content first gets a temporary name of 36 characters, which is then
/// renamed; a kill in between leaves this copy. Such a copy is ignored if its content is that of an expected file.
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

/// Limits that end the process in every commit, each of which has at least three frames of the log, and while the files are created before
/// the first commit.
fn limits() -> impl Iterator<Item = u64> {
    let creation = (1..64).step_by(3);
    let frames = (7..)
        .step_by(3)
        .map(|frame: u64| (32 + frame * FRAME) / BLOCK + 1);
    creation.chain(frames)
}

#[test]
fn host_2_a_run_killed_in_any_commit_of_its_journal_reaches_the_same_end() {
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
    // Several entries can share a commit, so not every journal length occurs.
    assert!(deaths.len() > 60, "{} deaths", deaths.len());
    assert!(lengths.len() > 25, "journals of {lengths:?} entries");
    assert!(
        lengths.contains(&0) && lengths.last() > Some(&40),
        "journals of {lengths:?} entries"
    );
}

/// Kills a run with `kill -9` after its first event that satisfies the predicate, before its end, and returns its state in the journal.
fn killed_when(made: impl Fn() -> (Place, Command), is_it: impl Fn(&Value) -> bool) -> (Place, Stored) {
    killed_between(made, is_it, |_| false)
}

/// Kills a run with `kill -9` after its first event that satisfies `is_it`, before its end and before any event that satisfies `is_over`,
/// and returns its state in the journal.
///
/// Events are read with a delay, so a run may have ended before it is killed. In this case the next run gets a lower file size limit, until
/// the limit lies between the event and the end, so that the run ends there by itself.
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
            // Entries are grouped into commits differently in each run, so the size limit that stopped one run in time may not stop the next.
            // Restart the search.
            fitting = 0..PLENTY;
        }
        blocks = u64::midpoint(fitting.start, fitting.end);
    }
    panic!("no run was killed between that event and its end");
}

/// Like [`killed_when`] with the run on the sample, which is then resumed.
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
fn host_2_a_command_running_at_a_kill_is_reported_as_interrupted() {
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
fn host_2_after_a_kill_after_the_first_edit_the_resumed_run_does_the_rest() {
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
fn host_2_a_run_killed_before_reflection_repeats_no_command() {
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
fn paor_2_a_rename_killed_after_its_definition_is_finished_without_a_compiler() {
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
            // One edit at a time, so that the definition comes first.
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
        // At least the edit of `e` remains to be done.
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
