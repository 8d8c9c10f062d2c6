//! `execute_sql` on SQLite files of the workspace.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use crate::folder::{Folder, error, output, text};
use dirigent_core::call::ToolSet;
use dirigent_core::message::ToolCall;
use dirigent_core::tool::{Access, StateChange, ToolOutcome, ToolResult};
use dirigent_tools::{
    Connection, Connections, Database, Tool, ToolContext, ToolSettings, ToolSource as _, built_in,
    execute_sql,
};
use rusqlite::Connection as Sqlite;
use serde_json::{Value, json};

/// The writable connection `app`, and the read-only connection `look` to the same file.
fn connections(path: &str) -> Connections {
    let connection = |access| Connection {
        database: Database::Sqlite { path: path.into() },
        access,
        max_rows: 3,
        timeout: Duration::from_secs(30),
    };
    Connections::from([
        ("app".to_owned(), connection(Access::ReadWrite)),
        ("look".to_owned(), connection(Access::ReadOnly)),
    ])
}

/// A workspace with a database `app.db` created by the script.
fn with_database(script: &str) -> Folder {
    let folder = Folder::with(&[]);
    Sqlite::open(folder.path("app.db"))
        .unwrap()
        .execute_batch(script)
        .unwrap();
    folder
}

async fn call(folder: &Folder, connection: &str, sql: &str, parameters: Value) -> ToolResult {
    let call = json!({"operation": "change", "connection": connection, "sql": sql, "parameters": parameters});
    folder.call(execute_sql(&connections("app.db")), call).await
}

/// The code and the error of a call, which must fail and change nothing.
#[track_caller]
fn failure(result: ToolResult) -> (String, String) {
    let code = match &result.outcome {
        ToolOutcome::Failure { code, .. } => code.clone(),
        ToolOutcome::Success { .. } => String::new(),
    };
    (code, error(result))
}

#[test]
fn lead_2_a_change_on_a_read_only_connection_is_refused_before_anyone_is_asked() {
    let spec = execute_sql(&connections("app.db")).spec();
    let tools = ToolSet::new(vec![spec]);
    let check = |connection: &str, operation: &str| {
        let parameters = json!({"operation": operation, "connection": connection, "sql": "DELETE FROM t"});
        let call = ToolCall {
            id: String::new(),
            tool: "execute_sql".to_owned(),
            parameters,
            terminate: false,
        };
        let checked = tools.check(&call, &["execute_sql".to_owned()], Access::ReadWrite);
        checked
            .map(drop)
            .map_err(|error| (error.code(), error.to_string()))
    };
    let (code, error) = check("look", "change").unwrap_err();
    assert_eq!(code, "access_denied");
    assert!(error.contains("the connection is read-only"), "{error}");
    assert_eq!(check("look", "query"), Ok(()));
    assert_eq!(check("app", "change"), Ok(()));
}

#[tokio::test]
async fn rows_are_lists_in_column_order_and_columns_may_have_the_same_name() {
    let folder = with_database(
        "CREATE TABLE users (id INTEGER, name TEXT); INSERT INTO users VALUES (1, 'Ada'), (2, 'Grace')",
    );
    let sql = "SELECT id, name, id * 2 AS id FROM users WHERE id >= ? ORDER BY id";
    assert_eq!(
        output(call(&folder, "look", sql, json!([2])).await),
        json!({
            "columns": [
                {"name": "id", "type": "INTEGER"},
                {"name": "name", "type": "TEXT"},
                {"name": "id", "type": null},
            ],
            "rows": [[2, "Grace", 4]],
            "row_count": 1,
        })
    );
}

