//! `execute_sql` on SQLite: a statement reaches the database that the configuration names, and nothing else; it ends in time, and what it
//! returns is bounded. What goes for servers is shown where there are any.

use dirigent_tests::attack::{Attack, Call, Observation, Scene, Told, check, nothing_more};
use rusqlite::Connection;
use serde_json::json;

fn sql(statement: &str) -> Call {
    ("execute_sql", json!({"connection": "app", "sql": statement}))
}

/// A database of notes in the workspace, and what its connection may do.
fn database(scene: &Scene, access: &str) {
    notes(&scene.work("app.db"));
    connection(scene, access);
}

fn connection(scene: &Scene, access: &str) {
    connection_for(scene, access, "60s");
}

fn connection_for(scene: &Scene, access: &str, timeout: &str) {
    scene.settings(&format!(
        "[connections.app]\ndatabase = \"sqlite\"\npath = \"app.db\"\naccess = \"{access}\"\ntimeout = \"{timeout}\""
    ));
}

/// The same database for statements that run out of time.
fn database_for_a_second(scene: &Scene, access: &str) {
    notes(&scene.work("app.db"));
    connection_for(scene, access, "1s");
}

fn notes(path: &std::path::Path) {
    let database = Connection::open(path).unwrap();
    let sql = "CREATE TABLE notes (text); INSERT INTO notes VALUES ('one'), ('two'), ('three')";
    database.execute_batch(sql).unwrap();
}

