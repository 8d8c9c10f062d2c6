//! The memory limit of `execute_sql` on SQLite. This test runs in its own process, because the limit applies to the memory of the whole
//! process, so statements of parallel tests would be ended, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod folder;

use std::time::Duration;

use dirigent_core::tool::{Access, ToolOutcome};
use dirigent_tools::{Connection, Connections, Database, execute_sql};
use folder::Folder;
use serde_json::json;

#[tokio::test]
async fn a_statement_that_takes_too_much_memory_is_refused() {
    let folder = Folder::with(&[("app.db", b"")]);
    let connection = Connection {
        database: Database::Sqlite {
            path: "app.db".into(),
        },
        access: Access::ReadOnly,
        max_rows: 3,
        timeout: Duration::from_secs(600),
    };
    let connections = Connections::from([("app".to_owned(), connection)]);
    let sorted = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000) \
        SELECT length(x) FROM (SELECT zeroblob(1000000) AS x FROM n ORDER BY x LIMIT -1 OFFSET 1)";
    let call = json!({"connection": "app", "sql": sorted});
    let result = folder.call(execute_sql(&connections), call).await;
    let ToolOutcome::Failure { code, error, .. } = &result.outcome else {
        panic!("{result:?}")
    };
    assert_eq!(code, "too_big", "{error}");
    assert!(error.contains("memory"), "{error}");
}