#[tokio::test]
async fn the_operation_schema_shows_tables_with_columns_keys_and_indexes() {
    let folder = with_database(
        "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL); \
         CREATE TABLE orders (id INTEGER, owner INTEGER REFERENCES users(id), UNIQUE (owner)); \
         CREATE INDEX by_name ON users (name); \
         CREATE VIEW names AS SELECT name FROM users",
    );
    let schema = async |folder: &Folder, connection: &str| {
        let call = json!({"operation": "schema", "connection": connection});
        folder.call(execute_sql(&connections("app.db")), call).await
    };
    let expected = "CREATE VIEW names AS SELECT name FROM users\n\
        CREATE TABLE orders (id INTEGER, owner INTEGER REFERENCES users(id), UNIQUE (owner))\n\
        CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL)\n\
        CREATE INDEX by_name ON users (name)\n";
    for connection in ["app", "look"] {
        let shown = text(schema(&folder, connection).await);
        assert_eq!(shown, expected, "{connection}");
    }
    assert_eq!(text(schema(&with_database(""), "app").await), "No tables");
    let (code, error) = failure(schema(&Folder::with(&[]), "look").await);
    assert_eq!(code, "not_found", "{error}");
    let (_, error) = failure(schema(&folder, "lok").await);
    assert!(error.contains("(did you mean `look`?)"), "{error}");

    let many: String = (0..1000)
        .map(|number| format!("CREATE TABLE t{number:04} ({} INTEGER);", "x".repeat(50)))
        .collect();
    let shown = text(schema(&with_database(&many), "app").await);
    let (note, entries) = shown.split_once('\n').unwrap();
    assert!(
        entries.len() <= 32 * 1024 && entries.ends_with(" INTEGER)\n"),
        "{entries}"
    );
    let expected = format!(
        "Note: {} more tables, views and indexes are left out: query sqlite_schema for them",
        1000 - entries.lines().count()
    );
    assert_eq!(note, expected);
}

#[tokio::test]
async fn the_error_for_a_call_without_sql_names_the_missing_parameter() {
    let folder = with_database("");
    let result = folder
        .call(execute_sql(&connections("app.db")), json!({"connection": "app"}))
        .await;
    assert_eq!(
        failure(result),
        (
            "bad_parameters".to_owned(),
            "`sql` is missing: give one statement, or the operation `schema`".to_owned()
        )
    );
}

#[tokio::test]
async fn each_sqlite_value_has_one_json_form() {
    let folder = with_database("");
    let cases = [
        ("NULL", json!(null)),
        ("9007199254740992", json!(9_007_199_254_740_992_i64)),
        ("9007199254740993", json!("9007199254740993")),
        ("-9223372036854775808", json!("-9223372036854775808")),
        ("0.1", json!(0.1)),
        ("9e999", json!("Infinity")),
        ("-9e999", json!("-Infinity")),
        ("'naïve'", json!("naïve")),
        ("x'00ff'", json!({"hex": "00ff", "bytes": 2})),
        // A value of type text can contain bytes that are not text.
        ("CAST(x'ff' AS TEXT)", json!({"hex": "ff", "bytes": 1})),
        ("''", json!("")),
    ];
    for (sql, value) in cases {
        let result = output(call(&folder, "look", &format!("SELECT {sql}"), json!([])).await);
        assert_eq!(result["rows"], json!([[value]]), "{sql}");
        assert_eq!(result.get("truncated"), None, "{sql}");
    }
}

#[tokio::test]
async fn sqlite_parameters_are_bound_according_to_their_json_types() {
    let folder = with_database("");
    let cases = [
        (json!(null), "null", json!(null)),
        (json!(true), "integer", json!(1)),
        (json!(7), "integer", json!(7)),
        (json!(1.5), "real", json!(1.5)),
        (json!("'; DROP TABLE x --"), "text", json!("'; DROP TABLE x --")),
        (json!({"hex": "00fF"}), "blob", json!({"hex": "00ff", "bytes": 2})),
        (json!([1, "a"]), "text", json!("[1,\"a\"]")),
        (json!({"a": 1}), "text", json!("{\"a\":1}")),
    ];
    for (parameter, kind, value) in cases {
        let result = call(
            &folder,
            "look",
            "SELECT typeof(?1), ?1",
            json!([parameter.clone()]),
        )
        .await;
        assert_eq!(output(result)["rows"], json!([[kind, value]]), "{parameter}");
    }
}

