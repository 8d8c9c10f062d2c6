//! `execute_sql` on real servers; `tests/databases/run` starts them and passes their addresses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use crate::folder::{Folder, error, output, text};
use dirigent_core::tool::{Access, StateChange, ToolOutcome, ToolResult};
use dirigent_tools::{Connection, Connections, Database, Tool, TypedTool, execute_sql};
use serde_json::{Value, json};

/// Secrets that no result may contain.
const SECRETS: [&str; 4] = ["conductor", "canary", "S3cret", "127.0.0.1"];

#[derive(Clone, Copy)]
enum Server {
    Postgres,
    Mysql,
}
use Server::{Mysql, Postgres};

impl Server {
    fn database(self) -> Database {
        let (variable, make): (_, fn(String) -> Database) = match self {
            Postgres => ("DIRIGENT_TEST_POSTGRES", |url| Database::Postgres {
                url: url.into(),
            }),
            Mysql => ("DIRIGENT_TEST_MYSQL", |url| Database::Mysql { url: url.into() }),
        };
        make(
            std::env::var(variable)
                .unwrap_or_else(|_| panic!("{variable} is not set: use tests/databases/run")),
        )
    }

    fn connections(self, timeout: Duration) -> Connections {
        let connection = |access| Connection {
            database: self.database(),
            access,
            max_rows: 3,
            timeout,
        };
        Connections::from([
            ("app".to_owned(), connection(Access::ReadWrite)),
            ("look".to_owned(), connection(Access::ReadOnly)),
        ])
    }

    fn tool(self) -> TypedTool {
        execute_sql(&self.connections(Duration::from_secs(60)))
    }

    async fn call(self, connection: &str, sql: &str, parameters: Value) -> ToolResult {
        let call =
            json!({"operation": "change", "connection": connection, "sql": sql, "parameters": parameters});
        let result = Folder::with(&[]).call(self.tool(), call).await;
        let told = result.for_model().to_string();
        assert!(
            SECRETS.iter().all(|secret| !told.contains(secret)),
            "{sql}: {told}"
        );
        result
    }

    /// Returns the output of a call, which must succeed.
    async fn run(self, sql: &str) -> ToolResult {
        let result = self.call("app", sql, json!([])).await;
        assert!(result.succeeded(), "{sql}: {:?}", result.outcome);
        result
    }

    /// Returns the only value of a query.
    async fn value(self, sql: &str, parameters: Value) -> Value {
        output(self.call("look", sql, parameters).await)["rows"][0][0].clone()
    }
}

#[track_caller]
fn failure(result: ToolResult) -> (String, String) {
    let code = match &result.outcome {
        ToolOutcome::Failure { code, .. } => code.clone(),
        ToolOutcome::Success { .. } => String::new(),
    };
    (code, error(result))
}

fn changed(table: Option<&str>, rows: u64) -> StateChange {
    StateChange::RowsChanged {
        connection: "app".to_owned(),
        table: table.map(str::to_owned),
        rows,
    }
}

fn created(table: &str) -> StateChange {
    StateChange::TableCreated {
        connection: "app".to_owned(),
        table: table.to_owned(),
    }
}

fn dropped(table: &str) -> StateChange {
    StateChange::TableDropped {
        connection: "app".to_owned(),
        table: table.to_owned(),
    }
}

/// The changes of a call, without tables of other tests: a table that another client creates or drops during a statement is reported, too.
fn changes_about(result: &ToolResult, tables: &[&str]) -> Vec<StateChange> {
    let other = |change: &StateChange| matches!(change, StateChange::TableCreated { table: name, .. } | StateChange::TableDropped { table: name, .. } if !tables.contains(&name.as_str()));
    let changes = result.changes.iter().filter(|change| !other(change));
    changes.cloned().collect()
}

/// The lines of a schema that contain one of these tables. Other tests have their own tables.
fn lines_about(schema: &str, names: &[&str]) -> Vec<String> {
    let named = |line: &&str| names.iter().any(|name| line.contains(name));
    schema.lines().filter(named).map(str::to_owned).collect()
}

