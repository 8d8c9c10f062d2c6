//! After calls of every kind, with every outcome, nothing is left: no open descriptor, no process, no temporary file.
//!
//! This file has only one test, since the descriptors of other tests in the same process would be counted too.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use dirigent::tools::{
    Connection, Connections, Database, HttpRules, Sandbox, execute_command, execute_sql, http_request,
};
use dirigent::{Builder, EndReason, EventKind, Policy, Rule, Ruling};
use dirigent_core::tool::Access;
use dirigent_model_server::{ModelServer, Script};
use dirigent_tests::cli::{Place, Watched};
use dirigent_tests::scripted::{Scripted, achieved, call, calls, delegate, plan, says};
use dirigent_tests::served::{self, Served, is_lead, is_reflector};
use dirigent_tests::stage::{Stage, agent, until};
use serde_json::{Value, json};

/// Iterations that are compared with the first one.
const ROUNDS: usize = 3;
/// Time allowed for killed processes and closed sockets to disappear; after that, they count as leaked.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn host_8_calls_of_every_kind_with_every_outcome_leave_nothing_behind() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(calls_leave_nothing());
    drop(runtime);
    interrupted_command_leaves_nothing();
}

async fn calls_leave_nothing() {
    let server = ModelServer::start(Script::turns([])).await.unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let world = World {
        answers: server.url(),
        silent: format!("http://{}/", silent.local_addr().unwrap()),
    };

    // The first iteration creates everything that is created once per process, such as the cache of certificates.
    world.iteration().await;
    // The journal of a dropped orchestrator is closed a moment later.
    wait_for(|| !descriptors().keys().any(|kind| kind.ends_with(" (deleted)")));
    let first = descriptors();
    for _ in 0..ROUNDS {
        world.iteration().await;
    }

    wait_for(|| more_than(&first).is_empty());
    assert_eq!(more_than(&first), BTreeMap::new(), "descriptors are left open");
    wait_for(|| children().is_empty());
    assert_eq!(children(), BTreeSet::new(), "processes are left");
}

/// The servers that network calls use.
struct World {
    /// The URL of a server that answers.
    answers: String,
    /// The URL of a server that never answers.
    silent: String,
}

impl World {
    /// A run whose calls end by themselves, a cancelled run, and a run whose orchestrator is dropped.
    async fn iteration(&self) {
        let stage = Stage::new()
            .file("notes.txt", "one\ntwo\n")
            .file("src/lib.rs", "fn old() {}\n");
        self.ended(&stage).await;
        check_only(&stage, &["app.db", "kept.txt", "notes.txt", "src"]);
        let stage = Stage::new();
        self.stopped(&stage, Stop::Cancel).await;
        check_only(&stage, &[]);
        let stage = Stage::new();
        self.stopped(&stage, Stop::Drop).await;
        wait_for(|| processes_in(&stage.workspace()).is_empty());
        assert_eq!(processes_in(&stage.workspace()), BTreeSet::new());
    }

    async fn ended(&self, stage: &Stage) {
        let tasks: Vec<Value> = self
            .calls()
            .into_iter()
            .enumerate()
            .map(|(number, call)| calls(&format!("t{number}"), [call]))
            .collect();
        let count = tasks.len();
        let submitted = json!({"summary": "All kinds.", "subtasks": tasks});
        let model = Scripted::new()
            .lead([dirigent_tests::scripted::last_call("submit_plan", submitted)])
            .reflector([achieved("Enough.")]);
        let dirigent = self.builder(stage, model.clone()).build().await.unwrap();

        let run = dirigent
            .start(stage.goal("Call all kinds of tools"))
            .await
            .unwrap();
        let report = run.outcome().await.unwrap();

        let asked: Vec<String> = model
            .lead_asked()
            .iter()
            .map(|asked| asked.last().to_owned())
            .collect();
        assert_eq!(report.end, Some(EndReason::GoalAchieved), "{asked:#?}");
        assert_eq!(report.iterations[0].observations.len(), count);
    }