#[tokio::test]
async fn calls_that_do_not_fit_are_refused_before_anything_runs() {
    let folder = with_database("CREATE TABLE t (a)");
    let cases = [
        (
            "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)",
            json!([]),
            "several statements",
        ),
        ("SELECT 1;; /* and */ SELECT 2", json!([]), "several statements"),
        ("  ", json!([]), "no statement"),
        ("-- nothing", json!([]), "no statement"),
        (
            "INSERT INTO t VALUES (?)",
            json!([]),
            "1 placeholders and `parameters` has 0",
        ),
        (
            "INSERT INTO t VALUES (1)",
            json!([2]),
            "0 placeholders and `parameters` has 1",
        ),
        ("SELECT ?", json!([{"hex": "0"}]), "parameter 1: `hex`"),
        (
            "SELECT ?",
            json!([18_446_744_073_709_551_615_u64]),
            "largest integer is",
        ),
        ("SELECT 1\0; DROP TABLE t", json!([]), "NUL"),
    ];
    for (sql, parameters, named) in cases {
        let (code, error) = failure(call(&folder, "app", sql, parameters).await);
        assert_eq!(code, "bad_parameters", "{sql}: {error}");
        assert!(error.contains(named), "{sql}: {error}");
    }
    let count = output(call(&folder, "look", "SELECT count(*) FROM t", json!([])).await);
    assert_eq!(count["rows"], json!([[0]]));
}

#[tokio::test]
async fn a_semicolon_and_a_comment_after_a_statement_are_not_a_second_statement() {
    let folder = with_database("");
    let result = call(&folder, "look", "SELECT 1; -- that is all", json!([])).await;
    assert_eq!(output(result)["rows"], json!([[1]]));
}

#[tokio::test]
async fn statements_that_reach_beyond_the_database_are_refused() {
    let folder = with_database("CREATE TABLE t (a)");
    let cases = [
        "ATTACH 'other.db' AS other",
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "VACUUM INTO 'copy.db'",
        "VACUUM",
        "SELECT load_extension('evil')",
        "SELECT fts3_tokenizer('simple')",
        "PRAGMA writable_schema = 1",
        "PRAGMA temp_store_directory = '/'",
        "PRAGMA journal_mode = OFF",
        "PRAGMA query_only = 0",
        "PRAGMA trusted_schema = 1",
        "PRAGMA database_list",
        "SELECT * FROM pragma_database_list",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT a",
        "INSERT INTO t VALUES (load_extension('evil'))",
    ];
    for connection in ["app", "look"] {
        for sql in cases {
            let (code, error) = failure(call(&folder, connection, sql, json!([])).await);
            let known = ["refused", "access_denied", "database"].contains(&code.as_str());
            assert!(known, "{sql}: {code}: {error}");
            assert!(
                !error.contains(folder.path("").to_str().unwrap()),
                "{sql}: {error}"
            );
        }
    }
    for (sql, code) in [("ATTACH 'x' AS y", "refused"), ("COMMIT", "refused")] {
        assert_eq!(
            failure(call(&folder, "app", sql, json!([])).await).0,
            code,
            "{sql}"
        );
    }
    assert!(!folder.path("copy.db").exists() && !folder.path("other.db").exists());
    // The schema table itself is not writable.
    let sql = "UPDATE sqlite_schema SET sql = 'x'";
    assert_eq!(failure(call(&folder, "app", sql, json!([])).await).0, "database");
}

#[tokio::test]
async fn pragmas_that_only_read_are_allowed() {
    let folder = with_database("CREATE TABLE t (a INTEGER PRIMARY KEY); PRAGMA user_version = 7");
    for (sql, rows) in [
        ("PRAGMA user_version", json!([[7]])),
        ("PRAGMA table_info(t)", json!([[0, "a", "INTEGER", 0, null, 1]])),
        ("SELECT name FROM pragma_table_info('t')", json!([["a"]])),
        ("PRAGMA integrity_check", json!([["ok"]])),
    ] {
        assert_eq!(
            output(call(&folder, "look", sql, json!([])).await)["rows"],
            rows,
            "{sql}"
        );
    }
    assert_eq!(
        failure(call(&folder, "look", "PRAGMA user_version = 8", json!([])).await).0,
        "access_denied"
    );
    output(call(&folder, "app", "PRAGMA user_version = 8", json!([])).await);
}

