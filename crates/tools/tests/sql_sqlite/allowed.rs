//! Which statements may run on which connection, when they are ended, and what the model is told of the connections.

use std::time::Duration;

use dirigent_core::call::ToolSet;
use dirigent_core::message::ToolCall;
use dirigent_core::tool::Access;
use dirigent_tools::{
    Connection, Database, Tool, ToolContext, ToolSettings, ToolSource as _, built_in, execute_sql,
};
use serde_json::json;

use super::{call, connections, failure, with_database};
use crate::folder::{Folder, output};

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
