//! Errors in a goal, a project, an argument or a journal are reported clearly, have their exit code (HOST-3), and leave nothing half-done.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use dirigent_tests::cli::{Ended, Place, binary, ended};
use rusqlite::Connection;

/// Checks that the command fails with this code and leaves the project unchanged.
#[track_caller]
fn refused(place: &Place, arguments: &[&str], code: i32) -> Ended {
    let before = place.files();
    let ended = place.dirigent(arguments).with_code(code);
    assert!(place.files() == before, "the project was changed: {ended}");
    ended
}

/// Checks that the goal is refused, and that the summary contains `why`.
#[track_caller]
fn hopeless(place: &Place, goal: &str, why: &str) {
    let ended = refused(place, &["run", goal, "--workspace", "work"], 1);
    assert!(ended.stdout.contains("\nFailed after 1 iteration, "), "{ended}");
    assert!(ended.stdout.contains(&format!("\n\n{why}\n")), "{ended}");
    assert_eq!(ended.stderr, "");
}

/// The standard error output, with the place's folder as `PLACE`.
fn said(place: &Place, ended: &Ended) -> String {
    let folder = place.folder().canonicalize().unwrap();
    ended.stderr.replace(&*folder.to_string_lossy(), "PLACE")
}

// Goals

#[test]
fn paor_2_a_missing_name_is_answered_with_the_nearest_names() {
    hopeless(
        &Place::with_sample(),
        "rename parse_amnt to parse_money",
        "There is no function or other symbol `parse_amnt`. Did you mean `parse_amount` or `parse_amount_list`? Nothing was \
         changed.",
    );
}

#[test]
fn paor_2_an_invalid_new_name_is_refused() {
    hopeless(
        &Place::with_sample(),
        "rename parse_amount to 9lives",
        "`9lives` is not a valid name: a name consists of letters, digits and `_`, and does not begin with a digit.",
    );
}

#[test]
fn host_4_a_goal_beyond_the_offline_model_is_declined_with_what_it_can_do() {
    let place = Place::with_sample();
    let ended = refused(
        &place,
        &["run", "make it faster and more beautiful", "-w", "work"],
        1,
    );
    assert!(
        ended.stdout.contains(
            "\n\nThis goal is beyond the offline model. It can:\n- rename a symbol: Find all usages of function \
             `parse_amount` and rename it to `parse_money`\n"
        ),
        "{ended}"
    );
}

#[test]
fn paor_2_a_project_that_was_broken_before_is_not_touched() {
    let place = Place::with_sample();
    place.write(
        "src/budget.rs",
        "use crate::amount::parse_amount;\npub fn half( {\n",
    );
    hopeless(
        &place,
        "rename parse_amount to parse_money",
        "The project was broken before any change: `cargo check --all-targets` fails (exit code 101):\n    \
         error: this file contains an unclosed delimiter\n    --> src/budget.rs:2:16\nNothing was changed. Repair it first, then start \
         again.",
    );
}

#[test]
fn host_3_an_empty_goal_is_refused() {
    let place = Place::with_sample();
    let ended = refused(&place, &["run", "  \n", "--workspace", "work"], 2);
    assert_eq!(
        ended.stderr,
        "error: the goal is empty: describe what to achieve, such as \"rename parse_amount to parse_money\"\n"
    );
    assert_eq!(place.dirigent(["runs"]).with_code(0).stdout, "");
}

// Questions

/// A run that stopped with the question about a name that is already in use.
fn asked() -> Place {
    let place = Place::with_sample();
    let ended = refused(
        &place,
        &[
            "run",
            "rename parse_amount to format_amount",
            "--workspace",
            "work",
        ],
        4,
    );
    assert!(
        ended.stdout.contains("\nWaiting for you after 1 iteration, "),
        "{ended}"
    );
    assert!(
        ended.stdout.contains(
            "Use another name (which one?), rename anyway, or stop?\n  1  use another name\n  \
             2  rename anyway\n  3  stop\n"
        ),
        "{ended}"
    );
    assert!(
        ended
            .stdout
            .contains("\nTo continue, answer the question by resuming the run.\n  dirigent resume "),
        "{ended}"
    );
    place
}