#[tokio::test]
async fn a_read_only_connection_or_agent_changes_nothing() {
    let folder = with_database("CREATE TABLE t (a UNIQUE); INSERT INTO t VALUES (1)");
    let before = std::fs::read(folder.path("app.db")).unwrap();
    let cases = [
        "INSERT INTO t VALUES (2)",
        "WITH x AS (SELECT 2) INSERT INTO t SELECT * FROM x",
        "UPDATE t SET a = 3 RETURNING a",
        "DELETE FROM t",
        "CREATE TABLE u (a)",
        "DROP TABLE t",
        "ALTER TABLE t ADD b",
        "CREATE INDEX i ON t (a)",
        "REINDEX t",
        "ANALYZE",
    ];
    for sql in cases {
        let (code, error) = failure(call(&folder, "look", sql, json!([])).await);
        assert_eq!(code, "access_denied", "{sql}: {error}");
        assert!(error.starts_with("this connection is read-only"), "{error}");
        for access in [Access::ReadOnly, Access::Execute] {
            let context = ToolContext {
                access,
                ..folder.context()
            };
            let call = json!({"operation": "change", "connection": "app", "sql": sql});
            let result = execute_sql(&connections("app.db")).call(context, call).await;
            let (code, error) = failure(result);
            assert_eq!(code, "access_denied", "{sql}: {error}");
            assert!(error.starts_with("this agent has read-only access"), "{error}");
        }
    }
    assert_eq!(std::fs::read(folder.path("app.db")).unwrap(), before);
    // A missing file is not created.
    let call = json!({"connection": "look", "sql": "SELECT 1"});
    let result = folder.call(execute_sql(&connections("none.db")), call).await;
    assert_eq!(failure(result).0, "not_found");
    assert!(!folder.path("none.db").exists());
}

#[tokio::test]
async fn a_database_with_a_write_ahead_log_can_be_read() {
    let folder = with_database("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)");
    let result = call(&folder, "look", "SELECT a FROM t", json!([])).await;
    assert_eq!(output(result)["rows"], json!([[1]]));
    // Also while another connection writes.
    let other = Sqlite::open(folder.path("app.db")).unwrap();
    other
        .execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2)")
        .unwrap();
    let result = call(&folder, "look", "SELECT a FROM t", json!([])).await;
    assert_eq!(output(result)["rows"], json!([[1]]));
}

#[tokio::test]
async fn loop_8_changes_are_what_the_database_reports() {
    let folder = Folder::with(&[]);
    let connection = || "app".to_owned();
    let changed = |table: &str, rows| StateChange::RowsChanged {
        connection: connection(),
        table: Some(table.to_owned()),
        rows,
    };
    let created = |table: &str| StateChange::TableCreated {
        connection: connection(),
        table: table.to_owned(),
    };
    let dropped = |table: &str| StateChange::TableDropped {
        connection: connection(),
        table: table.to_owned(),
    };
    let cases = [
        ("CREATE TABLE t (a UNIQUE)", vec![created("t")], 0),
        (
            "CREATE TABLE t2 (a PRIMARY KEY) WITHOUT ROWID",
            vec![created("t2")],
            0,
        ),
        ("CREATE TABLE audit (a)", vec![created("audit")], 0),
        ("INSERT INTO t VALUES (1), (2), (3)", vec![changed("t", 3)], 3),
        ("INSERT INTO t2 SELECT a FROM t", vec![changed("t2", 3)], 3),
        (
            "CREATE TRIGGER x AFTER UPDATE ON t BEGIN INSERT INTO audit VALUES (new.a); END",
            vec![],
            0,
        ),
        (
            "UPDATE t SET a = a + 10 WHERE a > 1",
            vec![changed("audit", 2), changed("t", 2)],
            2,
        ),
        ("SELECT 'INSERT INTO t VALUES (1)'", vec![], 0),
        ("DELETE FROM t WHERE a = 99", vec![], 0),
        ("DELETE FROM t", vec![changed("t", 3)], 3),
        ("ALTER TABLE t RENAME TO u", vec![created("u"), dropped("t")], 0),
        ("CREATE TABLE copy AS SELECT 1 AS a", vec![created("copy")], 0),
        ("DROP TABLE u", vec![dropped("u")], 0),
    ];
    for (sql, changes, affected) in cases {
        let result = call(&folder, "app", sql, json!([])).await;
        assert_eq!(result.changes, changes, "{sql}");
        let result = output(result);
        if result.get("columns").is_none() {
            assert_eq!(result, json!({"rows_affected": affected}), "{sql}");
        }
    }
}

#[tokio::test]
async fn a_statement_that_fails_half_way_changes_nothing() {
    let folder = with_database("CREATE TABLE t (a CHECK (a < 3))");
    let (code, error) = failure(call(&folder, "app", "INSERT INTO t VALUES (1), (2), (3)", json!([])).await);
    assert_eq!(
        (code.as_str(), error.as_str()),
        ("database", "CHECK constraint failed: a < 3")
    );
    let count = output(call(&folder, "look", "SELECT count(*) FROM t", json!([])).await);
    assert_eq!(count["rows"], json!([[0]]));
}

