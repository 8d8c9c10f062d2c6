//! Rows, values, schemas and changes as results show them, and the limits of their size.

use dirigent_core::tool::StateChange;
use dirigent_tools::execute_sql;
use serde_json::json;

use super::{call, connections, failure, with_database};
use crate::folder::{Folder, output, text};

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
    let many = with_database(&format!("BEGIN; {many} COMMIT"));
    let shown = text(schema(&many, "app").await);
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
