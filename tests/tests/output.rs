//! HOST-3: all output is written, or the command fails; a closed pipe is not a failure.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::OpenOptions;
use std::process::Stdio;

use dirigent_tests::cli::{Ended, Place};

const RUN: [&str; 4] = ["run", "count the usages of parse_amount", "--workspace", "work"];

/// The command, with its standard output on a full disk.
fn on_a_full_disk(place: &Place, arguments: &[&str]) -> Ended {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = place.command(arguments);
    command.stdout(full).stderr(Stdio::piped());
    command.spawn().unwrap().wait_with_output().unwrap().into()
}

/// The command, whose standard output is a pipe without a reader.
fn without_a_reader(place: &Place, arguments: &[&str]) -> Ended {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = place.command(arguments);
    command.stdout(writer).stderr(Stdio::piped());
    command.spawn().unwrap().wait_with_output().unwrap().into()
}

#[track_caller]
fn fails(ended: Ended, of: &[&str]) {
    let ended = ended.with_code(1);
    assert!(
        ended
            .stderr
            .contains("error: cannot write to standard output, so the output is incomplete: "),
        "{of:?}: {ended}"
    );
    assert!(
        ended.stderr.contains("No space left on device"),
        "{of:?}: {ended}"
    );
}

#[test]
fn host_3_a_run_whose_output_cannot_be_written_fails_and_its_journal_is_complete() {
    let place = Place::with_sample();
    for flags in [&[][..], &["--json"], &["--verbose"]] {
        let arguments = [&RUN[..], flags].concat();
        fails(on_a_full_disk(&place, &arguments), &arguments);
        let shown = place
            .dirigent(["show", "last", "--json"])
            .with_code(0)
            .json_lines();
        assert_eq!(shown[0]["reason"], "goal_achieved", "{arguments:?}");
    }
}

#[test]
fn host_3_every_command_that_prints_fails_if_its_output_cannot_be_written() {
    let place = Place::new();
    place.write(
        "docs/a.md",
        "one colour
",
    );
    let _ = place
        .dirigent([
            "run",
            "replace 'colour' with 'color' in docs/",
            "--workspace",
            "work",
        ])
        .with_code(0);
    for arguments in [
        &["runs"][..],
        &["runs", "--json"],
        &["show", "last"],
        &["show", "last", "--json"],
        &["show", "last", "--steps"],
        &["show", "last", "--graph", "tree"],
        &["diff", "last"],
        &["undo", "last", "--dry-run"],
        &["watch", "last"],
        &["agents"],
        &["journal", "check"],
        &["journal", "export", "last"],
        &["config", "check", "--offline"],
        &["--help"],
        &["run", "--help"],
        &["--version"],
    ] {
        fails(on_a_full_disk(&place, arguments), arguments);
    }
}

#[test]
fn host_3_a_closed_pipe_is_not_a_failure() {
    let place = Place::with_sample();
    let run = without_a_reader(&place, &RUN).with_code(0);
    assert_eq!(run.stderr, "");
    for arguments in [&["runs"][..], &["show", "last", "--verbose"], &["--help"]] {
        let ended = without_a_reader(&place, arguments).with_code(0);
        assert_eq!(ended.stderr, "", "{arguments:?}");
    }
}

#[test]
fn host_3_a_failed_run_keeps_its_exit_code_if_its_output_cannot_be_written() {
    let place = Place::with_sample();
    let limited = on_a_full_disk(&place, &[&RUN[..], &["--max-model-calls", "1"]].concat()).with_code(3);
    assert!(
        limited.stderr.contains("cannot write to standard output"),
        "{limited}"
    );
}