#[tokio::test]
async fn rows_beyond_the_limit_are_omitted_but_still_written() {
    let folder = with_database("CREATE TABLE t (a)");
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let result = output(call(&folder, "look", endless, json!([])).await);
    assert_eq!(result["rows"], json!([[1], [2], [3]]));
    assert_eq!(result["truncated"], json!(true));
    assert!(result["note"].as_str().unwrap().contains("LIMIT"), "{result}");

    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) INSERT INTO t SELECT i FROM n RETURNING a";
    let result = call(&folder, "app", sql, json!([])).await;
    assert_eq!(result.changes.len(), 1);
    assert_eq!(output(result)["row_count"], json!(3));
    let count = output(call(&folder, "look", "SELECT count(*) FROM t", json!([])).await);
    assert_eq!(count["rows"], json!([[9]]));
}

#[tokio::test]
async fn long_values_are_cut_and_say_so() {
    let folder = with_database("");
    let sql = "SELECT replace(hex(zeroblob(10000)), '0', 'ä'), zeroblob(2000)";
    let result = output(call(&folder, "look", sql, json!([])).await);
    let text = result["rows"][0][0].as_str().unwrap();
    assert!(text.ends_with("ä… [16384 of 40000 bytes]"));
    assert_eq!(result["rows"][0][1]["bytes"], json!(2000));
    assert_eq!(result["rows"][0][1]["hex"].as_str().unwrap().len(), 2048);
    assert_eq!(result["truncated"], json!(true));
    assert!(
        result["note"]
            .as_str()
            .unwrap()
            .starts_with("2 of the values are truncated"),
        "{result}"
    );

    let wide = vec!["hex(zeroblob(8000))"; 20].join(", ");
    let (code, _) = failure(call(&folder, "look", &format!("SELECT {wide}"), json!([])).await);
    assert_eq!(code, "too_big");
}

#[tokio::test]
async fn a_path_out_of_the_workspace_is_not_opened() {
    let outside = Folder::with(&[]);
    Sqlite::open(outside.path("secret.db"))
        .unwrap()
        .execute_batch("CREATE TABLE t (a)")
        .unwrap();
    let folder = Folder::with(&[("text.txt", b"not a database"), (".git/x.db", b""), ("d/e", b"")]);
    std::os::unix::fs::symlink(outside.path("secret.db"), folder.path("link.db")).unwrap();
    std::os::unix::fs::symlink(outside.path(""), folder.path("folder")).unwrap();
    std::fs::hard_link(outside.path("secret.db"), folder.path("hard.db")).unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(folder.path("pipe"))
        .status();
    assert!(pipe.unwrap().success());
    let absolute = outside.path("secret.db");
    let cases = [
        ("link.db", "outside_workspace"),
        ("folder/secret.db", "outside_workspace"),
        ("../secret.db", "outside_workspace"),
        (absolute.to_str().unwrap(), "outside_workspace"),
        ("hard.db", "refused"),
        (":memory:", "refused"),
        ("", "refused"),
        ("file:app.db?mode=memory", "refused"),
        (".git/x.db", "protected"),
        (".GIT/new.db", "protected"),
        (".claude/new.db", "protected"),
        ("dirigent.toml/new.db", "protected"),
        ("none/new.db", "not_found"),
        ("d", "not_a_file"),
        ("pipe", "not_a_file"),
        ("text.txt", "database"),
    ];
    for (path, expected) in cases {
        for connection in ["app", "look"] {
            let call = json!({"connection": connection, "sql": "SELECT * FROM t"});
            let (code, error) = failure(folder.call(execute_sql(&connections(path)), call).await);
            assert_eq!(code, expected, "{path}: {error}");
        }
    }
}

#[tokio::test]
async fn links_in_place_of_journal_files_change_nothing_outside_the_workspace() {
    let outside = Folder::with(&[("victim", b"precious")]);
    let folder = with_database("CREATE TABLE t (a)");
    for name in ["app.db-journal", "app.db-wal"] {
        std::os::unix::fs::symlink(outside.path("victim"), folder.path(name)).unwrap();
        // Whether or not the database opens, the link's target stays unchanged.
        let _ = call(&folder, "app", "INSERT INTO t VALUES (1)", json!([])).await;
        assert_eq!(
            std::fs::read(outside.path("victim")).unwrap(),
            b"precious",
            "{name}"
        );
        std::fs::remove_file(folder.path(name)).unwrap();
    }
}