    async fn stopped(&self, stage: &Stage, stop: Stop) {
        let line = "setsid sleep 1000 & trap '' TERM; mktemp; sleep 1000";
        let model = Scripted::new()
            .lead([plan("Wait.", [delegate("wait", "waiter", "Wait.")])])
            .agent(
                "waiter",
                [
                    call("execute_command", json!({"command": ["sh", "-c", line]})),
                    says("Done."),
                ],
            );
        let waiter = agent("waiter", &["execute_command"]).access(Access::Execute);
        let dirigent = self.builder(stage, model).agent(waiter).build().await.unwrap();

        let run = dirigent.start(stage.goal("Wait")).await.unwrap();
        until(&mut run.events(0), |kind| {
            matches!(kind, EventKind::ToolStarted { .. })
        })
        .await;
        wait_for(|| !processes_in(&stage.workspace()).is_empty());
        match stop {
            Stop::Cancel => {
                run.cancel().unwrap();
                let report = run.outcome().await.unwrap();
                assert_eq!(report.end, Some(EndReason::Cancelled));
            }
            Stop::Drop => {
                drop(dirigent);
                assert!(run.outcome().await.is_err());
            }
        }
    }

    fn builder(&self, stage: &Stage, model: Scripted) -> Builder {
        let app = Connection {
            database: Database::Sqlite {
                path: "app.db".into(),
            },
            access: Access::ReadWrite,
            max_rows: 200,
            timeout: Duration::from_secs(1),
        };
        let host = |url: &str| url.split('/').nth(2).unwrap().to_owned();
        let http = HttpRules {
            allow: vec![host(&self.answers), host(&self.silent)],
            timeout: Duration::from_secs(1),
            ..HttpRules::default()
        };
        let rules = ["http_request", "execute_sql"].map(|calls| Rule {
            ruling: Ruling::Allow,
            calls: calls.parse().unwrap(),
        });
        stage
            .builder(model)
            .policy(Policy { rules: rules.into() })
            .tool(execute_command(&Sandbox::default()))
            .tool(execute_sql(&Connections::from([("app".to_owned(), app)])))
            .tool(http_request(&http))
    }

    /// Calls that succeed, fail or time out.
    fn calls(&self) -> Vec<(&'static str, Value)> {
        let command = |line: &str| {
            (
                "execute_command",
                json!({"command": ["sh", "-c", line], "timeout_seconds": 1}),
            )
        };
        let file = |parameters| ("file_operations", parameters);
        let sql = |sql: &str| {
            (
                "execute_sql",
                json!({"operation": "change", "connection": "app", "sql": sql}),
            )
        };
        let get = |url: &str| ("http_request", json!({"method": "GET", "url": url}));
        vec![
            command("mktemp"),
            command("exit 3"),
            command("sleep 1000"),
            command("trap '' TERM; setsid sleep 1000 & sleep 1000"),
            command("setsid sleep 1000 >/dev/null 2>&1 & echo started"),
            command("sleep 1000 & echo started"),
            command("yes flood | head -c 10000000"),
            ("execute_command", json!({"command": ["no-such-program"]})),
            file(json!({"operation": "write", "path": "kept.txt", "content": "kept"})),
            file(json!({"operation": "write", "path": "notes.txt", "content": "three\n"})),
            file(json!({"operation": "write", "path": "../out.txt", "content": "out"})),
            file(json!({"operation": "read", "path": "notes.txt"})),
            file(json!({"operation": "read", "path": "no-such-file"})),
            file(json!({"operation": "list"})),
            ("search", json!({"pattern": "o"})),
            ("rename_symbol", json!({"from": "nothing", "to": "new"})),
            (
                "apply_patch",
                json!({"patch": "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1 +1 @@\n-nothing\n+mine\n"}),
            ),
            sql("CREATE TABLE IF NOT EXISTS notes (text)"),
            sql("SELECT * FROM nowhere"),
            sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"),
            get(&format!("{}/models", self.answers)),
            get(&format!("{}/nothing", self.answers)),
            get(&self.silent),
            get("http://127.0.0.1:9/"),
        ]
    }
}

