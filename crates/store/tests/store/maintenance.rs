//! Checking, copying, exporting and importing, and deleting old runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dirigent_core::digest::sha256_hex;
use dirigent_core::id::{AgentId, EffectId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::FileVersion;
use dirigent_store::{
    Durability, ForkPoint, Journal, JournalSpace, NewEntry, Original, PausedRuns, Position, PruneFilter,
    RunEnding, StoreError,
};
use rusqlite::Connection;

use crate::fixture::{
    Fixture, append, append_entry, create, end, end_as, entry, fixture, open, run, stored, words,
};
use crate::other_process::{self, Role};

/// A run as Dirigent records it; its first entry contains the setup.
const RECORDED: &str = include_str!("../../../../tests/journals/v1-rename.jsonl");

/// The first entry of a recorded run, whose setup is stored separately, with the goal and the workspace of [`create`].
fn started() -> NewEntry {
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
fn record(journal: &Journal, number: u128, path: &str, content: &[u8]) {
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
fn filled() -> Fixture {
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

fn execute(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// A copy of a journal, with a malformed page.
fn malformed() -> (Fixture, PathBuf) {
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

fn names_in(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

mod check {
    use super::*;

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
        let problem = "the reason for its end is missing or not as it was written";
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
            &[
                "run 1: the recorded content of src/a.rs (call a2.1) was changed or damaged after it was written",
            ],
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
}

mod backup {
    use super::*;

    #[test]
    fn a_backup_during_an_active_run_is_a_consistent_journal() {
        let f = filled();
        let claim = create(&f.journal, 3);
        let copy = f.path.with_file_name("copy.db");
        let copied = std::thread::scope(|threads| {
            let backup = threads.spawn(|| f.journal.backup(&copy).unwrap());
            for number in 0..200 {
                append(&f.journal, &claim, &number.to_string()).unwrap();
            }
            backup.join().unwrap()
        });

        assert_eq!(fs::metadata(&copy).unwrap().len(), copied);
        let journal = open(&copy);
        assert_eq!(journal.check().unwrap().problems, []);
        let entries = |journal: &Journal| journal.entries(run(1), 0, 10).unwrap();
        assert_eq!(entries(&journal), entries(&f.journal));
        let kept = stored(&journal, run(3));
        assert_eq!(kept, stored(&f.journal, run(3))[..kept.len()]);
        assert_eq!(journal.run(run(3)).unwrap().owner_pid, None);
        let again = journal.claim(run(3)).unwrap();
        append(&journal, &again, "goes on").unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn only_the_user_can_read_a_backup() {
        use std::os::unix::fs::PermissionsExt;
        let f = filled();
        let copy = f.path.with_file_name("copy.db");

        f.journal.backup(&copy).unwrap();

        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_existing_file_is_never_overwritten() {
        let f = filled();
        let copy = f.path.with_file_name("copy.db");
        fs::write(&copy, "mine").unwrap();

        for file in [&copy, &f.path] {
            let error = f.journal.backup(file).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "{} already exists: name another file, or remove it",
                    file.display()
                )
            );
        }

        assert_eq!(fs::read(&copy).unwrap(), b"mine");
    }

    #[test]
    fn a_backup_that_fails_leaves_no_file() {
        let (f, malformed) = malformed();
        let folder = f.path.with_file_name("backups");
        fs::create_dir(&folder).unwrap();

        let failed = open(&malformed).backup(&folder.join("copy.db"));

        assert!(failed.is_err());
        assert_eq!(names_in(&folder), [""; 0]);
    }
}

mod moving {
    use super::*;

    fn exported(f: &Fixture, number: u128) -> (PathBuf, String) {
        let file = f.path.with_file_name(format!("run-{number}.jsonl"));
        f.journal.export(run(number), &file).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        (file, text)
    }

    #[test]
    fn a_run_is_exported_as_lines_of_json() {
        let f = filled();

        let (_, text) = exported(&f, 2);

        let (lines, end) = text.split_at(text.trim_end().rfind('\n').unwrap() + 1);
        let sha256 = sha256_hex(lines.as_bytes());
        let expected_end =
            format!(r#"{{"end":{{"entries":2,"originals":0,"contents":0,"sha256":"{sha256}"}}}}"#);
        assert_eq!(end.trim_end(), expected_end);
        assert_eq!(
            lines,
            r#"{"format":"dirigent-run","version":1,"run":{"id":"00000000-0000-0000-0000-000000000002","goal":"goal","workspace":"/work","created_at":1000,"ended_at":null,"status":null,"paused":false,"forked_from":null}}
{"run":"00000000-0000-0000-0000-000000000002","seq":1,"at":2000,"scope":"run","input":{"run":{"guided":{"guidance":"x"}}}}
{"run":"00000000-0000-0000-0000-000000000002","seq":2,"at":2000,"scope":"run","input":{"run":{"guided":{"guidance":"y"}}}}
"#
        );
    }

    #[test]
    fn an_imported_run_is_the_exported_one() {
        let f = filled();
        let fork = f.journal.fork(run(1), 3, run(4), Timestamp(3_000)).unwrap();
        end_as(&f.journal, &fork, RunEnding::Paused).unwrap();
        let other = fixture();

        for number in [1, 2, 4] {
            let (file, text) = exported(&f, number);
            assert_eq!(other.journal.import(&file).unwrap(), run(number));
            let (_, again) = exported(&other, number);
            assert_eq!(again, text);
        }

        assert_eq!(other.journal.check().unwrap().problems, []);
        assert_eq!(
            other.journal.originals(run(1)).unwrap(),
            f.journal.originals(run(1)).unwrap()
        );
        assert_eq!(
            other.journal.content(&sha256_hex(b"\x89PNG\xff")).unwrap(),
            Some(b"\x89PNG\xff".to_vec())
        );
        assert_eq!(
            other.journal.run(run(4)).unwrap().forked_from,
            Some(ForkPoint { run: run(1), seq: 3 })
        );
        let claim = other.journal.claim(run(2)).unwrap();
        append(&other.journal, &claim, "goes on").unwrap();
        // The setup is stored once for both runs.
        let db = Connection::open(&other.path).unwrap();
        let contents: i64 = db
            .query_row("SELECT count(*) FROM contents", [], |row| row.get(0))
            .unwrap();
        assert_eq!(contents, 3);
    }

    #[test]
    fn contents_that_only_entries_name_are_exported() {
        let f = fixture();
        let claim = create(&f.journal, 1);
        let (named, other) = (sha256_hex(b"after the run"), sha256_hex(b"of another run"));
        f.journal.record_content(&named, b"after the run").unwrap();
        f.journal.record_content(&other, b"of another run").unwrap();
        append(&f.journal, &claim, &named).unwrap();

        let (_, text) = exported(&f, 1);

        assert!(text.contains(&format!(
            r#"{{"content":{{"digest":"{named}","text":"after the run"}}}}"#
        )));
        assert!(!text.contains(&other));
    }

    #[test]
    fn a_damaged_run_is_not_exported_and_leaves_no_file() {
        for (sql, expected) in [
            (
                r#"UPDATE journal SET body = replace(body, '"c"', '"C"') WHERE run = 1"#.to_owned(),
                "entry 3 of run 00000000-0000-0000-0000-000000000001 was changed or damaged after it was written".to_owned(),
            ),
            (
                "DELETE FROM journal WHERE run = 1 AND seq = 5".to_owned(),
                "entry 5 of run 00000000-0000-0000-0000-000000000001 is missing from the journal".to_owned(),
            ),
            (
                format!(
                    "UPDATE contents SET bytes = x'00' WHERE digest = '{}'",
                    sha256_hex(b"fn a() {}\n")
                ),
                format!(
                    "an original file content that run 00000000-0000-0000-0000-000000000001 recorded (SHA-256 {}) was changed or damaged after it was written",
                    sha256_hex(b"fn a() {}\n")
                ),
            ),
        ] {
            let f = filled();
            let folder = f.path.with_file_name("exports");
            fs::create_dir(&folder).unwrap();
            execute(&f.path, &sql);

            let error = f.journal.export(run(1), &folder.join("run.jsonl")).unwrap_err();

            assert!(error.to_string().starts_with(&expected), "{error}");
            assert_eq!(names_in(&folder), [""; 0]);
        }
    }

    #[test]
    fn an_export_overwrites_no_file_and_names_an_unknown_run() {
        let f = filled();
        let (file, text) = exported(&f, 1);

        let exists = f.journal.export(run(2), &file).unwrap_err();
        let unknown = f.journal.export(run(9), &file).unwrap_err();

        assert!(matches!(exists, StoreError::FileExists { .. }), "{exists}");
        assert!(matches!(unknown, StoreError::NoSuchRun { .. }), "{unknown}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }

    #[test]
    fn a_run_that_exists_is_not_imported() {
        let f = filled();
        let (file, _) = exported(&f, 1);

        let error = f.journal.import(&file).unwrap_err();

        assert!(
            matches!(error, StoreError::RunExists { run: id } if id == run(1)),
            "{error}"
        );
        assert_eq!(f.journal.run(run(1)).unwrap().entries, 5);
    }

    #[test]
    fn an_altered_export_is_refused_with_the_line() {
        let f = filled();
        let (file, text) = exported(&f, 1);
        let other = fixture();
        let lines: Vec<&str> = text.lines().collect();
        let without = |number: usize| {
            let mut lines = lines.clone();
            lines.remove(number - 1);
            lines.join("\n")
        };
        let replaced = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        };
        for (changed, line, expected) in [
            (String::new(), 1, "is missing"),
            (
                "Remember the milk.\n".to_owned(),
                1,
                "is not the header of an exported run",
            ),
            (
                replaced("dirigent-run", "other"),
                1,
                "has the format `other` instead of `dirigent-run`",
            ),
            (
                replaced(r#""version":1"#, r#""version":2"#),
                1,
                "has version 2 of the format",
            ),
            (without(3), 3, "has entry 3 where entry 2 must follow"),
            (
                without(6),
                10,
                "announces 5 entries, 2 original files and 2 file contents, but the file has 4, 2 and 2",
            ),
            (
                without(7),
                10,
                "announces 5 entries, 2 original files and 2 file contents, but the file has 5, 1 and 2",
            ),
            (
                without(9),
                10,
                "announces 5 entries, 2 original files and 2 file contents, but the file has 5, 2 and 1",
            ),
            (without(11), 11, "is missing: the file is not complete"),
            (
                replaced("guided", "gilded"),
                3,
                "has an entry that this version of Dirigent cannot read",
            ),
            (
                replaced("fn a() {}", "fn b() {}"),
                9,
                "has a content that does not match its digest",
            ),
            (
                format!("{text}{}", lines[1]),
                12,
                "comes after the end of the run",
            ),
            (
                replaced(r#""workspace":"/work""#, r#""workspace":"/etc""#),
                11,
                "has a checksum that does not match the lines before it",
            ),
            (
                text.replacen("0001\",\"seq\":3", "0002\",\"seq\":3", 1),
                4,
                "is an entry of another run",
            ),
        ] {
            fs::write(&file, changed).unwrap();

            let error = other.journal.import(&file).unwrap_err();

            let expected = format!("line {line} of {} {expected}", file.display());
            assert!(error.to_string().starts_with(&expected), "{error}\n{expected}");
        }
        assert_eq!(other.journal.runs().unwrap(), []);
        let db = Connection::open(&other.path).unwrap();
        for table in ["journal", "contents", "originals"] {
            let sql = format!("SELECT count(*) FROM {table}");
            let rows: i64 = db.query_row(&sql, [], |row| row.get(0)).unwrap();
            assert_eq!(rows, 0, "{table}");
        }
    }
}

mod prune {
    use super::*;

    /// Every run that ended before 10 s; the fixture's runs end at 9 s.
    const OLD: PruneFilter = PruneFilter {
        ended_before: Timestamp(10_000),
        paused: PausedRuns::Keep,
    };

    fn numbers(journal: &Journal) -> Vec<u128> {
        let mut numbers: Vec<_> = journal
            .runs()
            .unwrap()
            .iter()
            .map(|record| record.run.0.as_u128())
            .collect();
        numbers.sort_unstable();
        numbers
    }

    fn finished(journal: &Journal, number: u128, ending: RunEnding) {
        let claim = create(journal, number);
        append(journal, &claim, "a").unwrap();
        end_as(journal, &claim, ending).unwrap();
        drop(claim);
        journal.flush().unwrap();
    }

    #[test]
    fn only_old_ended_runs_without_an_owner_are_deleted() {
        let f = fixture();
        finished(&f.journal, 1, RunEnding::Finished);
        finished(&f.journal, 2, RunEnding::Paused);
        let interrupted = create(&f.journal, 3);
        append(&f.journal, &interrupted, "a").unwrap();
        drop(interrupted);
        finished(&f.journal, 4, RunEnding::Finished);
        let _owned = f.journal.claim(run(4)).unwrap();

        let too_new = PruneFilter {
            ended_before: Timestamp(9_000),
            ..OLD
        };
        assert_eq!(f.journal.prunable(too_new).unwrap(), []);
        let prunable = f.journal.prunable(OLD).unwrap();
        assert_eq!(prunable.len(), 1);
        assert_eq!(numbers(&f.journal), [1, 2, 3, 4]);

        let pruned = f.journal.prune(OLD).unwrap();

        assert_eq!(pruned.runs, prunable);
        assert_eq!((pruned.runs[0].run, pruned.runs[0].entries), (run(1), 1));
        assert_eq!(numbers(&f.journal), [2, 3, 4]);
        let paused = PruneFilter {
            paused: PausedRuns::Delete,
            ..OLD
        };
        assert_eq!(f.journal.prune(paused).unwrap().runs.len(), 1);
        assert_eq!(numbers(&f.journal), [3, 4]);
        assert_eq!(f.journal.check().unwrap().problems, []);
    }

    #[test]
    fn a_run_of_a_live_process_is_kept_and_a_run_of_a_dead_process_is_deleted() {
        let f = fixture();
        let other = other_process::start(Role::Holds, &f.path);
        execute(&f.path, "UPDATE runs SET ended_at = 9000, status = '1'");

        assert_eq!(f.journal.prune(OLD).unwrap().runs, []);
        other_process::kill(other);
        assert_eq!(f.journal.prune(OLD).unwrap().runs.len(), 1);

        assert_eq!(numbers(&f.journal), [0; 0]);
        assert_eq!(f.journal.check().unwrap().problems, []);
    }

    #[test]
    fn contents_are_deleted_with_the_last_run_that_refers_to_them() {
        let f = fixture();
        let (own, shared, named) = (b"own", b"shared", b"named");
        for number in [1, 2] {
            let claim = create(&f.journal, number);
            append_entry(&f.journal, &claim, started()).unwrap();
            record(&f.journal, number, "b", shared);
            if number == 1 {
                record(&f.journal, 1, "a", own);
                record(&f.journal, 1, "c", named);
                end(&f.journal, &claim).unwrap();
            } else {
                // Refers to the content by its digest, as a tool's change does.
                append(&f.journal, &claim, &sha256_hex(named)).unwrap();
            }
        }

        assert_eq!(f.journal.prune(OLD).unwrap().contents, 1);

        let has = |content: &[u8]| f.journal.has_content(&sha256_hex(content)).unwrap();
        assert_eq!([has(own), has(shared), has(named)], [false, true, true]);
        assert_eq!(f.journal.check().unwrap().problems, []);
        assert_eq!(f.journal.entries(run(2), 0, 1).unwrap().len(), 1);

        let claim = f.journal.claim(run(2)).unwrap();
        end(&f.journal, &claim).unwrap();
        drop(claim);
        f.journal.flush().unwrap();
        assert_eq!(f.journal.prune(OLD).unwrap().contents, 3);
        assert_eq!(numbers(&f.journal), [0; 0]);
    }

    #[test]
    fn a_fork_is_complete_without_its_source() {
        let f = fixture();
        finished(&f.journal, 1, RunEnding::Finished);
        let fork = f.journal.fork(run(1), 1, run(2), Timestamp(3_000)).unwrap();
        append(&f.journal, &fork, "b").unwrap();

        f.journal.prune(OLD).unwrap();

        assert_eq!(numbers(&f.journal), [2]);
        assert_eq!(stored(&f.journal, run(2)), ["1 a", "2 b"]);
        assert_eq!(
            f.journal.run(run(2)).unwrap().forked_from,
            Some(ForkPoint { run: run(1), seq: 1 })
        );
        assert_eq!(f.journal.check().unwrap().problems, []);
    }

    #[test]
    fn the_space_is_freed_unless_a_process_owns_a_run() {
        let fill = |journal: &Journal| {
            let claim = create(journal, 1);
            for _ in 0..200 {
                append(journal, &claim, &"x".repeat(10_000)).unwrap();
            }
            end(journal, &claim).unwrap();
            drop(claim);
            journal.flush().unwrap();
        };
        let f = fixture();
        fill(&f.journal);
        let Fixture { journal, path, .. } = &f;
        let space = journal.prune(OLD).unwrap().space;
        assert!(
            matches!(space, JournalSpace::Reusable(bytes) if bytes > 1_000_000),
            "{space:?}"
        );

        // The run's owner counts as alive as long as its journal is open.
        let f = fixture();
        fill(&open(&f.path));
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        execute(&f.path, "PRAGMA wal_checkpoint(TRUNCATE)");
        assert!(size(&f.path) > 1_000_000);

        let space = f.journal.prune(OLD).unwrap().space;

        assert!(
            matches!(space, JournalSpace::Freed(bytes) if bytes > 1_000_000),
            "{space:?}"
        );
        assert!(size(&f.path) < 200_000);
        assert_eq!(size(path) % 4096, 0);
        let claim = create(&f.journal, 2);
        append(&f.journal, &claim, "goes on").unwrap();
    }

    #[test]
    fn lock_files_of_dead_owners_without_claims_are_removed() {
        let f = fixture();
        other_process::kill(other_process::start(Role::Holds, &f.path));
        let owners = PathBuf::from(format!("{}-owners", f.path.display()));
        fs::write(owners.join("1-2.lock"), "").unwrap();
        let _claim = create(&f.journal, 2);
        assert_eq!(names_in(&owners).len(), 3);

        assert_eq!(f.journal.prune(OLD).unwrap().lock_files, 1);

        // The killed process and this one each have a claim.
        assert_eq!(names_in(&owners).len(), 2);
        execute(
            &f.path,
            "UPDATE runs SET ended_at = 9000, status = '1' WHERE id = 1",
        );
        assert_eq!(f.journal.prune(OLD).unwrap().lock_files, 1);
        assert_eq!(names_in(&owners).len(), 1);
        assert!(matches!(
            f.journal.create(run(2), &words(""), "", Timestamp(1)),
            Err(StoreError::RunExists { .. })
        ));
    }

    #[test]
    fn pending_messages_are_deleted_with_their_run() {
        let f = fixture();
        finished(&f.journal, 1, RunEnding::Paused);
        f.journal
            .post(run(1), Timestamp(1), "hello".to_owned(), Position::Last)
            .unwrap();
        let paused = PruneFilter {
            paused: PausedRuns::Delete,
            ..OLD
        };

        f.journal.prune(paused).unwrap();

        assert_eq!(f.journal.check().unwrap().problems, []);
        assert!(f.journal.pending_messages(run(1)).unwrap_or_default().is_empty());
    }
}
