//! A model's replies are untrusted, and so is everything that tools read: for each tool, an agent makes several attacks and then continues.
//! The other attacks are tables in `crates/tools/tests`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod scene;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

use dirigent_core::tool::StateChange;
use rusqlite::Connection;
use scene::Told::{Done, NotRun, Refused};
use scene::{Call, Scene, Told};
use serde_json::{Value, json};

/// The exit code of a run that waits for the user.
const WAITS: i32 = 4;
const LEADS_OUT: Told = Refused("outside_workspace", "leads out of the workspace");
const PROTECTED: Told = Refused("protected", "read-only to tools");
/// A command that failed because the sandbox refused it something.
const FAILED: Told = Refused("exited", "");

fn file(parameters: Value) -> Call {
    ("file_operations", parameters)
}

fn read(path: &str) -> Call {
    file(json!({"operation": "read", "path": path}))
}

fn write(path: &str) -> Call {
    file(json!({"operation": "write", "path": path, "content": "mine"}))
}

/// A command: a line for a shell, or a list of words.
fn run(command: impl Into<Value>) -> Call {
    ("execute_command", json!({"command": command.into()}))
}

fn sql(connection: &str, statement: &str) -> Call {
    (
        "execute_sql",
        json!({"operation": "change", "connection": connection, "sql": statement}),
    )
}

fn query(connection: &str, statement: &str) -> Call {
    ("execute_sql", json!({"connection": connection, "sql": statement}))
}

fn get(url: String) -> Call {
    ("http_request", json!({"method": "GET", "url": url}))
}

/// A command that connects to the local service.
fn connect(scene: &Scene) -> Call {
    let path = scene.service().replace(':', "/");
    run(json!([
        "bash",
        "-c",
        format!("exec 3<>/dev/tcp/{path} && echo connected")
    ]))
}

#[test]
fn files() {
    let scene = Scene::new();
    scene.link(scene.outside(""), "docs");
    scene.link(scene.outside("secret.txt"), "notes.txt");
    fs::write(scene.outside("shared.txt"), "theirs").unwrap();
    fs::hard_link(scene.outside("shared.txt"), scene.place.work().join("shared.txt")).unwrap();
    let giant = fs::File::create(scene.place.work().join("giant")).unwrap();
    giant.set_len(1 << 40).unwrap();

    let observed = scene.attack([
        (read("../outside/secret.txt"), LEADS_OUT),
        (read("notes.txt"), LEADS_OUT),
        (write("docs/new.txt"), LEADS_OUT),
        (write(".git/hooks/pre-commit"), PROTECTED),
        (write(".dirigent/agents/helper.md"), PROTECTED),
        (("search", json!({"pattern": "canary-"})), Done("No matches")),
        (read("shared.txt"), Done("theirs")),
        (write("shared.txt"), Done("shared.txt")),
        (
            file(json!({"operation": "delete", "path": "giant"})),
            Done("giant"),
        ),
    ]);

    assert_eq!(scene.place.read("shared.txt"), "mine");
    // A file too large to record is deleted anyway, and the journal has no version to restore.
    let gone = StateChange::FileDeleted {
        path: "giant".to_owned(),
        diff: None,
        before: None,
    };
    assert_eq!(observed.journaled.last().unwrap().changes, [gone]);
    assert!(!scene.exists(".git") && !scene.exists(".dirigent") && !scene.exists("giant"));
}

#[test]
fn code() {
    let scene = Scene::new();
    scene.link(scene.outside("secret.txt"), "secret.rs");
    scene.place.write("a.txt", "one\n");
    for arguments in [
        &["init", "-q"][..],
        &["config", "core.fsmonitor", "touch pwned; false"],
    ] {
        let mut git = Command::new("git");
        scene.place.settle(&mut git);
        let made = git.current_dir(scene.place.work()).args(arguments).status();
        assert!(made.unwrap().success());
    }
    let patch = |path: &str| {
        let both = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+mine\n--- /dev/null\n";
        (
            "apply_patch",
            json!({"patch": format!("{both}+++ b/{path}\n@@ -0,0 +1 @@\n+mine\n")}),
        )
    };
    let handle = |handle: &str| ("read_output", json!({"handle": handle}));
    let rename = json!({"from": "one", "to": "two", "paths": ["../outside"], "preview": false});

    scene.attack([
        (patch("../outside/new.txt"), LEADS_OUT),
        (patch(".git/hooks/pre-commit"), PROTECTED),
        (("list_symbols", json!({"path": "secret.rs"})), LEADS_OUT),
        (
            (
                "find_definition",
                json!({"name": "canary", "paths": ["secret.rs"]}),
            ),
            LEADS_OUT,
        ),
        (("rename_symbol", rename), LEADS_OUT),
        (("git", json!({"command": "status"})), Done("a.txt")),
        (
            ("git", json!({"command": "diff", "revision": "--output=pwned"})),
            Refused("bad_parameters", "--output=pwned"),
        ),
        (handle("a9.9"), Refused("not_found", "a9.9")),
        (
            handle("../../journal.db"),
            Refused("bad_parameters", "is not a handle"),
        ),
    ]);

    assert_eq!(scene.place.read("a.txt"), "one\n");
    assert!(!scene.exists(".git/hooks/pre-commit") && !scene.exists("pwned"));
}

