//! Exporting runs to files and importing them into another journal.

use std::fs;
use std::path::PathBuf;

use dirigent_core::digest::sha256_hex;
use dirigent_core::time::Timestamp;
use dirigent_store::{ForkPoint, RunEnding, StoreError};
use rusqlite::Connection;

use crate::backup::names_in;
use crate::check::{execute, filled};
use crate::fixture::{Fixture, append, create, end_as, fixture, run};

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
    let expected_end = format!(r#"{{"end":{{"entries":2,"originals":0,"contents":0,"sha256":"{sha256}"}}}}"#);
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
            "entry 3 of run 00000000-0000-0000-0000-000000000001 was changed or damaged after it was written"
                .to_owned(),
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