/// The notes are all there, and nothing else is.
fn untouched(scene: &Scene, _: &Observation) {
    let database = Connection::open(scene.work("app.db")).unwrap();
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM notes"), 3);
    assert_eq!(count("SELECT count(*) FROM sqlite_schema"), 1);
    drop(database);
    let mut names: Vec<_> = std::fs::read_dir(scene.work(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.retain(|name| !name.to_string_lossy().starts_with("app.db"));
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_statement_reaches_no_other_file() {
    check([
        Attack {
            name: "no_other_database_is_attached",
            made: |scene| {
                database(scene, "read-write");
                sql(&format!(
                    "ATTACH DATABASE '{}' AS other",
                    scene.outside_text("new.db")
                ))
            },
            told: Told::Refused("refused", &["ATTACH"]),
            then: untouched,
        },
        Attack {
            name: "no_other_database_of_the_workspace_is_attached",
            made: |scene| {
                database(scene, "read-write");
                sql("ATTACH DATABASE 'other.db' AS other")
            },
            told: Told::Refused("refused", &["ATTACH"]),
            then: untouched,
        },
        Attack {
            name: "no_copy_is_written",
            made: |scene| {
                database(scene, "read-write");
                sql(&format!("VACUUM INTO '{}'", scene.outside_text("copy.db")))
            },
            told: Told::Refused("database", &["VACUUM"]),
            then: untouched,
        },
        Attack {
            name: "no_extension_is_loaded",
            made: |scene| {
                database(scene, "read-write");
                sql("SELECT load_extension('./evil.so')")
            },
            told: Told::Refused("refused", &["load_extension"]),
            then: untouched,
        },
        Attack {
            name: "the_schema_is_not_written_past_the_database",
            made: |scene| {
                database(scene, "read-write");
                sql("PRAGMA writable_schema = ON")
            },
            told: Told::Refused("refused", &["PRAGMA"]),
            then: untouched,
        },
        Attack {
            name: "temporary_files_go_nowhere_else",
            made: |scene| {
                database(scene, "read-write");
                sql(&format!(
                    "PRAGMA temp_store_directory = '{}'",
                    scene.outside_text("")
                ))
            },
            told: Told::Refused("refused", &["PRAGMA"]),
            then: untouched,
        },
        Attack {
            name: "a_link_to_a_database_outside_is_not_opened",
            made: |scene| {
                notes(&scene.outside("app.db"));
                scene.link(scene.outside("app.db"), "app.db");
                connection(scene, "read-write");
                sql("DELETE FROM notes")
            },
            told: Told::Refused("outside_workspace", &[]),
            then: nothing_more,
        },
        Attack {
            name: "a_link_in_the_way_to_a_database_is_not_followed_out",
            made: |scene| {
                notes(&scene.outside("app.db"));
                scene.link(scene.outside(""), "data");
                scene.settings("[connections.app]\ndatabase = \"sqlite\"\npath = \"data/app.db\"");
                sql("SELECT * FROM notes")
            },
            told: Told::Refused("outside_workspace", &[]),
            then: nothing_more,
        },
        Attack {
            name: "a_link_where_the_log_will_be_is_not_written_through",
            made: |scene| {
                database(scene, "read-write");
                scene.link(scene.outside("new.wal"), "app.db-wal");
                scene.link(scene.outside("new.journal"), "app.db-journal");
                sql("DELETE FROM notes WHERE text = 'one'")
            },
            told: Told::Either,
            then: nothing_more,
        },
        Attack {
            name: "a_pipe_in_place_of_the_database_is_not_waited_for",
            made: |scene| {
                let made = std::process::Command::new("mkfifo")
                    .arg(scene.work("app.db"))
                    .status();
                assert!(made.unwrap().success());
                connection(scene, "read-write");
                sql("SELECT 1")
            },
            told: Told::Refused("not_a_file", &[]),
            then: nothing_more,
        },
        Attack {
            name: "no_connection_is_made_up",
            made: |scene| {
                database(scene, "read-write");
                (
                    "execute_sql",
                    json!({"connection": "/etc/passwd", "sql": "SELECT 1"}),
                )
            },
            told: Told::Refused("not_found", &["app"]),
            then: untouched,
        },
        Attack {
            name: "the_password_of_a_server_is_not_told",
            made: |scene| {
                scene.settings(
                    "[connections.app]\ndatabase = \"postgres\"\nurl_env = \"APP_DATABASE_URL\"\ntimeout = \"60s\"",
                );
                // Nobody listens at that port.
                let url = format!(
                    "postgres://user:{}@127.0.0.1:9/app",
                    dirigent_tests::attack::CANARY
                );
                scene.through(["env".to_owned(), format!("APP_DATABASE_URL={url}")]);
                sql("SELECT 1")
            },
            told: Told::Refused("unreachable", &[]),
            then: |_, seen| assert!(!seen.ended.to_string().contains(dirigent_tests::attack::CANARY)),
        },
    ]);
}

#[test]
fn a_statement_changes_what_it_may_change() {
    check([
        Attack {
            name: "a_read_only_connection_changes_nothing",
            made: |scene| {
                database(scene, "read-only");
                sql("DELETE FROM notes")
            },
            told: Told::Refused("access_denied", &["read-only"]),
            then: untouched,
        },
        Attack {
            name: "a_read_only_connection_changes_nothing_behind_a_word_that_looks",
            made: |scene| {
                database(scene, "read-only");
                sql("WITH old AS (SELECT 1) DELETE FROM notes RETURNING text")
            },
            told: Told::Refused("access_denied", &["read-only"]),
            then: untouched,
        },
        Attack {
            name: "a_read_only_connection_makes_no_database",
            made: |scene| {
                connection(scene, "read-only");
                sql("SELECT 1")
            },
            told: Told::Refused("not_found", &[]),
            then: |scene, _| assert!(!scene.is_there("app.db")),
        },
        Attack {
            name: "a_read_only_connection_stays_so_whatever_it_is_told",
            made: |scene| {
                database(scene, "read-only");
                scene.before([sql("PRAGMA query_only = OFF")]);
                sql("DELETE FROM notes")
            },
            told: Told::Refused("access_denied", &["read-only"]),
            then: untouched,
        },
        Attack {
            name: "an_agent_that_may_only_look_changes_nothing",
            made: |scene| {
                database(scene, "read-write");
                scene.access("read-only");
                sql("DELETE FROM notes")
            },
            told: Told::Refused("access_denied", &["read-only access"]),
            then: untouched,
        },
        Attack {
            name: "of_two_statements_none_is_run",
            made: |scene| {
                database(scene, "read-write");
                sql("SELECT 1; DROP TABLE notes")
            },
            told: Told::Refused("bad_parameters", &["several statements"]),
            then: untouched,
        },
        Attack {
            name: "of_two_statements_behind_a_comment_none_is_run",
            made: |scene| {
                database(scene, "read-write");
                sql("SELECT 1 /* ; */ ; -- no more\n DROP TABLE notes")
            },
            told: Told::Refused("bad_parameters", &["several statements"]),
            then: untouched,
        },
        Attack {
            name: "a_transaction_is_not_left_open",
            made: |scene| {
                database(scene, "read-write");
                scene.before([sql("BEGIN EXCLUSIVE")]);
                sql("SELECT count(*) FROM notes")
            },
            told: Told::Bounded(&["3"]),
            then: untouched,
        },
        Attack {
            name: "a_value_is_no_statement",
            made: |scene| {
                database(scene, "read-write");
                let values = json!(["one'; DROP TABLE notes; --"]);
                (
                    "execute_sql",
                    json!({"connection": "app", "sql": "SELECT text FROM notes WHERE text = ?", "parameters": values}),
                )
            },
            told: Told::Bounded(&["\"rows\":[]"]),
            then: untouched,
        },
    ]);
}

#[test]
fn a_statement_ends_in_time_and_what_it_returns_is_bounded() {
    check([
        Attack {
            name: "a_query_without_an_end_is_ended",
            made: |scene| {
                database_for_a_second(scene, "read-only");
                sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
            },
            told: Told::Refused("timed_out", &["1 s"]),
            then: untouched,
        },
        Attack {
            name: "a_change_without_an_end_is_ended_and_not_kept",
            made: |scene| {
                database_for_a_second(scene, "read-write");
                sql(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO notes SELECT i FROM n",
                )
            },
            told: Told::Refused("timed_out", &[]),
            then: untouched,
        },
        Attack {
            name: "of_many_rows_few_are_returned",
            made: |scene| {
                database(scene, "read-only");
                sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n")
            },
            told: Told::Bounded(&["\"truncated\":true"]),
            then: |_, seen| assert_eq!(seen.output()["rows"].as_array().unwrap().len(), 200),
        },
        Attack {
            name: "a_large_value_is_cut",
            made: |scene| {
                database(scene, "read-only");
                sql("SELECT zeroblob(100000000), hex(zeroblob(50000000))")
            },
            told: Told::Either,
            then: |_, seen| assert!(seen.told.to_string().len() < 100_000),
        },
        Attack {
            name: "more_memory_than_there_is_is_refused",
            made: |scene| {
                database(scene, "read-only");
                sql("SELECT group_concat(hex(zeroblob(1000000000))) FROM notes, notes, notes")
            },
            told: Told::Either,
            then: |_, seen| assert_eq!(seen.told["success"], false),
        },
    ]);
}