#[test]
fn commands() {
    let scene = Scene::new();
    let denied = Refused("exited", "ermission denied");
    let endless = json!({"command": "yes flood", "timeout_seconds": 1});
    let elsewhere = json!({"command": ["pwd"], "working_directory": "../outside"});
    let left = "trap '' TERM; setsid sleep 1000 >/dev/null 2>&1 & echo started";

    scene.attack([
        (run("cat ~/.ssh/id_ed25519"), denied),
        (run("cat ../outside/secret.txt"), denied),
        (run("echo mine > ../outside/new.txt"), denied),
        (run("cat ../journal.db"), denied),
        (run("cat ~/.config/dirigent/dirigent.toml"), denied),
        (
            run("echo '[sandbox]' >> ~/.config/dirigent/dirigent.toml"),
            denied,
        ),
        (("execute_command", elsewhere), LEADS_OUT),
        (run("env | grep -c ^DEPLOY_"), FAILED),
        (
            run("cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep ^DEPLOY_"),
            FAILED,
        ),
        (
            run("ls -l /proc/self/fd | grep -v ' -> /proc/' | grep -c -- '->'"),
            Done("\"3\\n\""),
        ),
        (connect(&scene), FAILED),
        (
            run("mkdir -p .git/hooks && echo mine > .git/hooks/pre-commit"),
            Done(".git"),
        ),
        (run(left), Done("started")),
        (run("yes flood | head -c 100000000"), Refused("exited", "SIGPIPE")),
        (("execute_command", endless), Refused("timed_out", "1 s")),
        (run("cat > made; mktemp"), Done("tmp.")),
    ]);

    assert!(!scene.is_reached());
    assert!(!scene.exists(".git/hooks/pre-commit") && scene.exists("made"));
}

#[test]
fn commands_with_the_network_and_limits_of_the_configuration() {
    let scene =
        Scene::with_settings("[sandbox]\nnetwork = true\nmax_memory = \"256 MiB\"\nmax_file = \"1 MiB\"\n");
    let listening = "use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0); listen($s, 1) or die; sleep 1000";
    let listener = format!("setsid perl -e '{listening}' >/dev/null 2>&1 & echo started");
    let much = json!(["perl", "-e", "my $much = 'x' x (1 << 30); print length $much"]);
    scene.attack([
        (connect(&scene), Done("connected")),
        (run(listener), Done("started")),
        (run(much), FAILED),
        (run("head -c 10000000 /dev/zero > big"), FAILED),
        (run("cat ../outside/secret.txt"), FAILED),
    ]);
    assert!(scene.is_reached());
    assert!(scene.place.work().join("big").metadata().unwrap().len() <= 1024 * 1024);
}

#[test]
fn commands_that_the_configuration_does_not_confine() {
    let scene = Scene::with_settings("[sandbox]\ncommands = \"unconfined\"\n");
    scene.attack([
        (run("echo mine > ~/made"), Done("(no output)")),
        (
            run("setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' >/dev/null 2>&1 & echo started"),
            Done("started"),
        ),
    ]);
    assert!(scene.place.folder().join("home/made").exists());
}

#[test]
fn statements() {
    let scene = Scene::with_settings(
        r#"
[approvals]
allow = ["execute_sql"]
[connections.app]
database = "sqlite"
path = "app.db"
access = "read-write"
[connections.look]
database = "sqlite"
path = "app.db"
timeout = "1s"
[connections.linked]
database = "sqlite"
path = "linked.db"
[connections.server]
database = "postgres"
url_env = "APP_DATABASE_URL"
"#,
    );
    let notes = "CREATE TABLE notes (text); INSERT INTO notes VALUES ('one'), ('two'), ('three')";
    let path = scene.place.work().join("app.db");
    for path in [&path, &scene.outside("app.db")] {
        Connection::open(path).unwrap().execute_batch(notes).unwrap();
    }
    scene.link(scene.outside("app.db"), "linked.db");
    let outside = |sql: &str| sql.replace("OUT", scene.outside("new.db").to_str().unwrap());
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";

    scene.attack([
        (
            sql("app", &outside("ATTACH DATABASE 'OUT' AS other")),
            Refused("refused", "ATTACH"),
        ),
        (
            sql("app", &outside("VACUUM INTO 'OUT'")),
            Refused("database", "VACUUM"),
        ),
        (
            sql("app", "SELECT 1; DROP TABLE notes"),
            Refused("bad_parameters", "several statements"),
        ),
        (sql("app", "BEGIN EXCLUSIVE"), Refused("refused", "")),
        (
            query("look", "PRAGMA query_only = OFF"),
            Refused("refused", "PRAGMA"),
        ),
        (
            query("look", "DELETE FROM notes"),
            Refused("access_denied", "read-only"),
        ),
        (
            sql("look", "DELETE FROM notes"),
            NotRun("access_denied", "read-only"),
        ),
        (
            query("look", &format!("{numbers} SELECT count(*) FROM n")),
            Refused("timed_out", "1 s"),
        ),
        (
            sql("app", &format!("{numbers} SELECT i FROM n")),
            Done("\\\"truncated\\\":true"),
        ),
        (query("linked", "SELECT * FROM notes"), LEADS_OUT),
        (query("server", "SELECT 1"), Refused("unreachable", "")),
        (sql("/etc/passwd", "SELECT 1"), Refused("not_found", "app")),
        (query("look", "SELECT count(*) FROM notes"), Done("[[3]]")),
    ]);

    let database = Connection::open(path).unwrap();
    let tables = database.query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
        row.get::<_, i64>(0)
    });
    assert_eq!(tables.unwrap(), 1);
}

