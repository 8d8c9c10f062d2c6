//! `execute_sql` in whole runs: an agent asks, a database answers, and the run records what was changed (LOOP-8).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use dirigent::tools::{Connection, Connections, Database, execute_sql};
use dirigent::{Policy, Rule, Ruling};
use dirigent_core::tool::Access;
use dirigent_tests::scripted::{Scripted, achieved, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent};
use serde_json::{Value, json};

/// Strings that must never reach a model.
const SECRETS: [&str; 4] = ["conductor", "canary", "S3cret", "127.0.0.1"];

fn connections(database: Database) -> Connections {
    let connection = Connection {
        database,
        access: Access::ReadWrite,
        max_rows: 200,
        timeout: Duration::from_secs(60),
    };
    Connections::from([("app".to_owned(), connection)])
}

/// Changes need no approval.
fn allow_changes() -> Policy {
    let calls = "execute_sql(operation: change)".parse().unwrap();
    let ruling = Ruling::Allow;
    Policy {
        rules: vec![Rule { ruling, calls }],
    }
}

fn url(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: use tests/databases/run"))
}

fn sql(operation: &str, sql: &str, parameters: Value) -> dirigent_tests::scripted::Reply {
    call(
        "execute_sql",
        json!({"operation": operation, "connection": "app", "sql": sql, "parameters": parameters}),
    )
}

/// A clerk makes a table, writes and reads with this placeholder syntax, and an auditor with read-only access tries to write.
async fn check(database: Database, placeholder: &str, table: Option<&str>) {
    let stage = Stage::new();
    let select = format!("SELECT total FROM invoices WHERE id = {placeholder}");
    let model = Scripted::new()
        .lead([plan(
            "Book, then look.",
            [
                delegate("book", "clerk", "Book an invoice."),
                dirigent_tests::scripted::after(delegate("audit", "auditor", "Look at it."), ["book"]),
            ],
        )])
        .agent(
            "clerk",
            [
                sql(
                    "change",
                    "CREATE TABLE invoices (id INTEGER, total INTEGER)",
                    json!([]),
                ),
                sql(
                    "change",
                    "INSERT INTO invoices VALUES (1, 120), (2, 80)",
                    json!([]),
                ),
                sql("query", &select, json!([2])),
                says("Booked."),
            ],
        )
        .agent(
            "auditor",
            [
                sql("change", "DELETE FROM invoices", json!([])),
                sql("query", "SELECT count(*) FROM invoices", json!([])),
                says("Both are there."),
            ],
        )
        .reflector([achieved("Booked and looked at.")]);
    let dirigent = stage
        .builder(model.clone())
        .tool(execute_sql(&connections(database)))
        .policy(allow_changes())
        .agent(agent("clerk", &["execute_sql"]).access(Access::ReadWrite))
        .agent(agent("auditor", &["execute_sql"]).access(Access::ReadOnly))
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Book an invoice")).await.unwrap();
    achieved_report(&run).await;

    let clerk = model.agent_asked("clerk");
    assert_eq!(
        clerk[1].result()["changes"],
        json!(["created table invoices in app"])
    );
    let wrote = match table {
        Some(table) => format!("changed 2 rows of {table} in app"),
        None => "changed 2 rows in app".to_owned(),
    };
    assert_eq!(clerk[2].result()["changes"], json!([wrote]));
    let rows = |result: Value| {
        let output: Value = serde_json::from_str(result["output"].as_str().unwrap()).unwrap();
        output["rows"].clone()
    };
    assert_eq!(rows(clerk[3].result()), json!([[80]]));
    let auditor = model.agent_asked("auditor");
    assert_eq!(auditor[1].result()["code"], "access_denied");
    assert_eq!(rows(auditor[2].result()), json!([[2]]));
    // The database's address must never reach a model or the journal.
    let mut told: Vec<String> = model.asked().iter().map(|asked| format!("{asked:?}")).collect();
    told.push(format!("{:?}", stage.entries()));
    for text in told {
        assert!(SECRETS.iter().all(|secret| !text.contains(secret)), "{text}");
    }
}

#[tokio::test]
async fn loop_8_agents_use_a_sqlite_file_of_the_workspace() {
    let database = Database::Sqlite {
        path: "books.db".into(),
    };
    check(database, "?", Some("invoices")).await;
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: tests/databases/run"]
async fn loop_8_agents_use_a_postgres_server() {
    let url = url("DIRIGENT_TEST_POSTGRES").into();
    check(Database::Postgres { url }, "$1", Some("invoices")).await;
}

#[tokio::test]
#[ignore = "needs a MySQL or MariaDB server: tests/databases/run"]
async fn loop_8_agents_use_a_mysql_server() {
    let url = url("DIRIGENT_TEST_MYSQL").into();
    check(Database::Mysql { url }, "?", None).await;
}
