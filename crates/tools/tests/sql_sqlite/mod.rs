//! `execute_sql` on SQLite files of the workspace.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod allowed;
mod files;
mod results;

use std::time::Duration;

use crate::folder::{Folder, error};
use dirigent_core::tool::{Access, ToolOutcome, ToolResult};
use dirigent_tools::{Connection, Connections, Database, execute_sql};
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