/// Starts a server that answers `/go` with a redirect to the URL and everything else with `hello`; returns its address.
fn web(url: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap_or_default();
            let answer = match head[..length].starts_with(b"GET /go ") {
                true => format!("302 Found\r\nLocation: {url}\r\nContent-Length: 0"),
                false => "200 OK\r\nContent-Length: 5".to_owned(),
            };
            let _ = write!(stream, "HTTP/1.1 {answer}\r\nConnection: close\r\n\r\nhello");
        }
    });
    address
}

#[test]
fn requests() {
    let mut scene = Scene::new();
    let forbidden = format!("http://{}/", scene.service());
    let allowed = web(forbidden.clone());
    scene.settings = format!("[approvals]\nallow = [\"http_request\"]\n[http]\nallow = [\"{allowed}\"]\n");
    let headers = json!({"Host": "metadata.google.internal"});
    let host = json!({"method": "GET", "url": format!("http://{allowed}/"), "headers": headers});
    let not_public = Refused("refused_address", "not on the public network");

    scene.attack([
        (get(forbidden), not_public),
        (
            get("http://169.254.169.254/latest/meta-data/".to_owned()),
            not_public,
        ),
        (get("file:///etc/passwd".to_owned()), Refused("refused", "file")),
        (get(format!("http://{allowed}/go")), not_public),
        (("http_request", host), Refused("refused", "host")),
        (get(format!("http://{allowed}/")), Done("hello")),
    ]);

    assert!(!scene.is_reached());
}

#[test]
fn a_request_without_an_allowing_rule_waits_for_approval() {
    let mut scene = Scene::new();
    scene.settings = format!("[http]\nallow = [\"{}\"]\n", scene.service());
    let observed = scene.run(vec![get(format!("http://{}/", scene.service()))]);
    assert_eq!(observed.ended.code(), Some(WAITS), "{}", observed.ended);
    assert!(observed.told.is_empty() && observed.journaled.is_empty());
    assert!(!scene.is_reached());
}

#[test]
fn denied_calls_stay_denied_in_every_spelling() {
    let scene = Scene::with_settings("[approvals]\ndeny = [\"execute_command(command: rm *)\"]\n");
    scene.place.write("keep.txt", "keep");
    let denied = NotRun("denied_by_rule", "rm *");
    scene.attack([
        (run(json!(["rm", "keep.txt"])), denied),
        (run("rm keep.txt"), denied),
        (run("cd . && rm keep.txt"), denied),
        (run(json!(["sh", "-c", "true; rm keep.txt"])), denied),
        (run("'r'm keep.txt"), denied),
    ]);
    assert!(scene.exists("keep.txt"));
}

#[test]
fn a_read_only_agent_changes_nothing() {
    let mut scene = Scene::with_settings(
        "[approvals]\nallow = [\"http_request\", \"execute_sql\"]\n[connections.app]\ndatabase = \"sqlite\"\npath = \"app.db\"\naccess = \"read-write\"\n",
    );
    scene.agent = ("read-only", "search, file_operations, execute_sql, http_request");
    Connection::open(scene.place.work().join("app.db"))
        .unwrap()
        .execute_batch("CREATE TABLE notes (text)")
        .unwrap();
    let post = json!({"method": "POST", "url": format!("http://{}/", scene.service()), "body": "mine"});
    scene.attack([
        (write("notes.txt"), NotRun("access_denied", "read-only access")),
        (
            sql("app", "DELETE FROM notes"),
            NotRun("access_denied", "read-only access"),
        ),
        (
            ("http_request", post),
            NotRun("access_denied", "read-only access"),
        ),
        (run("touch made"), NotRun("access_denied", "execute_command")),
    ]);
    assert!(!scene.exists("notes.txt") && !scene.exists("made") && !scene.is_reached());
}