#[test]
fn paor_9_a_name_in_use_is_asked_about_and_the_run_continues_with_another_name() {
    let place = asked();

    let ended = place
        .dirigent(["resume", "last", "--answer", "read_amount"])
        .with_code(0);

    assert!(
        ended
            .stdout
            .contains("Renamed `parse_amount` to `read_amount`: 17 usages in "),
        "{ended}"
    );
    assert!(place.read("src/amount.rs").contains("pub fn read_amount("));
    assert!(place.read("src/amount.rs").contains("pub fn format_amount("));
}

#[test]
fn paor_9_the_answer_stop_ends_the_run_without_changes() {
    let place = asked();
    let ended = refused(&place, &["resume", "last", "--answer", "stop"], 1);
    assert!(
        ended
            .stdout
            .contains("\n\nYou decided not to rename `parse_amount`. Nothing was changed.\n"),
        "{ended}"
    );
    let again = refused(&place, &["resume", "last"], 2);
    assert!(again.stderr.contains("has already ended"), "{again}");
}

#[test]
fn paor_9_a_question_that_nobody_answers_is_asked_again() {
    let place = asked();
    let ended = refused(&place, &["resume", "last"], 4);
    assert!(
        ended.stdout.contains("Waiting for you after 1 iteration, "),
        "{ended}"
    );
}

// Workspaces