/// How a run is stopped while one of its commands runs.
#[derive(Clone, Copy)]
enum Stop {
    Cancel,
    Drop,
}

/// Interrupts the `dirigent` command itself while one of its commands runs.
fn interrupted_command_leaves_nothing() {
    let script = Script::from_fn(|request| match () {
        () if is_lead(request) => served::plan("Wait.", [delegate("wait", "implement", "Wait.")]),
        () if is_reflector(request) => served::go_on("More."),
        () => served::command(&[
            "sh",
            "-c",
            "setsid sleep 1000 & trap '' TERM INT; mktemp; sleep 1000",
        ]),
    });
    let served = Served::new("", script);
    let mut command = served
        .place
        .command(["run", "Wait", "--workspace", "work", "--json"]);

    let mut watched = Watched::start(&mut command);
    watched.wait_for(|event| event.to_string().contains("tool_started"));
    let process = rustix::process::Pid::from_raw(i32::try_from(watched.id()).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let _ = watched.end().with_code(130);

    check_gone(&served.place);
    assert_eq!(
        names(&served.place.temporary()),
        BTreeSet::new(),
        "temporary files are left"
    );
    assert_eq!(names(&served.place.work()), BTreeSet::new());
}

fn check_gone(place: &Place) {
    wait_for(|| place.command_lines().is_empty());
    assert_eq!(place.command_lines(), [] as [&str; 0], "processes are left");
}

/// Checks that the workspace contains exactly these files, and that no process works in it.
#[track_caller]
fn check_only(stage: &Stage, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|&name| name.to_owned()).collect();
    // SQLite's own file for an interrupted statement disappears with the thread that executed the statement.
    wait_for(|| names(&stage.workspace()) == expected);
    assert_eq!(names(&stage.workspace()), expected, "in the workspace");
    wait_for(|| processes_in(&stage.workspace()).is_empty());
    assert_eq!(
        processes_in(&stage.workspace()),
        BTreeSet::new(),
        "processes are left"
    );
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

/// The number of open descriptors of this process, by kind.
fn descriptors() -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        // The descriptor that reads this list is closed by now.
        if let Ok(target) = fs::read_link(entry.path()) {
            // Sockets and pipes are numbered; the digits are removed to group them.
            let kind = target.to_string_lossy().replace(|c: char| c.is_ascii_digit(), "");
            *found.entry(kind).or_default() += 1;
        }
    }
    found
}

/// The number of additional descriptors of each kind since `before`.
fn more_than(before: &BTreeMap<String, usize>) -> BTreeMap<String, usize> {
    let more = descriptors().into_iter().map(|(kind, count)| {
        let had = before.get(&kind).copied().unwrap_or_default();
        (kind, count.saturating_sub(had))
    });
    more.filter(|(_, more)| *more > 0).collect()
}

/// The children of this process, with their command lines.
fn children() -> BTreeSet<String> {
    let ours = format!("PPid:\t{}", std::process::id());
    processes(|process| {
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        status.lines().any(|line| line == ours)
    })
}

/// The processes whose current folder is in this folder, whatever their parent is now.
fn processes_in(folder: &Path) -> BTreeSet<String> {
    processes(|process| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)))
}

fn processes(fits: impl Fn(&Path) -> bool) -> BTreeSet<String> {
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter(|path| path.join("status").exists() && fits(path))
        .map(|path| {
            let line = fs::read(path.join("cmdline")).unwrap_or_default();
            format!(
                "{}: {}",
                path.display(),
                String::from_utf8_lossy(&line).replace('\0', " ")
            )
        })
        .collect()
}

fn wait_for(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() && start.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
}
