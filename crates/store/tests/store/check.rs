//! Checking a journal: an intact one has no problems, and all that was changed, damaged or lost is listed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::digest::sha256_hex;
use dirigent_core::id::{AgentId, EffectId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::tool::FileVersion;
use dirigent_store::{Durability, Journal, NewEntry, Original};
use rusqlite::Connection;

use crate::fixture::{Fixture, append, append_entry, create, end, entry, fixture, open, run};
use crate::other_process::{self, Role};

/// A run as Dirigent records it; its first entry contains the setup.
const RECORDED: &str = include_str!("../../../../tests/journals/v1-rename.jsonl");

/// The first entry of a recorded run, whose setup is stored separately, with the goal and the workspace of [`create`].
pub(crate) fn started() -> NewEntry {
    let mut recorded: Entry = serde_json::from_str(RECORDED.lines().next().unwrap()).unwrap();
    if let Input::Run(RunInput::Started { spec }) = &mut recorded.input {
        let spec = Arc::make_mut(spec);
        (spec.goal, spec.workspace) = ("goal".to_owned(), "/work".to_owned());
    }
    let shared = recorded.input.as_ref().shared_texts();
    NewEntry {
        body: serde_json::to_string(&recorded.input).unwrap(),
        shared,
        durability: Durability::Full,
        ..entry("")
    }
}

/// Records that call a2.1 of a run is about to change a file with this content.
pub(crate) fn record(journal: &Journal, number: u128, path: &str, content: &[u8]) {
    let original = Original {
        run: run(number),
        effect: EffectId {
            scope: Scope::Agent(AgentId(2)),
            step: 1,
            attempt: 0,
        },
        path: path.to_owned(),
        version: FileVersion {
            digest: sha256_hex(content),
            mode: 0o100_644,
        },
    };
    journal.record_original(original, content).unwrap();
}

/// A journal with run 1, which has five entries, the first of them with the setup, and two recorded files; and run 2, which has two
/// entries.
pub(crate) fn filled() -> Fixture {
    let f = fixture();
    let (first, second) = (create(&f.journal, 1), create(&f.journal, 2));
    append_entry(&f.journal, &first, started()).unwrap();
    for text in ["b", "c", "d", "e"] {
        append(&f.journal, &first, text).unwrap();
    }
    record(&f.journal, 1, "src/a.rs", b"fn a() {}\n");
    record(&f.journal, 1, "logo.png", b"\x89PNG\xff");
    for text in ["x", "y"] {
        append(&f.journal, &second, text).unwrap();
    }
    end(&f.journal, &first).unwrap();
    f
}

pub(crate) fn execute(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// A copy of a journal, with a malformed page.
pub(crate) fn malformed() -> (Fixture, PathBuf) {
    let f = filled();
    let claim = f.journal.claim(run(2)).unwrap();
    for _ in 0..50 {
        append(&f.journal, &claim, &"x".repeat(1_000)).unwrap();
    }
    execute(&f.path, "PRAGMA wal_checkpoint(TRUNCATE)");
    let copy = f.path.with_file_name("malformed.db");
    let mut bytes = fs::read(&f.path).unwrap();
    let page = bytes.len() / 4096 - 5;
    bytes[page * 4096..][..4096].fill(0x5a);
    fs::write(&copy, bytes).unwrap();
    (f, copy)
}

#[track_caller]
fn problems_after(sql: &str, expected: &[&str]) {
    let f = filled();
    execute(&f.path, sql);
    let check = f.journal.check().unwrap();
    let found: Vec<_> = check
        .problems
        .iter()
        .map(|problem| {
            problem
                .to_string()
                .replace("00000000-0000-0000-0000-00000000000", "")
        })
        .collect();
    assert_eq!(found, expected, "{sql}");
    assert_eq!(check.runs, 2);
}

#[test]
fn an_intact_journal_has_no_problems_while_runs_are_active() {
    let f = filled();
    let _active = create(&f.journal, 3);

    let check = f.journal.check().unwrap();

    assert_eq!(check.problems, []);
    assert_eq!((check.runs, check.entries), (3, 7));
    assert_eq!(check.bytes % 4096, 0);
    assert!(check.bytes > 30_000);
}

#[test]
fn every_changed_entry_is_listed() {
    problems_after(
        r#"UPDATE journal SET body = replace(body, '"b"', '"B"') WHERE run = 1 AND seq = 2;
           UPDATE journal SET at = at + 1 WHERE run = 1 AND seq = 4;
           UPDATE journal SET scope = 7 WHERE run = 2 AND seq = 1"#,
        &[
            "run 1: entry 2 was changed or damaged after it was written",
            "run 1: entry 4 was changed or damaged after it was written",
            "run 2: entry 1 was changed or damaged after it was written",
        ],
    );
}

#[test]
fn a_changed_reason_for_the_end_is_listed() {
    let problem = "the recorded end reason is missing or has been altered";
    problems_after(
        "UPDATE runs SET status = 'do' WHERE id = 1; UPDATE runs SET ended_at = 1 WHERE id = 2",
        &[&format!("run 1: {problem}"), &format!("run 2: {problem}")],
    );
}

#[test]
fn a_record_that_differs_from_its_run_is_listed() {
    problems_after(
        "UPDATE runs SET goal = 'another'; UPDATE runs SET workspace = '/elsewhere'",
        &[
            "run 1: its goal in the list of runs differs from its first entry",
            "run 1: its workspace in the list of runs differs from its first entry",
        ],
    );
}

#[test]
fn missing_entries_are_listed() {
    problems_after(
        "DELETE FROM journal WHERE run = 1 AND seq = 3",
        &["run 1: entry 3 is missing from the journal"],
    );
    problems_after(
        "DELETE FROM journal WHERE run = 1 AND seq > 3",
        &["run 1: entry 4 is missing from the journal"],
    );
    problems_after(
        "DELETE FROM journal WHERE run = 2",
        &["run 2: entry 1 is missing from the journal"],
    );
}

#[test]
fn swapped_entries_are_listed() {
    problems_after(
        "UPDATE journal SET seq = -3 WHERE run = 1 AND seq = 3;
         UPDATE journal SET seq = 3 WHERE run = 1 AND seq = 4;
         UPDATE journal SET seq = 4 WHERE run = 1 AND seq = -3;",
        &[
            "run 1: entry 3 was changed or damaged after it was written",
            "run 1: entry 4 was changed or damaged after it was written",
            "run 1: entry 5 was changed or damaged after it was written",
        ],
    );
}

#[test]
fn an_entry_that_was_added_by_hand_is_listed() {
    problems_after(
        "INSERT INTO journal SELECT run, 3, at, scope, body, parts, chain FROM journal WHERE run = 2 AND seq = 2",
        &["run 2: entry 3 was changed or damaged after it was written"],
    );
    problems_after(
        "UPDATE runs SET entries = 1 WHERE id = 2",
        &["run 2: entry 2 was changed or damaged after it was written"],
    );
}

#[test]
fn a_changed_or_missing_setup_is_listed() {
    let text = "run 1: entry 1 refers to content that is stored once for several entries, and this content is missing or damaged";
    let digest = started().shared[0].digest().to_owned();
    let setup = format!("'{digest}'");
    problems_after(
        &format!("UPDATE contents SET bytes = CAST('{{}}' AS BLOB) WHERE digest = {setup}"),
        &[
            text,
            &format!("the recorded content {digest} was changed or damaged after it was written"),
        ],
    );
    problems_after(&format!("DELETE FROM contents WHERE digest = {setup}"), &[text]);
}

#[test]
fn a_changed_or_missing_file_content_is_listed_with_its_file_and_call() {
    let digest = sha256_hex(b"fn a() {}\n");
    problems_after(
        &format!("UPDATE contents SET bytes = x'00' WHERE digest = '{digest}'"),
        &["run 1: the recorded content of src/a.rs (call a2.1) was changed or damaged after it was written"],
    );
    problems_after(
        &format!("DELETE FROM contents WHERE digest = '{digest}'"),
        &["run 1: the recorded content of src/a.rs (call a2.1) is missing from the journal"],
    );
}

#[test]
fn rows_without_a_run_are_listed() {
    problems_after(
        "PRAGMA foreign_keys = OFF; UPDATE originals SET run = 77",
        &["the table `originals` has 2 rows of runs that are missing from the journal"],
    );
}

#[test]
fn a_malformed_page_is_a_problem_and_the_other_runs_are_checked() {
    let (_f, copy) = malformed();

    let check = open(&copy).check().unwrap();

    assert!(!check.problems.is_empty());
    assert!(
        check.problems[0]
            .to_string()
            .starts_with("the database is damaged: "),
        "{:?}",
        check.problems
    );
    assert!(check.runs >= 1);
}

#[test]
fn committed_entries_that_are_lost_are_reported_as_a_problem() {
    let f = fixture();
    other_process::kill(other_process::start(Role::Holds, &f.path));
    // The state after the write-ahead log has lost its last transaction.
    execute(
        &f.path,
        "DELETE FROM journal; UPDATE runs SET entries = 0, chain = (SELECT chain FROM runs)",
    );

    let problems = f.journal.check().unwrap().problems;

    assert!(
        problems
            .iter()
            .any(|problem| problem.problem == "1 entries were committed, but the journal has only 0"),
        "{problems:?}"
    );
}