#[test]
fn host_3_a_demo_without_a_journal_leaves_no_folder_behind() {
    let place = Place::new();
    let temporary = place.folder().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    place.write("notes.txt", "This is no journal.");
    let mut demo = Command::new(binary());
    place.settle(&mut demo);
    demo.args(["--db", "work/notes.txt", "demo"])
        .env("TMPDIR", &temporary);

    let _ = ended(&mut demo).with_code(5);

    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn host_3_a_workspace_that_is_not_a_folder_is_refused() {
    let place = Place::with_sample();
    let missing = refused(&place, &["run", "count the files", "--workspace", "nowhere"], 2);
    assert_eq!(
        missing.stderr,
        "error: the workspace nowhere cannot be used: there is no such folder\n"
    );
    let file = refused(
        &place,
        &["run", "count the files", "--workspace", "work/Cargo.toml"],
        2,
    );
    assert_eq!(
        file.stderr,
        "error: the workspace work/Cargo.toml cannot be used: it is not a folder: give the project's folder\n"
    );
    assert_eq!(place.dirigent(["runs"]).with_code(0).stdout, "");
}

#[cfg(target_os = "linux")]
mod permissions {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::Command;

    use dirigent_tests::cli::{Place, ended};

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Runs the command without root's right to bypass file permissions.
    fn bound_by_permissions(place: &Place, inner: &Command) -> Command {
        let mut command = Command::new("setpriv");
        place.settle(&mut command);
        // Only root has these capabilities; for other users, dropping them would fail.
        if rustix::process::geteuid().is_root() {
            command.args(["--bounding-set=-all", "--inh-caps=-all"]);
        }
        command.arg(inner.get_program()).args(inner.get_args());
        command
    }

    #[test]
    fn paor_7_a_read_only_project_stays_unchanged_and_the_summary_says_why() {
        let place = Place::new();
        place.write(
            "price.js",
            "export function parsePrice(text) { return Number(text); }\n",
        );
        mode(&place.work().join("price.js"), 0o444);
        mode(&place.work(), 0o555);
        let before = place.files();
        let run = place.command(["run", "rename parsePrice to readPrice", "--workspace", "work"]);

        let ended = ended(&mut bound_by_permissions(&place, &run)).with_code(1);

        mode(&place.work(), 0o755);
        assert!(place.files() == before, "{ended}");
        assert!(
            ended.stdout.contains(
                "\n\nNothing was changed. The change is not complete: `price.js` cannot be used: permission denied; it is \
                 unchanged; nothing was changed\n"
            ),
            "{ended}"
        );
    }
}

// Journals

/// Checks that a journal is refused with this error and stays unchanged.
#[track_caller]
fn refused_journal(place: &Place, why: &str) {
    let before = std::fs::read(place.db()).unwrap();
    let ended = refused(place, &["run", "count the files", "--workspace", "work"], 5);
    assert_eq!(said(place, &ended), format!("error: {why}\n"));
    assert_eq!(ended.stdout, "");
    assert!(
        std::fs::read(place.db()).unwrap() == before,
        "the file was changed"
    );
}

/// A place whose journal has one run.
fn with_journal() -> Place {
    let place = Place::with_sample();
    let _ = place.run("count the files").with_code(0);
    place
}

#[test]
fn host_2_a_journal_locked_by_another_process_is_reported() {
    let place = with_journal();
    let other = Connection::open(place.db()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let ended = refused(&place, &["run", "count the files", "--workspace", "work"], 5);
    assert!(
        said(&place, &ended).contains(
            "error: the journal PLACE/journal.db is locked by another process: end the process that is writing to it, then \
             try again\n"
        ),
        "{ended}"
    );
    assert_eq!(ended.stdout, "");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(place.dirigent(["runs"]).with_code(0).stdout.lines().count(), 1);
}

#[test]
fn host_2_a_file_that_is_not_a_database_is_refused() {
    let place = Place::with_sample();
    std::fs::write(place.db(), "Dear diary,\n".repeat(100)).unwrap();
    refused_journal(
        &place,
        "the journal PLACE/journal.db is damaged or not a database: restore it from a backup, or move it away to start a \
         new one: file is not a database: Error code 26: file is not a database",
    );
}

#[test]
fn host_2_a_damaged_journal_is_refused() {
    let place = with_journal();
    // The journal's log is emptied first: pages in it would be read instead of the damaged ones.
    let is_busy: u32 = Connection::open(place.db())
        .unwrap()
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .unwrap();
    assert_eq!(is_busy, 0);
    let mut bytes = std::fs::read(place.db()).unwrap();
    bytes[4096..].fill(0xff);
    std::fs::write(place.db(), bytes).unwrap();
    refused_journal(
        &place,
        "the journal PLACE/journal.db is damaged or not a database: restore it from a backup, or move it away to start a \
         new one: database disk image is malformed: Error code 11: database disk image is malformed",
    );
}

#[test]
fn host_2_another_programs_database_is_refused() {
    let place = Place::with_sample();
    Connection::open(place.db())
        .unwrap()
        .execute_batch("CREATE TABLE songs (title TEXT)")
        .unwrap();
    refused_journal(
        &place,
        "PLACE/journal.db is a database of another program (application id 0x0): use another file for the journal",
    );
}

#[test]
fn host_2_a_newer_journal_is_refused() {
    let place = with_journal();
    Connection::open(place.db())
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    refused_journal(
        &place,
        "the journal PLACE/journal.db has format 99, but this version of Dirigent supports only format 9: use the version \
         that wrote it, or another journal",
    );
}

#[test]
fn host_2_a_journal_in_an_impossible_place_is_refused() {
    let place = Place::with_sample();
    let below_a_file = refused(
        &place,
        &["run", "count the files", "--db", "work/Cargo.toml/journal.db"],
        5,
    );
    assert!(
        below_a_file.stderr.starts_with(
            "error: cannot create the folder work/Cargo.toml: check the path and its permissions: "
        ),
        "{below_a_file}"
    );
    let folder = refused(&place, &["run", "count the files", "--db", "work"], 5);
    assert_eq!(
        folder.stderr,
        "error: cannot open the journal work: check the path and its permissions: it is not a \
         regular file\n"
    );
}

// Runs

#[test]
fn host_3_an_unknown_run_is_reported() {
    let place = Place::new();
    drop(dirigent_store::Journal::open(&place.db()).unwrap());
    let said_of = |arguments: &[&str]| said(&place, &refused(&place, arguments, 2));
    assert_eq!(
        said_of(&["show", "last"]),
        "error: no run `last` in the journal PLACE/journal.db: list the runs to see their ids\nnext: dirigent runs\n"
    );
    assert_eq!(
        said_of(&["resume", "0123abcd"]),
        "error: no run `0123abcd` in the journal PLACE/journal.db: list the runs to see their ids\nnext: dirigent runs\n"
    );
    assert_eq!(
        said_of(&["show", "the first"]),
        "error: `the first` is not a run id: use a complete id, at least 4 hexadecimal digits from its start or end, or `last`\nnext: dirigent runs\n"
    );
}

#[test]
fn host_3_an_ambiguous_id_is_refused_with_all_matching_runs() {
    let place = with_journal();
    let _ = place.run("count the files").with_code(0);
    let runs = place.dirigent(["runs", "--json"]).with_code(0).json_lines();
    let ids: Vec<&str> = runs.iter().map(|run| run["run"].as_str().unwrap()).collect();
    // Ids begin with the time, so two successive runs share more than the four digits that the command requires.
    let digits = ids[0].chars().zip(ids[1].chars());
    let shared = digits
        .take_while(|(one, other)| one == other && *one != '-')
        .count();
    let beginning = &ids[0][..shared];
    let ended = refused(&place, &["show", beginning], 2);
    assert_eq!(
        ended.stderr,
        format!(
            "error: `{beginning}` matches 2 runs; use more digits of the id: {}, {}\n",
            ids[0], ids[1]
        )
    );
}

#[test]
fn host_3_a_run_that_has_ended_cannot_be_resumed() {
    let place = with_journal();
    for arguments in [&["resume", "last"][..], &["resume", "last", "--answer", "yes"]] {
        let ended = refused(&place, arguments, 2);
        assert!(ended.stderr.contains(" has already ended"), "{ended}");
        assert!(ended.stderr.contains("\nnext: dirigent show "), "{ended}");
    }
}

#[test]
fn paor_9_an_answer_without_a_question_is_refused() {
    let place = asked();
    // Without its question in the journal, the run looks as if it was interrupted before it asked.
    let journal = Connection::open(place.db()).unwrap();
    journal
        .execute_batch(
            "DELETE FROM journal WHERE seq > 2;
             UPDATE runs SET ended_at = NULL, status = NULL, entries = 2,
                             chain = (SELECT chain FROM journal WHERE journal.run = runs.id AND seq = 2)",
        )
        .unwrap();
    drop(journal);
    let ended = refused(&place, &["resume", "last", "--answer", "stop"], 2);
    assert!(
        ended
            .stderr
            .contains(" has no such open question: it was answered, has expired, was withdrawn by guidance, or was never asked\n"),
        "{ended}"
    );
}

// Arguments and limits

#[test]
fn host_3_bad_arguments_are_named() {
    let place = Place::new();
    let said_of = |arguments: &[&str]| {
        let ended = refused(&place, arguments, 2);
        ended.stderr.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(
        said_of(&["run", "count the files", "--max-iterations", "0"]),
        "error: invalid value '0' for '--max-iterations <N>': must be a whole number of at least 1"
    );
    assert_eq!(
        said_of(&["run", "count the files", "--timeout", "soon"]),
        "error: invalid value 'soon' for '--timeout <TIME>': must be a time, such as \"90s\", \"10m\" or \"2h\""
    );
    assert_eq!(
        said_of(&["run", "count the files", "--timeout", "0s"]),
        "error: invalid value '0s' for '--timeout <TIME>': must be a time, such as \"90s\", \"10m\" or \"2h\", and longer than zero"
    );
    assert_eq!(
        said_of(&["run", "count the files", "--max-turns", "lead=0"]),
        "error: invalid value 'lead=0' for '--max-turns <[AGENT=]N>': must be a whole number of at least 1"
    );
    assert_eq!(
        said_of(&["run", "count the files", "--agent-timeout", "=10m"]),
        "error: invalid value '=10m' for '--agent-timeout <[AGENT=]TIME>': the name of the agent is missing before `=`"
    );
    assert_eq!(
        said_of(&["run", "count the files", "--max-turns", "leed=80"]),
        "error: agent `leed`: limits are configured for it, but no such agent exists; did you mean `lead`?"
    );
    assert_eq!(
        said_of(&["run", "count the files", "--json", "--verbose"]),
        "error: the argument '--json' cannot be used with '--verbose'"
    );
    assert_eq!(said_of(&["conduct"]), "error: unrecognized subcommand 'conduct'");
}

#[test]
fn paor_3_at_the_iteration_limit_the_run_ends_with_done_and_remaining_work() {
    let place = Place::with_sample();
    let amount = place.read("src/amount.rs").replace(
        "pub fn parse_amount(",
        "/// ```\n/// assert!(ledger::amount::parse_amount(\"1\").is_ok());\n/// ```\npub fn parse_amount(",
    );
    place.write("src/amount.rs", &amount);

    let ended = place
        .dirigent([
            "run",
            "rename parse_amount to parse_money",
            "--workspace",
            "work",
            "--max-iterations",
            "1",
        ])
        .with_code(3);

    for part in [
        "\nStopped at a limit (iteration limit: 1 planning iteration did not reach the goal) after 1 iteration, ",
        "but now `cargo test` fails (exit code 101):\n",
        "\nChanged 6 files:\n",
        "\nRemaining:\n  Build and test the project (failed)\n  Verify that no usage of parse_amount is left (skipped because `check` \
         failed)\n",
        "\nTo continue, resume the run with more iterations allowed.\n  dirigent resume ",
        " --max-iterations N\n",
    ] {
        assert!(ended.stdout.contains(part), "{part:?} is not in {ended}");
    }
}

#[test]
fn paor_12_a_time_limit_ends_a_command_that_takes_longer() {
    // The time counts from the start of the run; on a busy machine it may be over before the command begins.
    let ended = ["1s", "4s", "16s", "64s"].into_iter().find_map(|limit| {
        let goal = ["run", "run `sleep 1000`", "--workspace", "work"];
        let arguments: Vec<&str> = goal.into_iter().chain(["--timeout", limit]).collect();
        let ended = refused(&Place::new(), &arguments, 3);
        assert!(
            ended.stdout.contains("\nStopped at a limit (time limit) after "),
            "{ended}"
        );
        ended.stdout.contains("(not finished)").then_some(ended)
    });
    let ended = ended.expect("a limit that ends the command");
    assert!(
        ended
            .stdout
            .contains("\nStopped at a limit (time limit) after 1 iteration, "),
        "{ended}"
    );
    assert!(
        ended
            .stdout
            .contains("\nRemaining:\n  Run sleep 1000 (not finished)\n"),
        "{ended}"
    );
}

#[test]
fn host_3_a_mistyped_journal_path_is_an_error_and_creates_no_journal() {
    let place = Place::new();
    for arguments in [
        &["runs", "--db", "mistyped.db"][..],
        &["show", "last", "--db", "mistyped.db"],
        &["resume", "last", "--db", "mistyped.db"],
        &["guide", "last", "faster", "--db", "mistyped.db"],
        &["diff", "last", "--db", "mistyped.db"],
        &["undo", "last", "--db", "mistyped.db"],
    ] {
        let ended = refused(&place, arguments, 5);
        assert_eq!(
            ended.stderr.trim_end(),
            "error: there is no journal at mistyped.db: check the path; the first run creates the journal"
        );
    }
    assert!(!place.folder().join("mistyped.db").exists());
}
