//! HOST-2: checking, copying, moving and pruning the journal from the command line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::process::Command;

use dirigent_tests::cli::{Ended, Place, binary, ended};
use rusqlite::Connection;
use serde_json::json;

const GOAL: &str = "rename the function parsePrice to readPrice";

/// A project of two files, whose rename takes several steps in a fixed order.
fn shop() -> Place {
    let place = Place::new();
    place.write(
        "price.js",
        "export function parsePrice(text) { return Number(text); }\n",
    );
    place.write("notes.txt", "parsePrice reads prices.\n");
    let _ = place.run(GOAL).with_code(0);
    place
}

fn journal(place: &Place, arguments: &[&str]) -> Ended {
    place.dirigent(["journal"].iter().chain(arguments))
}

/// Runs the command with another journal.
fn with_db(place: &Place, db: &str, arguments: &[&str]) -> Ended {
    let mut command = Command::new(binary());
    place.settle(&mut command);
    ended(command.args(["--db", db]).args(arguments))
}

/// Compares the output with the snapshot, without the parts that differ between runs.
#[track_caller]
fn check(place: &Place, name: &str, ended: &Ended) {
    let folder = place.folder().canonicalize().unwrap();
    let mut settings = insta::Settings::clone_current();
    for (found, shown) in [
        (folder.to_str().unwrap(), "PLACE"),
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "RUN-ID",
        ),
        (r"\b[0-9a-f]{8}\b", "RUN"),
        (r"\b\d+(\.\d+)? [KM]iB\b", "SIZE"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE"),
    ] {
        settings.add_filter(found, shown);
    }
    let printed = format!(
        "exit code {}\n--- standard output\n{}--- standard error\n{}",
        ended.code().unwrap(),
        ended.stdout,
        ended.stderr
    );
    settings.bind(|| insta::assert_snapshot!(name, printed));
}

/// Moves the end of all runs 40 days into the past.
fn age(place: &Place) {
    let db = Connection::open(place.db()).unwrap();
    let days = 40_i64 * 24 * 60 * 60 * 1000;
    db.execute("UPDATE runs SET ended_at = ended_at - ?1", [days])
        .unwrap();
}

#[test]
fn host_3_help_explains_the_journal_commands() {
    let place = Place::new();
    check(&place, "help", &journal(&place, &["--help"]));
    for command in ["check", "backup", "export", "import", "prune"] {
        let help = journal(&place, &[command, "--help"]);
        check(&place, &format!("help_{command}"), &help);
    }
}

#[test]
fn host_2_a_check_reports_the_damage() {
    let place = shop();
    check(&place, "intact", &journal(&place, &["check"]));
    let intact = journal(&place, &["check", "--json"]).with_code(0).json_lines();
    assert_eq!(intact[0]["problems"], json!([]));
    assert_eq!(intact[0]["runs"], 1);

    let db = Connection::open(place.db()).unwrap();
    db.execute(
        "UPDATE journal SET body = replace(body, ':', ': ') WHERE seq = 5",
        [],
    )
    .unwrap();
    db.execute("DELETE FROM journal WHERE seq = 7", []).unwrap();
    db.execute(
        "DELETE FROM contents WHERE digest IN (SELECT digest FROM originals WHERE path = 'price.js')",
        [],
    )
    .unwrap();
    check(&place, "damaged", &journal(&place, &["check"]));
    let damaged = journal(&place, &["check", "--json"]).with_code(1).json_lines();
    assert_eq!(damaged[0]["problems"][0]["entry"], 5);
    assert_eq!(
        damaged[0]["problems"][0]["problem"],
        "was changed or damaged after it was written"
    );

    let refused = journal(&place, &["export", "last"]).with_code(5);
    assert_eq!(refused.stdout, "");
    let refused = journal(&place, &["export", "last", "run.jsonl"]).with_code(5);
    assert!(refused.stderr.contains("entry 5 of run "), "{refused}");
    assert!(!place.folder().join("run.jsonl").exists());
}

#[test]
fn host_2_a_backup_is_a_journal() {
    let place = shop();
    check(&place, "backup", &journal(&place, &["backup", "copy.db"]));
    check(&place, "backup_exists", &journal(&place, &["backup", "copy.db"]));
    let copy = with_db(&place, "copy.db", &["show", "last", "--json"]).with_code(0);
    assert_eq!(copy.json_lines()[0]["reason"], "goal_achieved");
}

#[test]
fn host_2_an_imported_run_is_shown_and_undone() {
    let place = shop();
    let shown = place.dirigent(["show", "last", "--verbose"]).with_code(0).stdout;
    check(
        &place,
        "export",
        &journal(&place, &["export", "last", "run.jsonl"]),
    );
    let file = fs::read_to_string(place.folder().join("run.jsonl")).unwrap();
    assert_eq!(journal(&place, &["export", "last"]).with_code(0).stdout, file);
    check(
        &place,
        "import_exists",
        &journal(&place, &["import", "run.jsonl"]),
    );

    let missing = with_db(&place, "other.db", &["journal", "import", "missing.jsonl"]).with_code(2);
    assert!(
        missing
            .stderr
            .starts_with("error: cannot read missing.jsonl: check the path and its permissions: "),
        "{missing}"
    );
    assert!(!place.folder().join("other.db").exists());

    // A file that was cut may end within a character, too.
    let within_character = file.find(|c: char| !c.is_ascii()).unwrap() + 1;
    for length in [file.len() / 2, within_character] {
        fs::write(place.folder().join("cut.jsonl"), &file.as_bytes()[..length]).unwrap();
        let cut = with_db(&place, "other.db", &["journal", "import", "cut.jsonl"]).with_code(2);
        assert!(cut.stderr.contains(" of cut.jsonl "), "{cut}");
    }
    let imported = with_db(&place, "other.db", &["journal", "import", "run.jsonl"]);
    check(&place, "import", &imported);

    let other = |arguments: &[&str]| with_db(&place, "other.db", arguments);
    assert_eq!(other(&["show", "last", "--verbose"]).with_code(0).stdout, shown);
    let undone = other(&["undo", "last", "--yes"]).with_code(0);
    assert!(
        undone.stdout.ends_with("Undid the changes to 1 file.\n"),
        "{undone}"
    );
    assert!(place.read("price.js").contains("parsePrice"));
}

#[test]
fn host_2_old_runs_are_deleted() {
    let place = shop();
    check(
        &place,
        "prune_nothing",
        &journal(&place, &["prune", "--older-than", "30d"]),
    );
    age(&place);
    let _ = place.run("count the usages of readPrice").with_code(0);
    let dry = journal(&place, &["prune", "--older-than", "30d", "--dry-run"]);
    check(&place, "prune_dry_run", &dry);
    check(
        &place,
        "prune",
        &journal(&place, &["prune", "--older-than", "30d"]),
    );
    let runs = place.dirigent(["runs", "--json"]).with_code(0).json_lines();
    assert_eq!(runs.len(), 1);
    let _ = journal(&place, &["check"]).with_code(0);

    let usage = journal(&place, &["prune", "--older-than", "soon"]).with_code(2);
    assert!(usage.stderr.contains("must be a time"), "{usage}");
    let _ = journal(&place, &["prune"]).with_code(2);
}