/// A journal that SQLite would roll back, with the path of a file that SQLite would then delete.
fn hot_journal(names: &std::path::Path) -> Vec<u8> {
    const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let number = |number: u32| number.to_be_bytes();
    let name = names.as_os_str().as_encoded_bytes();
    let mut journal = MAGIC.to_vec();
    // The number of pages (none), a nonce, the pages of the database, the size of a sector and of a page.
    for field in [0, 7, 2, 512, 4096] {
        journal.extend(number(field));
    }
    journal.resize(512, 0);
    journal.extend(number(0x4000_0000 / 4096 + 1));
    journal.extend(name);
    journal.extend(number(u32::try_from(name.len()).unwrap()));
    journal.extend(number(name.iter().map(|byte| u32::from(*byte)).sum()));
    journal.extend(MAGIC);
    journal
}

#[tokio::test]
async fn a_rollback_journal_that_names_another_file_deletes_nothing() {
    let folder = with_database("CREATE TABLE t (a)");
    std::fs::create_dir(folder.path(".git")).unwrap();
    let victim = folder.path(".git/config");
    std::fs::write(&victim, "[core]\n").unwrap();
    let journal = hot_journal(&std::fs::canonicalize(&victim).unwrap());
    for connection in ["look", "app"] {
        std::fs::write(folder.path("app.db-journal"), &journal).unwrap();
        let (code, error) = failure(call(&folder, connection, "SELECT * FROM t", json!([])).await);
        assert_eq!(code, "refused", "{error}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "[core]\n");
    }
    // The journal is valid: SQLite itself deletes the file.
    Sqlite::open(folder.path("app.db"))
        .unwrap()
        .query_row("SELECT count(*) FROM t", [], |_| Ok(()))
        .unwrap();
    assert!(!victim.exists());
}

#[tokio::test]
async fn a_rollback_journal_that_names_no_other_file_is_rolled_back() {
    let folder = with_database("CREATE TABLE t (a)");
    let mut journal = hot_journal("".as_ref());
    journal.truncate(512);
    std::fs::write(folder.path("app.db-journal"), journal).unwrap();
    output(call(&folder, "look", "SELECT * FROM t", json!([])).await);
    assert!(!folder.path("app.db-journal").exists());
}

#[tokio::test]
async fn values_and_patterns_beyond_the_limits_are_refused() {
    let folder = with_database("CREATE TABLE t (a)");
    let quadratic = "SELECT instr(a, a || 'b') FROM (SELECT hex(zeroblob(5000000)) AS a)";
    let pattern = format!("SELECT 'a' LIKE '{}'", "%a".repeat(1000));
    for (sql, expected, named) in [
        (quadratic, "too_big", "1 MiB"),
        (
            "SELECT zeroblob(100000000), hex(zeroblob(50000000))",
            "too_big",
            "1 MiB",
        ),
        (
            "SELECT group_concat(hex(zeroblob(1000000000)))",
            "too_big",
            "1 MiB",
        ),
        (pattern.as_str(), "database", "pattern too complex"),
    ] {
        let (code, error) = failure(call(&folder, "look", sql, json!([])).await);
        assert_eq!(code, expected, "{sql}: {error}");
        assert!(error.contains(named), "{sql}: {error}");
    }
}

#[tokio::test]
async fn column_names_count_towards_the_size_of_the_output() {
    let folder = with_database("");
    let columns: Vec<String> = (0..40)
        .map(|n| format!("1 AS \"{}{n}\"", "x".repeat(10_000)))
        .collect();
    let sql = format!("SELECT {}", columns.join(", "));
    let (code, _) = failure(call(&folder, "look", &sql, json!([])).await);
    assert_eq!(code, "too_big");
}

#[tokio::test]
async fn an_endless_statement_ends_after_its_timeout_or_when_it_is_dropped() {
    let folder = with_database("CREATE TABLE t (a)");
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    let mut short = connections("app.db");
    short.get_mut("app").unwrap().timeout = Duration::from_millis(200);
    for statement in ["INSERT INTO t SELECT i FROM n", "SELECT count(*) FROM n"] {
        let call =
            json!({"operation": "change", "connection": "app", "sql": format!("{numbers} {statement}")});
        let (code, error) = failure(folder.call(execute_sql(&short), call).await);
        assert_eq!(code, "timed_out");
        assert!(error.contains("0.2 s"), "{error}");
    }
    let count = output(call(&folder, "look", "SELECT count(*) FROM t", json!([])).await);
    assert_eq!(count["rows"], json!([[0]]));

    let context = folder.context();
    let cancel = context.cancel.clone();
    let endless = json!({"connection": "app", "sql": format!("{numbers} SELECT count(*) FROM n")});
    let running = tokio::spawn(execute_sql(&connections("app.db")).call(context, endless));
    cancel.cancel();
    assert_eq!(failure(running.await.unwrap()).0, "cancelled");
    // Nothing locks the database any more: a statement that needs exclusive access runs.
    output(call(&folder, "app", "DROP TABLE t", json!([])).await);
}

#[tokio::test]
async fn the_error_for_an_unknown_connection_lists_the_existing_ones() {
    let folder = Folder::with(&[]);
    let (code, error) = failure(call(&folder, "prod", "SELECT 1", json!([])).await);
    assert_eq!(code, "not_found");
    assert_eq!(
        error,
        "there is no connection `prod`; the connections are: app, look"
    );
    let (_, error) = failure(call(&folder, "ap", "SELECT 1", json!([])).await);
    assert_eq!(
        error,
        "there is no connection `ap` (did you mean `app`?); the connections are: app, look"
    );
}

#[test]
fn models_read_the_names_of_databases_but_not_their_addresses() {
    let secret = "postgres://conductor:canary-secret@db.internal.example:5432/app";
    let mut connections = connections("data/app.db");
    for (name, database) in [
        ("bookings", Database::Postgres { url: secret.into() }),
        ("crm", Database::Mysql { url: secret.into() }),
    ] {
        let connection = Connection {
            database,
            access: Access::Execute,
            max_rows: 200,
            timeout: Duration::from_secs(30),
        };
        connections.insert(name.to_owned(), connection);
    }
    let debugged = format!("{connections:?} {:?}", execute_sql(&connections));
    for part in ["conductor", "canary", "internal"] {
        assert!(!debugged.contains(part), "{debugged}");
    }
    let settings = ToolSettings {
        connections,
        ..ToolSettings::default()
    };
    let spec = built_in(&settings).get("execute_sql").unwrap().spec;
    insta::assert_snapshot!(serde_json::to_string_pretty(&spec).unwrap());
    assert!(built_in(&ToolSettings::default()).get("execute_sql").is_none());
}

#[tokio::test]
async fn lead_2_a_query_only_reads_and_a_change_asks() {
    let folder = with_database("CREATE TABLE users (id INTEGER)");
    let tool = execute_sql(&connections("app.db"));
    let insert = "INSERT INTO users VALUES (1) RETURNING id";
    for operation in [json!({}), json!({"operation": "query"})] {
        assert!(tool.spec().repeat.is_safe(&operation));
        assert_eq!(tool.spec().access_for(&operation), Access::ReadOnly);
        let mut parameters = operation;
        parameters["connection"] = json!("app");
        parameters["sql"] = json!(insert);
        assert!(!tool.spec().asks(&parameters));
        let (code, error) = failure(folder.call(tool.clone(), parameters.clone()).await);
        assert_eq!(code, "access_denied");
        assert!(error.contains("use the operation `change`"), "{error}");
        parameters["sql"] = json!("SELECT count(*) FROM users");
        let counted = folder.call(tool.clone(), parameters).await;
        assert_eq!(output(counted)["rows"], json!([[0]]));
    }
    let change = json!({"operation": "change", "connection": "app", "sql": insert});
    assert!(tool.spec().asks(&change));
    assert!(!tool.spec().repeat.is_safe(&change));
    assert_eq!(tool.spec().access_for(&change), Access::ReadWrite);
    assert_eq!(
        output(folder.call(tool.clone(), change).await)["rows"],
        json!([[1]])
    );
    assert!(
        !tool
            .spec()
            .asks(&json!({"operation": "schema", "connection": "app"}))
    );
}