#[tokio::test]
#[ignore = "needs real servers: tests/databases/run"]
async fn the_operation_schema_shows_tables_with_columns_keys_and_indexes() {
    let shown = async |server: Server| {
        let call = json!({"operation": "schema", "connection": "look"});
        let result = Folder::with(&[]).call(server.tool(), call).await;
        let schema = text(result);
        assert!(SECRETS.iter().all(|secret| !schema.contains(secret)), "{schema}");
        lines_about(&schema, &["shown_"])
    };
    for sql in [
        "CREATE TABLE shown_users (id serial PRIMARY KEY, name varchar(20) NOT NULL DEFAULT 'x', at timestamptz)",
        "CREATE TABLE shown_orders (id int, owner int REFERENCES shown_users (id), UNIQUE (id, owner), CHECK (id > 0))",
        "CREATE INDEX shown_by_name ON shown_users (lower(name))",
        "CREATE VIEW shown_names AS SELECT name FROM shown_users",
    ] {
        Postgres.run(sql).await;
    }
    assert_eq!(
        shown(Postgres).await,
        [
            "VIEW shown_names (name character varying(20))",
            "TABLE shown_orders (id integer, owner integer, CHECK ((id > 0)), FOREIGN KEY (owner) REFERENCES shown_users(id), UNIQUE (id, owner))",
            "TABLE shown_users (id integer NOT NULL DEFAULT nextval('shown_users_id_seq'::regclass), \
             name character varying(20) NOT NULL DEFAULT 'x'::character varying, at timestamp with time zone, PRIMARY KEY (id))",
            "CREATE INDEX shown_by_name ON public.shown_users USING btree (lower((name)::text))",
        ]
    );
    for sql in [
        "CREATE TABLE shown_users (id int AUTO_INCREMENT PRIMARY KEY, name varchar(20) NOT NULL DEFAULT 'x', at datetime)",
        "CREATE TABLE shown_orders (id int, owner int, UNIQUE pair (id, owner), FOREIGN KEY (owner) REFERENCES shown_users (id))",
        "CREATE INDEX shown_by_name ON shown_users (name)",
        "CREATE VIEW shown_names AS SELECT name FROM shown_users",
    ] {
        Mysql.run(sql).await;
    }
    assert_eq!(
        shown(Mysql).await,
        [
            "VIEW shown_names (name varchar(20) NOT NULL DEFAULT 'x')",
            "TABLE shown_orders (id int(11), owner int(11), INDEX owner (owner), UNIQUE INDEX pair (id, owner), \
             FOREIGN KEY (owner) REFERENCES shown_users (id))",
            "TABLE shown_users (id int(11) NOT NULL auto_increment, name varchar(20) NOT NULL DEFAULT 'x', at datetime, \
             INDEX shown_by_name (name), PRIMARY KEY (id))",
        ]
    );
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: tests/databases/run"]
async fn each_postgres_value_has_one_json_form() {
    Postgres.run("CREATE TYPE mood AS ENUM ('happy', 'sad')").await;
    let cases = [
        ("NULL::int", json!(null)),
        ("true", json!(true)),
        ("9007199254740992", json!(9_007_199_254_740_992_i64)),
        ("9007199254740993", json!("9007199254740993")),
        ("32767::smallint", json!(32767)),
        ("0.1::real", json!(0.1)),
        ("'NaN'::float8", json!("NaN")),
        ("'-Infinity'::float4", json!("-Infinity")),
        (
            "12345678901234567890.10::numeric",
            json!("12345678901234567890.10"),
        ),
        ("'naïve'::text", json!("naïve")),
        ("'\\x00ff'::bytea", json!({"hex": "00ff", "bytes": 2})),
        (
            "'6f1c2e9a-0000-4000-8000-000000000001'::uuid",
            json!("6f1c2e9a-0000-4000-8000-000000000001"),
        ),
        (
            "'2026-11-22 09:30:00+01'::timestamptz",
            json!("2026-11-22 08:30:00+00"),
        ),
        ("'2026-11-22'::date", json!("2026-11-22")),
        ("'1 day 2 hours'::interval", json!("1 day 02:00:00")),
        ("'{\"a\": [1, null]}'::jsonb", json!("{\"a\": [1, null]}")),
        ("ARRAY[1, NULL, 3]", json!("{1,NULL,3}")),
        ("ARRAY['a b', 'c']", json!("{\"a b\",c}")),
        ("'happy'::mood", json!("happy")),
        ("int4range(1, 5)", json!("[1,5)")),
        ("'10.0.0.1/8'::inet", json!("10.0.0.1/8")),
        ("ROW(1, 'a')", json!("(1,a)")),
    ];
    for (sql, value) in cases {
        assert_eq!(
            Postgres.value(&format!("SELECT {sql}"), json!([])).await,
            value,
            "{sql}"
        );
    }
    let result = output(
        Postgres
            .call(
                "look",
                "SELECT 1 AS a, 'x'::text AS a, 'sad'::mood WHERE false",
                json!([]),
            )
            .await,
    );
    assert_eq!(
        result,
        json!({
            "columns": [{"name": "a", "type": "int4"}, {"name": "a", "type": "text"}, {"name": "mood", "type": "mood"}],
            "rows": [],
            "row_count": 0,
        })
    );
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: tests/databases/run"]
async fn postgres_parameters_are_converted_to_the_types_that_the_statement_expects() {
    let cases = [
        ("SELECT $1::int + 1", json!(41), json!(42)),
        ("SELECT $1::int + 1", json!("41"), json!(42)),
        ("SELECT NOT $1::bool", json!(true), json!(false)),
        (
            "SELECT $1::text",
            json!("it's \\'; DROP TABLE x --"),
            json!("it's \\'; DROP TABLE x --"),
        ),
        ("SELECT $1::text", json!(null), json!(null)),
        (
            "SELECT $1::bytea",
            json!({"hex": "00FF"}),
            json!({"hex": "00ff", "bytes": 2}),
        ),
        ("SELECT ($1::jsonb)->'a'", json!({"a": [1]}), json!("[1]")),
        ("SELECT 2 = ANY($1::int[])", json!([1, 2]), json!(true)),
        (
            "SELECT ($1::text[])[1]",
            json!(["a \"b\\ {c}", null]),
            json!("a \"b\\ {c}"),
        ),
        (
            "SELECT $1::numeric",
            json!("12345678901234567890.1"),
            json!("12345678901234567890.1"),
        ),
        (
            "SELECT $1::timestamptz",
            json!("2026-11-22T08:30:00Z"),
            json!("2026-11-22 08:30:00+00"),
        ),
    ];
    for (sql, parameter, value) in cases {
        assert_eq!(Postgres.value(sql, json!([parameter])).await, value, "{sql}");
    }
    let (code, error) = failure(Postgres.call("look", "SELECT $1::int", json!(["x"])).await);
    assert_eq!(
        (code.as_str(), error.as_str()),
        ("database", "invalid input syntax for type integer: \"x\"")
    );
    let (code, error) = failure(Postgres.call("look", "SELECT $1::int", json!([])).await);
    assert_eq!(code, "bad_parameters", "{error}");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: tests/databases/run"]
async fn no_statement_leaves_a_read_only_transaction_of_postgres() {
    Postgres.run("CREATE TABLE kept (a int)").await;
    Postgres
        .run("CREATE FUNCTION sneak() RETURNS int LANGUAGE sql AS 'INSERT INTO kept VALUES (1) RETURNING a'")
        .await;
    let cases = [
        "INSERT INTO kept VALUES (1)",
        "WITH x AS (INSERT INTO kept VALUES (1) RETURNING a) SELECT * FROM x",
        "SELECT sneak()",
        "DROP TABLE kept",
        "TRUNCATE kept",
        "CREATE TABLE other (a int)",
        "SELECT * FROM kept FOR UPDATE",
        "DO $$ BEGIN INSERT INTO kept VALUES (1); END $$",
    ];
    for sql in cases {
        let (code, error) = failure(Postgres.call("look", sql, json!([])).await);
        // Rows can only be locked if there are any.
        assert_eq!(code, "access_denied", "{sql}: {error}");
    }
    let tricks = [
        "SET TRANSACTION READ WRITE",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "DO $$ BEGIN SET TRANSACTION READ WRITE; INSERT INTO kept VALUES (1); END $$",
        "DO $$ BEGIN COMMIT; INSERT INTO kept VALUES (1); END $$",
        "DO $$ BEGIN ROLLBACK; SET default_transaction_read_only = off; INSERT INTO kept VALUES (1); END $$",
        "COPY kept FROM STDIN",
        "COPY kept TO STDOUT",
        "VACUUM kept",
        "SELECT 1; COMMIT; INSERT INTO kept VALUES (1)",
    ];
    for sql in tricks {
        let (code, error) = failure(Postgres.call("look", sql, json!([])).await);
        assert!(
            ["database", "access_denied", "bad_parameters"].contains(&code.as_str()),
            "{sql}: {code}: {error}"
        );
    }
    // No setting and no transaction of one call affects the next.
    for sql in [
        "COMMIT",
        "ROLLBACK",
        "SET default_transaction_read_only = off",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    ] {
        Postgres.call("look", sql, json!([])).await;
        let (code, _) = failure(
            Postgres
                .call("look", "INSERT INTO kept VALUES (1)", json!([]))
                .await,
        );
        assert_eq!(code, "access_denied", "{sql}");
    }
    assert_eq!(
        Postgres.value("SELECT count(*) FROM kept", json!([])).await,
        json!(0)
    );
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: tests/databases/run"]
async fn loop_8_changes_are_what_postgres_reports() {
    let cases = [
        (
            "CREATE TABLE parents (id int PRIMARY KEY)",
            vec![created("parents")],
        ),
        (
            "CREATE TABLE children (parent int REFERENCES parents ON DELETE CASCADE)",
            vec![created("children")],
        ),
        ("CREATE SCHEMA side", vec![]),
        (
            "CREATE TABLE side.notes AS SELECT 1 AS a",
            vec![created("side.notes"), changed(Some("side.notes"), 1)],
        ),
        (
            "INSERT INTO parents SELECT generate_series(1, 5)",
            vec![changed(Some("parents"), 5)],
        ),
        (
            "INSERT INTO children SELECT id FROM parents RETURNING parent",
            vec![changed(Some("children"), 5)],
        ),
        (
            "DELETE FROM parents WHERE id > 3",
            vec![changed(Some("children"), 2), changed(Some("parents"), 2)],
        ),
        ("SELECT 'DELETE FROM parents'", vec![]),
        ("UPDATE parents SET id = id WHERE id = 99", vec![]),
        (
            "DO $$ BEGIN UPDATE parents SET id = id; END $$",
            vec![changed(Some("parents"), 3)],
        ),
        ("DROP TABLE side.notes", vec![dropped("side.notes")]),
    ];
    for (sql, changes) in cases {
        let result = Postgres.run(sql).await;
        let tables = ["parents", "children", "side.notes"];
        assert_eq!(changes_about(&result, &tables), changes, "{sql}");
    }
    let result = output(Postgres.run("UPDATE parents SET id = id").await);
    assert_eq!(result["rows_affected"], json!(3));
    // Three of five rows were shown, but all five were inserted.
    let result = output(
        Postgres
            .run("INSERT INTO children SELECT 1 FROM generate_series(1, 5) RETURNING parent")
            .await,
    );
    assert_eq!(
        (&result["row_count"], &result["truncated"]),
        (&json!(3), &json!(true))
    );
    assert_eq!(
        Postgres.value("SELECT count(*) FROM children", json!([])).await,
        json!(8)
    );
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: tests/databases/run"]
async fn only_the_shown_rows_are_read_from_postgres() {
    for connection in ["look", "app"] {
        let result = output(
            Postgres
                .call(connection, "SELECT generate_series(1, 1000000000)", json!([]))
                .await,
        );
        assert_eq!(result["rows"], json!([[1], [2], [3]]));
        assert_eq!(result["truncated"], json!(true));
    }
    let (code, error) = failure(Postgres.call("app", "VACUUM", json!([])).await);
    assert_eq!(
        (code.as_str(), error.as_str()),
        ("database", "VACUUM cannot run inside a transaction block")
    );
}

#[tokio::test]
#[ignore = "needs a MySQL or MariaDB server: tests/databases/run"]
async fn each_mysql_value_has_one_json_form() {
    let cases = [
        ("NULL", json!(null)),
        ("9007199254740992", json!(9_007_199_254_740_992_i64)),
        ("18446744073709551615", json!("18446744073709551615")),
        ("-1", json!(-1)),
        ("CAST(0.1 AS DOUBLE)", json!(0.1)),
        ("CAST(0.1 AS FLOAT)", json!(0.1)),
        ("12345678901234567890.10", json!("12345678901234567890.10")),
        ("'naïve'", json!("naïve")),
        ("x'00ff'", json!({"hex": "00ff", "bytes": 2})),
        ("_utf8mb4'text' COLLATE utf8mb4_bin", json!("text")),
        ("CAST('2026-11-22' AS DATE)", json!("2026-11-22")),
        (
            "CAST('2026-11-22 08:30:00.25' AS DATETIME(2))",
            json!("2026-11-22 08:30:00.25"),
        ),
        ("CAST('-27:30:00' AS TIME)", json!("-27:30:00")),
        ("b'101' + 0", json!(5)),
        ("'a' || 'b'", json!(0)),
    ];
    for (sql, value) in cases {
        assert_eq!(
            Mysql.value(&format!("SELECT {sql}"), json!([])).await,
            value,
            "{sql}"
        );
    }
    Mysql.run("CREATE TABLE kinds (a TINYINT, b BIT(9), c YEAR, d ENUM('x', 'y'), e SET('p', 'q'), f JSON, g TIMESTAMP NULL, h BLOB, i INT UNSIGNED)").await;
    Mysql.run("INSERT INTO kinds VALUES (-5, b'100000001', 2026, 'y', 'p,q', '{\"a\": 1}', '2026-11-22 08:30:00', 'ab', 4294967295)").await;
    let result = output(Mysql.call("look", "SELECT * FROM kinds", json!([])).await);
    assert_eq!(
        result["rows"],
        json!([[-5, 257, 2026, "y", "p,q", "{\"a\": 1}", "2026-11-22 08:30:00", {"hex": "6162", "bytes": 2}, 4_294_967_295_u32]])
    );
}

#[tokio::test]
#[ignore = "needs a MySQL or MariaDB server: tests/databases/run"]
async fn mysql_parameters_are_bound_according_to_their_json_types() {
    let cases = [
        (json!(null), json!(null)),
        (json!(7), json!(7)),
        (json!(true), json!(1)),
        (json!(1.5), json!(1.5)),
        (json!("'; DROP TABLE x --"), json!("'; DROP TABLE x --")),
        (json!({"hex": "00ff"}), json!({"hex": "00ff", "bytes": 2})),
        (json!([1]), json!("[1]")),
    ];
    for (parameter, value) in cases {
        assert_eq!(Mysql.value("SELECT ?", json!([parameter])).await, value);
    }
    let (code, error) = failure(Mysql.call("look", "SELECT ?", json!([])).await);
    assert_eq!(code, "bad_parameters", "{error}");
}

#[tokio::test]
#[ignore = "needs a MySQL or MariaDB server: tests/databases/run"]
async fn no_statement_leaves_a_read_only_transaction_of_mysql() {
    Mysql.run("CREATE TABLE kept (a INT)").await;
    let cases = [
        "INSERT INTO kept VALUES (1)",
        "DELETE FROM kept",
        "CREATE TABLE other (a INT)",
        "DROP TABLE kept",
        "TRUNCATE kept",
        "SET STATEMENT tx_read_only = 0 FOR INSERT INTO kept VALUES (1)",
        "BEGIN NOT ATOMIC INSERT INTO kept VALUES (1); END",
        "BEGIN NOT ATOMIC COMMIT; SET SESSION TRANSACTION READ WRITE; INSERT INTO kept VALUES (1); END",
        "BEGIN NOT ATOMIC ROLLBACK; INSERT INTO kept VALUES (1); END",
        "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; COMMIT; SET SESSION TRANSACTION READ WRITE; \
         START TRANSACTION; INSERT INTO kept VALUES (1); CREATE TABLE other (a INT); COMMIT; END",
        "EXECUTE IMMEDIATE 'INSERT INTO kept VALUES (1)'",
        "COMMIT",
        "SELECT 1; INSERT INTO kept VALUES (1)",
        "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE kept",
    ];
    for sql in cases {
        let result = Mysql.call("look", sql, json!([])).await;
        assert_eq!(result.changes, [], "{sql}");
    }
    assert_eq!(
        Mysql.value("SELECT count(*) FROM kept", json!([])).await,
        json!(0)
    );
    let (code, _) = failure(Mysql.call("look", cases[0], json!([])).await);
    assert_eq!(code, "access_denied");
    // The client does not send local files to a server that asks for them.
    let load = "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE kept";
    assert_eq!(failure(Mysql.call("app", load, json!([])).await).0, "database");
    assert_eq!(
        Mysql.value("SELECT count(*) FROM kept", json!([])).await,
        json!(0)
    );
}

#[tokio::test]
#[ignore = "needs a MySQL or MariaDB server: tests/databases/run"]
async fn loop_8_changes_are_what_mysql_reports() {
    let cases = [
        (
            "CREATE TABLE births (id INT PRIMARY KEY)",
            vec![created("births")],
        ),
        (
            "INSERT INTO births VALUES (1), (2), (3), (4), (5)",
            vec![changed(None, 5)],
        ),
        (
            "UPDATE births SET id = id + 10 WHERE id > 3",
            vec![changed(None, 2)],
        ),
        ("SELECT 'DELETE FROM births'", vec![]),
        ("DELETE FROM births WHERE id = 99", vec![]),
    ];
    for (sql, changes) in cases {
        let result = Mysql.run(sql).await;
        assert_eq!(changes_about(&result, &["births"]), changes, "{sql}");
    }
    let result = output(Mysql.call("app", "SELECT id FROM births", json!([])).await);
    assert_eq!(
        (&result["row_count"], &result["truncated"]),
        (&json!(3), &json!(true))
    );
    let result = Mysql.run("DROP TABLE births").await;
    assert_eq!(changes_about(&result, &["births"]), [dropped("births")]);
}

#[tokio::test]
#[ignore = "needs real servers: tests/databases/run"]
async fn several_statements_are_refused_before_anything_runs() {
    for server in [Postgres, Mysql] {
        for sql in [
            "CREATE TABLE first (a INT); CREATE TABLE second (a INT)",
            "SELECT 1; /* and */ DROP TABLE first",
        ] {
            let (code, _) = failure(server.call("app", sql, json!([])).await);
            assert!(["bad_parameters", "database"].contains(&code.as_str()), "{code}");
        }
        let sql = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'first'";
        assert_eq!(server.value(sql, json!([])).await, json!(0));
    }
}

/// Counts the statements that sleep on the server.
async fn asleep(server: Server) -> Value {
    match server {
        Postgres => {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(55)%' AND pid <> pg_backend_pid()";
            server.value(sql, json!([])).await
        }
        Mysql => {
            let sql = "SELECT count(*) FROM information_schema.processlist WHERE state LIKE 'User sleep'";
            server.value(sql, json!([])).await
        }
    }
}

async fn until_asleep(server: Server, count: i64) {
    while asleep(server).await != json!(count) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
#[ignore = "needs real servers: tests/databases/run"]
async fn a_statement_ends_on_the_server_after_its_timeout_or_when_it_is_dropped() {
    for (server, sleep) in [(Postgres, "SELECT pg_sleep(55)"), (Mysql, "SELECT SLEEP(55)")] {
        let folder = Folder::with(&[]);
        let call = json!({"connection": "app", "sql": sleep});
        let short = execute_sql(&server.connections(Duration::from_secs(3)));
        let result = folder.call(short, call.clone()).await;
        // MariaDB's sleep returns early, and says so.
        match result.outcome {
            ToolOutcome::Failure { code, .. } => assert_eq!(code, "timed_out"),
            ToolOutcome::Success { output } => panic!("{output}"),
        }
        until_asleep(server, 0).await;

        let context = folder.context();
        let cancel = context.cancel.clone();
        let running = tokio::spawn(server.tool().call(context, call.clone()));
        until_asleep(server, 1).await;
        cancel.cancel();
        assert_eq!(failure(running.await.unwrap()).0, "cancelled");
        until_asleep(server, 0).await;

        let running = tokio::spawn(server.tool().call(folder.context(), call));
        until_asleep(server, 1).await;
        running.abort();
        until_asleep(server, 0).await;
    }
}

#[tokio::test]
#[ignore = "needs real servers: tests/databases/run"]
async fn errors_of_unreachable_or_rejecting_servers_contain_no_secret() {
    for server in [Postgres, Mysql] {
        let (url, make): (String, fn(String) -> Database) = match server {
            Postgres => (std::env::var("DIRIGENT_TEST_POSTGRES").unwrap(), |url| {
                Database::Postgres { url: url.into() }
            }),
            Mysql => (std::env::var("DIRIGENT_TEST_MYSQL").unwrap(), |url| {
                Database::Mysql { url: url.into() }
            }),
        };
        let (scheme, _) = url.split_once("://").unwrap();
        for url in [
            url.replace("S3cret", "S3cretwrong"),
            format!("{scheme}://conductor:canary@127.0.0.1:1/x"),
            format!("{scheme}://conductor:canary@no-such-host.invalid/x"),
            "conductor:canary".to_owned(),
        ] {
            let connection = Connection {
                database: make(url),
                access: Access::ReadOnly,
                max_rows: 3,
                timeout: Duration::from_secs(30),
            };
            let tool = execute_sql(&Connections::from([("app".to_owned(), connection)]));
            let call = json!({"connection": "app", "sql": "SELECT 1"});
            let (code, error) = failure(Folder::with(&[]).call(tool, call).await);
            assert_eq!(code, "unreachable", "{error}");
            assert!(SECRETS.iter().all(|secret| !error.contains(secret)), "{error}");
        }
    }
    // Nor does a server's error message contain a secret.
    let (_, error) = failure(
        Postgres
            .call("look", "SELECT * FROM conductor.none", json!([]))
            .await,
    );
    assert!(error.contains("does not exist"), "{error}");
    failure(Mysql.call("look", "SELECT no_such_function()", json!([])).await);
}
