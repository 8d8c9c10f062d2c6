//! HOST-2 and HOST-8 with a script that never ends: no second process gets the run, what a kill leaves, and that Ctrl-C and similar signals
//! leave nothing behind.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use dirigent_tests::cli::{Place, Watched, ended};
use rustix::process::{Pid, Signal, kill_process};

use super::{end_orphans, wait_until, wait_until_free};

/// A run whose script reports its start and then never ends.
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
        let mut run = Watched::start(&mut place.command_with_hang_up(goal));
        let script = std::fs::read_to_string(&started).unwrap();
        let script = Pid::from_raw(script.trim().parse().unwrap()).unwrap();
        // A command that prints events already listens for signals.
        run.wait_for(|_| true);
        Waiting { place, run, script }
    }

    fn signal(&self, signal: Signal) {
        let run = Pid::from_raw(self.run.id().try_into().unwrap()).unwrap();
        kill_process(run, signal).unwrap();
    }
}

/// Returns true if the process is running; a zombie is not.
fn is_alive(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
}

#[test]
fn host_2_an_interrupted_command_of_the_user_is_not_run_again_without_asking() {
    let Waiting { place, run, script } = Waiting::start("echo once >> runs.txt");
    run.kill();
    wait_until_free(&place);
    kill_process(script, Signal::KILL).unwrap();
    end_orphans(&place);

    let resumed = place.dirigent(["resume", "last"]).with_code(1);

    assert!(
        resumed.stdout.contains(
            "\n\n`sh wait.sh` was interrupted, so its result is unknown, and it may have done a part of its work. It was not run \
             again: start the goal again if that is safe.\n"
        ),
        "{resumed}"
    );
    assert_eq!(place.read("runs.txt"), "once\n");
}

#[test]
fn host_2_two_processes_never_execute_the_same_run() {
    let waiting = Waiting::start("");

    let second = waiting.place.dirigent(["resume", "last"]).with_code(2);

    assert!(
        second
            .stderr
            .contains(&format!("is owned by process {}", waiting.run.id())),
        "{second}"
    );
    assert!(is_alive(waiting.script), "the refused one disturbed the run");
    let runs = waiting.place.dirigent(["runs"]).with_code(0).stdout;
    assert!(runs.contains("  running "), "{runs}");
    waiting.signal(Signal::INT);
    let _ = waiting.run.end().with_code(130);
}

fn cancelled_by(signal: Signal) {
    let waiting = Waiting::start("");
    assert!(is_alive(waiting.script));

    waiting.signal(signal);
    let ended = waiting.run.end().with_code(130);

    wait_until("the script outlives its run", || !is_alive(waiting.script));
    // Events of agents that were still working may follow.
    let lines = ended.json_lines();
    let finished = lines.iter().find(|line| line["event"] == "run_finished");
    assert_eq!(finished.unwrap()["reason"], "cancelled");
    let shown = waiting.place.dirigent(["show", "last"]).with_code(0).stdout;
    assert!(shown.contains("\nCancelled after 1 iteration"), "{shown}");
    let refused = waiting.place.dirigent(["resume", "last"]).with_code(2);
    assert!(refused.stderr.contains("has already ended"), "{refused}");
}

#[test]
fn host_8_ctrl_c_ends_the_run_and_its_commands() {
    cancelled_by(Signal::INT);
}

#[test]
fn host_8_sigquit_ends_the_run_and_its_commands() {
    cancelled_by(Signal::QUIT);
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
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let script = std::fs::read_to_string(&started).unwrap();
    let script = Pid::from_raw(script.trim().parse().unwrap()).unwrap();
    let process = Pid::from_raw(run.id().try_into().unwrap()).unwrap();

    // Once the command prints anything, it listens for signals.
    let mut told = BufReader::new(run.stdout.take().unwrap());
    assert_ne!(told.read_line(&mut String::new()).unwrap(), 0);
    kill_process(process, Signal::INT).unwrap();
    let mut said = String::new();
    BufReader::new(run.stderr.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert_eq!(said, "cancelling; press Ctrl-C again to kill the run\n");
    kill_process(process, Signal::INT).unwrap();

    assert_eq!(run.wait().unwrap().code(), Some(130));
    wait_until("the script outlives its run", || !is_alive(script));
}
